"""Two live replicas, as benchmarks.cpu.replicas measured them, beside the simulator.

    python -m benchmarks.cpu.replicas_simulated          prints; some minutes
    python -m benchmarks.cpu.replicas_simulated --save   stores both for appendix H, too

It needs the extra [ray], for one number only, as make test-ray's environment has it.
The costs of a step are fitted to one engine in this process, on traces of other seeds.
What lies outside of an engine (HTTP, the front, Ray, the router) is one number: how
long the first token of a lone request of three tokens took live, less what the fit says
of its step. Nothing else is taken from the live run. The simulator gets its trace, its
pools, its policy and these costs. It says how much is found, and when first tokens
come.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import torch
from transformers import GenerationConfig

import minipaged as mp
from benchmarks.cpu.replicas import Spoken, ask, replicas
from minipaged.lab.measure.busy_clock import BusyClock
from minipaged.lab.measure.engine_report import EngineReport
from minipaged.lab.measure.machine import describe_machine
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.progress import progress_bar
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.routing import PrefixAware, RoundRobin
from minipaged.simulate.cluster import simulate_cluster
from minipaged.simulate.cluster_report import ClusterReport
from minipaged.simulate.costs import StepLoad
from minipaged.simulate.fit import FittedCosts, fit
from minipaged.simulate.loop import Replica
from minipaged.simulate.shared_prefixes import applications
from minipaged.simulate.traces import Asked

ROOT = Path(__file__).parents[2]
LIVE = ROOT / "figures" / "data" / "cpu-replicas.json"
OUT = ROOT / "minipaged" / "lab" / "measure" / "data" / "replicas-cpu.json"
LIMITS = {"max_tokens": 2048, "max_sequences": 256}  # of a replica's engine
LONE = StepLoad(3, 1, 1, 3, 6)  # a prompt of three tokens
SEEDS = range(101, 105)
NUM_LONE = 30


async def lone_seconds(url: str) -> list[float]:
    """To the first token of requests of three tokens, one after another."""
    lone = Spoken(0.0, [5, 6, 7], [0])
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        return [
            (await ask(client, lone, "", time.perf_counter()))[0]
            for _ in range(NUM_LONE)
        ]


def lone_ttft_ms() -> float:
    """The median of live requests that have both replicas for themselves."""
    with replicas("round-robin") as url:
        return 1000 * median(asyncio.run(lone_seconds(url)))


def timed(paged: mp.PagedModel, trace: list[Asked]) -> EngineReport:
    """One engine serves the trace, whose tokens are made up; each step is timed.

    On a clock that counts what this thread computes: so other programs do not count.
    """
    vocabulary = paged.model.config.vocab_size
    cache = mp.PrefixCache(paged.pool)
    with mp.Engine(paged, cache, clock=BusyClock(), **LIMITS) as engine:
        report = EngineReport(engine)
        streams = []
        for asked in trace:
            prompt = [5 + token % (vocabulary - 5) for token in asked.prompt]
            config = GenerationConfig(
                max_new_tokens=asked.lengths[0], eos_token_id=vocabulary
            )
            streams.append(engine.add(prompt, config, arrival=asked.arrival))
        engine.run()
    return report.tell(streams)


def fitted(live: dict[str, Any]) -> tuple[FittedCosts, float]:
    """Costs of a step; how far they are off on a trace that they were not fitted to."""
    torch.set_num_threads(1)
    model, _ = mp.load("pocket", device="cpu")
    paged = mp.PagedModel(
        model, num_blocks=live["num_blocks"], block_size=live["block_size"]
    )
    shape = live["trace"] | {"count": 12}
    reports = []
    for seed in progress_bar(SEEDS, desc="fit", unit=" loads"):
        # Half and twice the rate, so that batches are small and large.
        rate = shape["rate"] * (0.5 if seed % 2 else 2.0)
        trace = applications(**shape | {"seed": seed, "rate": rate})
        reports.append(timed(paged, trace))
    *known, unknown = reports
    costs = fit([mean for report in known for mean in report.means(4)])
    return costs, costs.error(unknown.means(4))


def simulated(
    live: dict[str, Any], costs: FittedCosts, trace: list[Asked]
) -> dict[str, ClusterReport]:
    """Both routers before two replicas like the live ones."""
    num_blocks, block_size = live["num_blocks"], live["block_size"]

    def make() -> Replica:
        pool = BlockPool(num_blocks, block_size)
        return Replica(PreemptingScheduler(pool, PrefixCache(pool), **LIMITS), costs)

    prefix = PrefixAware(live["factor"], live["spare"], num_blocks)
    policies = {"round-robin": RoundRobin(), "prefix": prefix}
    return {
        name: simulate_cluster(make, live["replicas"], trace, policy)
        for name, policy in policies.items()
    }


def beside(
    live: dict[str, Any], lone: float, costs: FittedCosts, error: float
) -> dict[str, Any]:
    """Live and simulated figures of each router, and how far the ratios are off.

    lone: milliseconds to the first token of a lone request.
    """
    trace = applications(**live["trace"])
    outside = lone - 1000 * costs.seconds_of(LONE)
    routers = {}
    for name, report in simulated(live, costs, trace).items():
        measured = live["routers"][name]
        wait = report.wait("time_to_first_token")
        routers[name] = {
            "live": {
                "hit_rate": measured["hit_rate"],
                "ttft_ms": measured["ttft_ms"],
                "balance": measured["balance_of_requests"],
            },
            "simulated": {
                "hit_rate": round(report.hit_rate, 4),
                "ttft_ms": {
                    what: round(1000 * seconds + outside, 2)
                    for what, seconds in wait._asdict().items()
                },
                "balance": round(
                    max(life.num_sent for life in report.lives)
                    * len(report.lives)
                    / len(trace),
                    4,
                ),
            },
        }

    def ratio(side: str, what: str) -> float:
        turns, prefix = (routers[name][side] for name in ("round-robin", "prefix"))
        if what == "ttft":
            return prefix["ttft_ms"]["mean"] / turns["ttft_ms"]["mean"]
        return prefix["hit_rate"] / turns["hit_rate"]

    return {
        "machine": describe_machine() | {"threads": 1},
        "live_machine": live["machine"],
        "load_before": live["load_before"],
        "trace": live["trace"],
        "requests": len(trace),
        "replicas": live["replicas"],
        "num_blocks": live["num_blocks"],
        "block_size": live["block_size"],
        "factor": live["factor"],
        "spare": live["spare"],
        "repeated": live["repeated"],
        "wrong": sum(live["routers"][name]["wrong"] for name in routers),
        "costs": {name: float(f"{x:.4g}") for name, x in costs.seconds.items()},
        "free_tokens": costs.free_tokens,
        "error_of_the_fit": round(error, 4),
        "lone_ttft_ms": round(lone, 2),
        "outside_ms": round(outside, 2),
        "routers": routers,
        "ratios": {
            what: {
                "live": round(ratio("live", what), 4),
                "simulated": round(ratio("simulated", what), 4),
                "off": round(ratio("simulated", what) / ratio("live", what) - 1, 4),
            }
            for what in ("hit_rate", "ttft")
        },
    }


def main() -> None:
    """Fit, simulate, print, and store if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--live", type=Path, default=LIVE, help="the live run's file")
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    given = parser.parse_args()
    live = json.loads(given.live.read_text())
    found = beside(live, lone_ttft_ms(), *fitted(live))
    print(json.dumps(found, indent=1))
    if given.save:
        OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
