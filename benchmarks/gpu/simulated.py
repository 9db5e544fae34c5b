"""The engine beside its simulator, on loads that the simulator's costs do not know.

    python -m benchmarks.gpu.step_costs --out costs.json
    python -m benchmarks.gpu.simulated --costs costs.json --out served.json

The engine serves made-up loads in true time, with a model of random weights.
Each answer has the length that the trace says. Stored are all requests and all steps;
`minipaged.simulate.validation` reads them, and simulates the same loads.
"""

import argparse
import gc
import json
import time
from pathlib import Path
from typing import Any

import minipaged as mp
from benchmarks.gpu.engine import NUM_BLOCKS, RUNS, warm_up
from benchmarks.gpu.shapes import SHAPES, random_model
from benchmarks.gpu.workloads import sampled, uniform
from minipaged.lab.measure.engine_report import EngineReport
from minipaged.lab.measure.machine import describe_machine
from minipaged.simulate.costs import CostModel
from minipaged.simulate.fit import fitted_server
from minipaged.simulate.validation import Limits, Load, Validation, beside, stored

LOADS = {
    "qwen3-0.6b": {
        "chats": Load("sharegpt", 900, 60.0),
        "chats, near saturation": Load("sharegpt", 1500, 120.0, seed=1),
        "instructions": Load("alpaca", 3000, 250.0),
        "translations, shared prefix": Load("wmt", 2500, 200.0, prefix=341),
    },
    "llama-8b": {
        "chats": Load("sharegpt", 300, 20.0),
        "chats, near saturation": Load("sharegpt", 700, 55.0, seed=1),
        "translations, shared prefix": Load("wmt", 800, 80.0, prefix=341),
    },
}


def serve(paged: mp.PagedModel, load: Load, run: str, warm: bool = True) -> Validation:
    """Serve the load in true time, by an engine of its own, which is warmed up."""
    cache = mp.PrefixCache(paged.pool) if load.prefix else None
    with mp.Engine(paged, cache, run=run) as engine:
        if warm:
            warm_up(engine, uniform(64))
        if cache is not None:
            cache.clear()
        trace = load.trace()
        most = paged.model.config.get_text_config().vocab_size - 1
        # All will have been added by then.
        start = engine.clock.now() + 1 + len(trace) / 2000
        report = EngineReport(engine)
        streams = [
            engine.add(
                [1 + token % most for token in asked.prompt],
                sampled(asked.lengths[0]),
                arrival=start + asked.arrival,
            )
            for asked in trace
        ]
        gc.freeze()  # as Engine.serve advises
        begun = time.perf_counter()
        engine.run()
        gc.unfreeze()
        print(f"  {time.perf_counter() - begun:.1f} s", flush=True)
        limits = Limits(
            paged.pool.num_blocks,
            paged.pool.block_size,
            engine.scheduler.max_tokens,
            engine.scheduler.max_sequences,
        )
    report.tell(streams)
    report.served = [
        one._replace(
            arrival=one.arrival - start,
            first_token=one.first_token - start,
            end=one.end - start,
        )
        for one in report.served
    ]
    report.timeline = [
        moment._replace(end=moment.end - start) for moment in report.timeline
    ]
    return Validation(load, limits, run != "eager", report)


def table(validation: Validation, costs: CostModel) -> str:
    """Mean and P99 in milliseconds, measured and simulated, and how far they differ."""
    lines = []
    for row in beside(validation.report, validation.simulated(costs)):
        numbers = zip(
            ("mean", "P99"), row.measured, row.simulated, row.off, strict=True
        )
        lines += [
            f"  {row.name:20}{of:5}{1e3 * theirs:10.2f}{1e3 * ours:10.2f}{off:+8.1%}"
            for of, theirs, ours, off in numbers
        ]
    return "\n".join(lines)


def main() -> None:
    """Serve, store, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", default="compiled", choices=RUNS)
    parser.add_argument("--shape", default="qwen3-0.6b", choices=SHAPES)
    parser.add_argument("--costs", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    model = random_model(shape=given.shape)
    paged = mp.PagedModel(model, NUM_BLOCKS, attention="triton")
    costs = fitted_server(given.costs).costs
    found: dict[str, Any] = {
        "machine": describe_machine(),
        "shape": given.shape,
        "run": given.run,
    }
    found["validations"] = []
    for name, load in LOADS[given.shape].items():
        print(name, load, flush=True)
        validation = serve(paged, load, given.run)
        found["validations"].append({"name": name} | stored(validation, keep=500))
        if given.out:
            given.out.write_text(json.dumps(found) + "\n")
        print(table(validation, costs), flush=True)


if __name__ == "__main__":
    main()
