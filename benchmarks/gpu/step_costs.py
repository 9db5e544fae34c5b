"""What an engine's steps take: a grid of batches, for `minipaged.simulate`.

    python -m benchmarks.gpu.step_costs --out h100.json
    python -m benchmarks.gpu.step_costs --run graphs --model Qwen/Qwen3-0.6B
    python -m minipaged.simulate --costs h100.json

A model of Qwen3-0.6B's shape with random weights, in bfloat16, unless another one is
named. Timed is the wall clock over a window of steps, warm, from one to the next: so
the host's part is in it. In a window all steps do nearly the same: sequences decode,
alone, or beside parts of a long prompt. A row is the mean step of a window.

A simulation fits its costs to the rows of one grid; the rows of another grid, with
other sizes, say how far it is off. Both are stored, with the pool's size.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import torch

import minipaged as mp
from benchmarks.gpu.engine import NUM_BLOCKS, RUNS
from benchmarks.gpu.shapes import random_model
from benchmarks.gpu.workloads import VOCABULARY, sampled
from minipaged.lab.measure.machine import describe_machine
from minipaged.model.positions import num_positions
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.simulate.costs import StepLoad, load_of
from minipaged.simulate.fit import Measured, fit

STEPS = 20  # of a window


class Window(NamedTuple):
    """Sequences that decode after so many tokens, and part of a prompt beside them."""

    num_sequences: int
    context: int
    part: int = 0  # prompt tokens in each step


class Grids(NamedTuple):
    """Windows to fit costs to, and windows to test them."""

    fit: list[Window]
    test: list[Window]


def grids() -> Grids:
    """For a GPU: up to 256 sequences, contexts of up to 2,048 tokens."""
    decodes = [
        Window(count, context)
        for count in (1, 4, 16, 32, 64, 128, 256)
        for context in (32, 512, 2048)
    ]
    mixed = [
        Window(count, 512, part)
        for count in (1, 32, 128)
        for part in (64, 256, 1024, 2048)
    ]
    test = [Window(c, context) for c in (2, 24, 96, 192) for context in (200, 1200)]
    test += [Window(count, 900, part) for count in (8, 64) for part in (128, 700, 1500)]
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
    paged: mp.PagedModel, windows: Sequence[Window], run: str, steps: int = STEPS
) -> Iterator[dict[str, float]]:
    """For each window, its mean step: the fields of StepLoad, and seconds."""
    for window in windows:
        loads = Loads()
        limits = {"max_tokens": 8192, "max_sequences": window.num_sequences + 1}
        if window.part:  # what decoding leaves of a step is the part of the prompt
            limits["max_tokens"] = window.num_sequences + window.part
        with mp.Engine(paged, run=run, observers=[loads], **limits) as engine:
            yield _measured(engine, window, loads, steps)


def _measured(
    engine: mp.Engine, window: Window, loads: Loads, steps: int
) -> dict[str, float]:
    chance = Random(0)

    def add(count: int, num_new: int) -> None:
        prompt = [chance.randrange(1, VOCABULARY) for _ in range(count)]
        vocabulary = engine.paged.model.config.get_text_config().vocab_size
        engine.add([token % vocabulary for token in prompt], sampled(num_new))

    longest = num_positions(engine.paged.model.config) - 4 * steps
    if window.part:  # the prompt goes on before and after the window
        steps = min(steps, longest // window.part - 2)
    for _ in range(2):  # the first round loads kernels
        for _ in range(window.num_sequences):
            add(min(window.context, longest), 4 * steps + window.num_sequences)
        while any(not request.answers[0].num_new for request in engine.streams):
            engine.step()
        if len(engine.streams) < window.num_sequences:
            raise ValueError("a sequence has ended early; the model must have no eos")
        if window.part:
            add(window.part * (steps + 2), 1)
        engine.step()  # it begins with this one: a step ahead may be in flight
        first = len(loads.steps)
        _synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            engine.step()
        _synchronize()
        seconds = (time.perf_counter() - start) / steps
        for stream in list(engine.streams.values()):
            engine.abort(stream)
    done = loads.steps[first : first + steps]
    means = {name: fmean(each) for name, each in zip(
        StepLoad._fields, zip(*done, strict=True), strict=True)}  # fmt: skip
    return means | {"seconds": seconds}


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def store(
    paged: mp.PagedModel, found: Grids, run: str, out: Path | None
) -> dict[str, Any]:
    """Measure both grids, and write them where `minipaged.simulate` reads them."""
    config = paged.model.config
    stored: dict[str, Any] = {
        "machine": describe_machine(),
        "model": config.name_or_path or config.model_type,
        "run": run,
        "num_slots": paged.pool.num_blocks * paged.pool.block_size,
        "max_length": num_positions(config),
        "block_size": paged.pool.block_size,
    }
    for name, windows in zip(Grids._fields, found, strict=True):
        stored[name] = []
        for window, row in zip(windows, measure(paged, windows, run), strict=True):
            stored[name].append(row)
            print(name, *window, f"{1e3 * row['seconds']:.3f} ms", flush=True)
            if out:
                out.write_text(json.dumps(stored, indent=1) + "\n")
    return stored


def main() -> None:
    """Measure, fit, and say how far the fit is off."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", default="compiled", choices=RUNS)
    parser.add_argument("--model", help="a folder, or an id on the hub")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    model = random_model()
    if given.model:
        model, _ = mp.load(given.model, dtype=torch.bfloat16, device="cuda")
        model.generation_config.eos_token_id = None
    paged = mp.PagedModel(model, NUM_BLOCKS, attention="triton")
    stored = store(paged, grids(), given.run, given.out)
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
