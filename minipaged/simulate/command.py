"""Lab: a run of servers from the command line: tables, and a picture.

    python -m minipaged.simulate
    python -m minipaged.simulate --load alpaca --rates 10 20 40 --html rates.html
    python -m minipaged.simulate --systems vllm-prefix-cache --load conversations \
        --replicas 4 --router prefix-aware --rates 1 2
    python -m minipaged.simulate --trace azure AzureLLMInferenceTrace_conv.csv
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from minipaged.simulate import trace_files, traces
from minipaged.simulate.fit import fitted_server
from minipaged.simulate.loop import Replica
from minipaged.simulate.pictures import load_page
from minipaged.simulate.report import Report, merged
from minipaged.simulate.router import ROUTERS, serve
from minipaged.simulate.servers import SERVERS
from minipaged.simulate.systems import SYSTEMS, VARIANTS, System


def _slug(name: str) -> str:
    """For the command line: "Orca (Max)" is orca-max."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


NAMES = {_slug(name): name for name in SYSTEMS | VARIANTS}
LOADS = {
    "sharegpt": traces.sharegpt_like,
    "alpaca": traces.alpaca_like,
    "wmt": traces.wmt_like,
    "chat": traces.chat_like,
}
FILES = {
    "azure": trace_files.azure,
    "burstgpt": trace_files.burstgpt,
    "mooncake": trace_files.mooncake,
}
COLUMNS = ("time_to_first_token", "time_per_token", "normalized_latency")


class Run(NamedTuple):
    """A system at a rate."""

    system: str
    rate: float  # requests a second
    report: Report


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    made = argparse.ArgumentParser(
        prog="python -m minipaged.simulate",
        description="Serve a made-up or recorded load with the real scheduler; a cost "
        "model says how long each step takes. Needs no GPU and no torch.",
    )
    add = made.add_argument
    default = " (default: %(default)s)"
    slugs = {_slug(name): server for name, server in SERVERS.items()}
    add("--server", choices=slugs, default="opt-13b", help="of the paper" + default)
    add("--costs", type=Path, help="a measured server: a file by gpu/step_costs.py")
    systems = ["vllm", "orca-oracle", "orca-max"]
    add("--systems", nargs="+", choices=NAMES, default=systems, metavar="SYSTEM",
        help=f"of {', '.join(NAMES)} (default: {' '.join(systems)})")  # fmt: skip
    loads = [*LOADS, "conversations"]
    add("--load", choices=loads, default="sharegpt", help=f"lengths{default}")
    add("--trace", nargs=2, metavar=("KIND", "FILE"),
        help=f"a recorded trace instead, of kind {', '.join(FILES)}")  # fmt: skip
    add("--rates", nargs="+", type=float, default=[1, 2, 4], metavar="RATE",
        help="requests a second (with --trace: times as fast)" + default)  # fmt: skip
    add("--minutes", type=float, default=2.0, help="of each run" + default)
    add("--seed", type=int, default=0, help="of lengths and arrivals" + default)
    add("--prefix", type=int, default=0, help="tokens that all prompts share")
    several = made.add_mutually_exclusive_group()
    several.add_argument("--samples", type=int, help="of each request")
    several.add_argument("--beams", type=int, help="of each request")
    add("--replicas", type=int, default=1, help="behind a router" + default)
    add("--router", choices=ROUTERS, default="least-loaded",
        help=f"who serves whom{default}")  # fmt: skip
    add("--html", type=Path, help="draw latencies and queues into this file")
    return made


def main(arguments: Sequence[str] | None = None) -> list[Run]:
    """Run, print, draw."""
    from minipaged.progress import progress_bar  # tqdm, at the edge only

    made = parser()
    given = made.parse_args(arguments)
    try:
        server = (
            fitted_server(given.costs)
            if given.costs
            else {_slug(name): each for name, each in SERVERS.items()}[given.server]
        )
        if min(*given.rates, given.minutes, given.replicas) <= 0:
            raise ValueError("rates, minutes and replicas must be more than 0")
        loads = {rate: _trace(given, rate) for rate in given.rates}
    except (KeyError, OSError, ValueError) as error:
        made.error(str(error))
    pairs = [(slug, rate) for slug in given.systems for rate in given.rates]
    runs = []
    for slug, rate in progress_bar(pairs, desc="simulate", unit=" runs"):
        fitting = [
            asked
            for asked in loads[rate]
            if len(asked.prompt) + max(asked.lengths) <= server.max_length
        ]
        name = NAMES[slug]
        report = _serve(given, (SYSTEMS | VARIANTS)[name], server, fitting)
        runs.append(Run(name, rate, report))
        left_out = len(loads[rate]) - len(fitting)
        if left_out and slug == given.systems[0]:
            print(f"left out: {left_out} requests over {server.max_length} positions")
    print(table(runs))
    if given.html:
        given.html.write_text(load_page(runs), "utf-8")
        print(f"drawn: {given.html}")
    return runs


def table(runs: Sequence[Run]) -> str:
    """Mean and P99 in seconds, how many ran at one time, and how many were preempted.

    With several replicas, the requests that ran at one time are those of one of them.
    """
    head = ("first token", "per token", "normalized")
    lines = [
        " " * 29 + "".join(f"{name + ' (s)':>18}" for name in head),
        f"{'system':20}{'rate':>8} " + f"{'mean':>9}{'P99':>9}" * 3
        + f"{'running':>9}{'preempted':>10}{'cached':>8}",
    ]  # fmt: skip
    for system, rate, report in runs:
        numbers = [number for name in COLUMNS for number in report.summary(name)]
        lines.append(
            f"{system:20}{rate:8g} "
            + "".join(f"{number:9.3f}" for number in numbers)
            + f"{report.mean_running:9.1f}{report.preemptions:10,}"
            + f"{report.share_cached:8.0%}"
        )
    return "\n".join(lines)


def _trace(given: argparse.Namespace, rate: float) -> list[traces.Asked]:
    """What is asked at this rate."""
    if given.trace:
        kind, path = given.trace
        if kind not in FILES:
            raise ValueError(f"--trace knows {', '.join(FILES)}, not {kind!r}")
        faster = (
            replace(asked, arrival=asked.arrival / rate) for asked in FILES[kind](path)
        )
        trace = [*takewhile(lambda asked: asked.arrival < given.minutes * 60, faster)]
    else:
        count = max(1, round(rate * given.minutes * 60))
        if given.load == "conversations":
            rounds = (1 + traces.ROUNDS) / 2  # in the mean
            trace = traces.conversations(count, rate / rounds, given.seed)
        else:
            lengths = LOADS[given.load](count, given.seed)
            trace = traces.poisson(lengths, rate, given.seed, given.prefix)
    if given.samples:
        return traces.with_samples(trace, given.samples)
    return traces.with_beams(trace, given.beams) if given.beams else trace


def _serve(
    given: argparse.Namespace, system: System, server: Any, trace: list[traces.Asked]
) -> Report:
    replicas = [Replica(system(server), server) for _ in range(given.replicas)]
    router = ROUTERS[given.router]()
    return merged(serve(replicas, traces.arrivals(trace), router))
