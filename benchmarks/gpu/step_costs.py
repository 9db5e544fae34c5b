"""What an engine's steps take: a grid of batches, for `minipaged.simulate`.

    python -m benchmarks.gpu.step_costs --out h100.json
    python -m benchmarks.gpu.step_costs --shape llama-8b
    python -m minipaged.simulate --costs h100.json

The models have random weights, in bfloat16. Timed is the wall clock over a window of
steps, warm, from one to the next: so the host's part is in it. In a window all steps do
nearly the same: sequences decode, alone, or beside new prompts. A row is the mean step
of a window, in the shortest of some rounds.

A simulation fits its costs to the rows of one grid; the rows of another grid, with
other sizes, say how far it is off. Both are stored, with the pool's size.
"""

import argparse
import gc
import json
import time
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import torch

import minipaged as mp
from benchmarks.gpu.engine import NUM_BLOCKS, RUNS
from benchmarks.gpu.shapes import SHAPES, random_model
from benchmarks.gpu.workloads import VOCABULARY, sampled
from minipaged.lab.measure.machine import describe_machine
from minipaged.model.positions import num_positions
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.simulate.costs import StepLoad, load_of
from minipaged.simulate.fit import Measured, fit

STEPS = 20  # of a window


class Window(NamedTuple):
    """Sequences that decode after so many tokens, and new prompts beside them."""

    num_sequences: int
    context: int
    num_prompts: int = 0  # that come with each step
    prompt: int = 0  # tokens of each


class Grids(NamedTuple):
    """Windows to fit costs to, and windows to test them."""

    fit: list[Window]
    test: list[Window]


def grids() -> Grids:
    """For a GPU: up to 256 sequences, and steps of up to 2,048 tokens."""
    decodes = [
        Window(count, context)
        for count in (1, 8, 16, 32, 64, 96, 128, 192, 256)
        for context in (70, 405)
    ]
    decodes += [Window(count, 1100) for count in (1, 32, 96, 192)]
    mixed = [
        Window(count, 400, *prompts)
        for count in (1, 32, 160)
        for prompts in ((1, 30), (1, 150), (1, 500), (1, 1700), (4, 60), (8, 150))
    ]
    test = [Window(c, context) for c in (2, 24, 80, 224) for context in (200, 800)]
    test += [
        Window(count, 600, *prompts)
        for count in (12, 120)
        for prompts in ((1, 80), (1, 900), (3, 300))
    ]
    return Grids(decodes + mixed, test)


class Loads(Observer):
    """Notes what each planned step does."""

    def __init__(self) -> None:
        """No step yet."""
        self.steps: list[StepLoad] = []

    def planned(self, plan: Plan) -> None:
        """Called by the engine."""
        self.steps.append(load_of(plan))


def measure(
    engine: mp.Engine, windows: Sequence[Window], steps: int = STEPS
) -> Iterator[dict[str, float]]:
    """For each window, its mean step: the fields of StepLoad, and seconds."""
    loads = Loads()
    engine.scheduler.observers.append(loads)
    for window in windows:
        yield _measured(engine, window, loads, steps)


def _measured(
    engine: mp.Engine, window: Window, loads: Loads, steps: int
) -> dict[str, float]:
    chance = Random(0)
    config = engine.paged.model.config.get_text_config()
    most = min(VOCABULARY, config.vocab_size)

    def add(count: int, num_new: int) -> None:
        engine.add([chance.randrange(1, most) for _ in range(count)], sampled(num_new))

    def step() -> None:
        for _ in range(window.num_prompts):
            add(window.prompt, 1)
        engine.step()

    count, context = window[:2]
    prefills = count * context // engine.scheduler.max_tokens
    for _ in range(count):
        add(context, 2 * prefills + 4 * steps + 40)
    while any(not request.answers[0].num_new for request in engine.streams):
        engine.step()
    if len(engine.streams) < count:
        raise ValueError("a sequence has ended early; the model must have no eos")
    for _ in range(steps // 2):  # the first ones load kernels
        step()
    first = len(loads.steps)  # planned; the last of them may be in flight
    _synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    _synchronize()
    seconds = (time.perf_counter() - start) / steps
    done = loads.steps[first : first + steps]
    for stream in list(engine.streams.values()):
        engine.abort(stream)
    engine.run()
    means = {name: fmean(each) for name, each in zip(
        StepLoad._fields, zip(*done, strict=True), strict=True)}  # fmt: skip
    return means | {"seconds": seconds}


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def store(
    paged: mp.PagedModel,
    found: Grids,
    run: str,
    out: Path | None,
    shape: str,
    rounds: int,
) -> dict[str, Any]:
    """Measure both grids, and write them where `minipaged.simulate` reads them."""
    config = paged.model.config
    stored: dict[str, Any] = {
        "machine": describe_machine(),
        "shape": shape,
        "run": run,
        "num_slots": paged.pool.num_blocks * paged.pool.block_size,
        "max_length": num_positions(config),
        "block_size": paged.pool.block_size,
    }
    with mp.Engine(paged, run=run) as engine:
        gc.freeze()  # as Engine.serve advises: else a window may hold a pause
        measured = [
            [list(measure(engine, windows)) for windows in found] for _ in range(rounds)
        ]
        gc.unfreeze()
    for name, windows, *found_rows in zip(Grids._fields, found, *measured, strict=True):
        rows = [
            min(each, key=itemgetter("seconds"))
            for each in zip(*found_rows, strict=True)
        ]
        stored[name] = rows
        for window, row in zip(windows, rows, strict=True):
            print(name, *window, f"{1e3 * row['seconds']:.3f} ms")
    if out:
        out.write_text(json.dumps(stored, indent=1) + "\n")
    return stored


def main() -> None:
    """Measure, fit, and say how far the fit is off."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", default="compiled", choices=RUNS)
    parser.add_argument("--shape", default="qwen3-0.6b", choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    model = random_model(shape=given.shape)
    paged = mp.PagedModel(model, NUM_BLOCKS, attention="triton")
    stored = store(paged, grids(), given.run, given.out, given.shape, given.rounds)
    rows = [
        [Measured(StepLoad(**{n: row[n] for n in StepLoad._fields}), row["seconds"])
         for row in stored[name]]
        for name in Grids._fields
    ]  # fmt: skip
    costs = fit(rows[0])
    print({name: f"{seconds:.3g}" for name, seconds in costs.seconds.items()})
    print(f"free tokens: {costs.free_tokens}")
    print(f"off by {costs.error(rows[0]):.1%} where fitted, {costs.error(rows[1]):.1%} "
          "elsewhere")  # fmt: skip


if __name__ == "__main__":
    main()
