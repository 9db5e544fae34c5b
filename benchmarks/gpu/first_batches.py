"""Does anyone wait for a compiler? The first batch of each kind, and later ones.

    python -m benchmarks.gpu.first_batches --starts 3 --out first.json

An engine is made where nothing lies compiled: the compilers' files are in a new folder.
Then come batches of many kinds, one after another; of each kind four, with other tokens
but of the same lengths. Timed is a whole batch, from the first step to the last token.
A kernel that is compiled after the start is named. As `Engine.serve` advises, Python's
collector leaves alone what lives at the start: else a batch waits for it now and then.

A process has only one first batch of a kind, and something else may disturb it. So
there may be several starts, each in a process of its own. They share the compilers'
files. Of the rates, the median counts. Beside each batch, the speed of the CPU itself
is measured: it varies where others use the machine.
"""

import argparse
import gc
import json
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

ROUNDS = 4
BURSTS = 5


def kinds(number: int) -> dict[str, list[tuple[list[int], dict[str, Any]]]]:
    """Prompts and options of their configs; another number gives other tokens."""
    draw = random.Random(number)
    lengths = random.Random(0)

    def prompt(count: int) -> list[int]:
        return [draw.randrange(1, 10_000) for _ in range(count)]

    def alike(count: int, length: int, **options: Any) -> list[Any]:
        return [(prompt(length), options) for _ in range(count)]

    systems = [prompt(1500) for _ in range(4)]
    return {
        "even": alike(128, 300, new=100),
        "ragged": [
            (prompt(lengths.randint(20, 900)), {"new": 100}) for _ in range(128)
        ],
        "many short": alike(256, 20, new=60),
        "few long": alike(6, 6000, new=100),
        "one": alike(1, 1000, new=100),
        "shared prefixes": [
            (systems[n % 4] + prompt(lengths.randint(20, 100)), {"new": 60})
            for n in range(256)
        ],
        "top-k and top-p": alike(128, 200, new=100, top_k=20, top_p=0.95),
        "min-p": alike(64, 200, new=60, min_p=0.1),
        "penalties": alike(32, 200, new=60, repetition_penalty=1.2),
        "seeds": alike(32, 200, new=60, seed=1),
        "logprobs": alike(32, 200, new=60, logprobs=3),
        "n samples": alike(48, 200, new=100, num_return_sequences=4),
        "beams": alike(8, 200, new=60, num_beams=4),
    }


def config_of(new: int, **options: Any) -> Any:
    """Beams are greedy; all else is drawn."""
    from transformers import GenerationConfig

    from benchmarks.gpu.workloads import sampled

    if "num_beams" in options:
        return GenerationConfig(max_new_tokens=new, pad_token_id=0, **options)
    return sampled(new, **options)


def measure(run: str, only: list[str] | None = None) -> dict[str, Any]:
    """The engine's start, then the seconds of all batches of all kinds."""
    import torch
    from triton import knobs

    import minipaged as mp
    from benchmarks.gpu.shapes import random_model
    from minipaged.lab.measure.machine import describe_machine

    compiled: list[str] = []

    def note(*, fn: Any, already_compiled: bool = False, **_more: Any) -> None:
        if not already_compiled:
            compiled.append(fn.name)

    rounds = [kinds(number) for number in range(ROUNDS)]
    paged = mp.PagedModel(random_model(), 20_000, attention="triton")
    prefix = mp.PrefixCache(paged.pool)
    start = time.perf_counter()
    engine = mp.Engine(paged, prefix, run=run)
    torch.cuda.synchronize()
    found: dict[str, Any] = {
        "machine": describe_machine(),
        "run": run,
        "start_s": round(time.perf_counter() - start, 2),
    }
    gc.collect()
    gc.freeze()
    knobs.runtime.jit_post_compile_hook = note
    for kind in only or rounds[0]:
        seconds, paces = [], []
        compiled.clear()
        for batch in (each[kind] for each in rounds):
            for prompt, options in batch:
                own = dict(options)
                late = {n: own.pop(n) for n in ("seed", "logprobs") if n in own}
                engine.add(prompt, config_of(**own), **late)
            torch.cuda.synchronize()
            pace = cpu_seconds()
            begun = time.perf_counter()
            engine.run()
            seconds.append(time.perf_counter() - begun)
            paces.append(pace + cpu_seconds())
        found[kind] = {
            "seconds": [round(each, 4) for each in seconds],
            "first_over_later_rate": first_over_later(seconds),
            "of_the_cpu": first_over_later(paces),
            "compiled": list(compiled),
        }
        print(kind, found[kind], flush=True)
    knobs.runtime.jit_post_compile_hook = None
    found["arrivals"] = arrivals(engine)
    print(found["arrivals"], flush=True)
    gc.unfreeze()
    engine.close()
    return found


def first_over_later(seconds: list[float]) -> float:
    """The rate of the first, divided by the median rate of the others."""
    first, *later = seconds
    return round(median(later) / first, 3)


def cpu_seconds() -> float:
    """What the CPU takes for a fixed piece of Python."""
    begun, total = time.perf_counter(), 0
    for number in range(200_000):
        total += number
    return time.perf_counter() - begun


def arrivals(engine: Any) -> dict[str, Any]:
    """512 requests come at once while 128 decode: what `add` takes, and the steps.

    Their prompts are short: so the steps are long or not by what the CPU does, for to
    compute a long prompt takes the GPU longer anyway. Of each burst, the median and the
    longest of `add` and of 60 steps, in milliseconds.
    """
    bursts = [burst(engine, number) for number in range(BURSTS)]
    ratios = [longest / middle for _, (middle, longest) in bursts]
    return {
        "add_ms": [adds for adds, _ in bursts],
        "step_ms": [steps for _, steps in bursts],
        "longest_over_median_step": round(median(ratios), 2),
    }


def burst(engine: Any, number: int) -> list[list[float]]:
    """The median and the longest, in milliseconds, of `add` and of 60 steps."""
    from benchmarks.gpu.workloads import sampled

    draw = random.Random(number)
    prompts = [[draw.randrange(1, 10_000) for _ in range(8)] for _ in range(640)]
    for prompt in prompts[:128]:
        engine.add(prompt, sampled(400))
    for _ in range(100):
        engine.step()
    adds, steps = [], []
    for prompt in prompts[128:]:
        begun = time.perf_counter()
        engine.add(prompt, sampled(20))
        adds.append(1e3 * (time.perf_counter() - begun))
    begun = time.perf_counter()
    for _ in range(60):  # from step to step: Python's collector may run in between
        engine.step()
        ended = time.perf_counter()
        steps.append(1e3 * (ended - begun))
        begun = ended
    for stream in list(engine.streams.values()):
        engine.abort(stream)
    engine.run()
    return [[round(median(each), 3), round(max(each), 3)] for each in (adds, steps)]


def together(starts: list[dict[str, Any]]) -> dict[str, Any]:
    """One report of several starts: of each kind, all seconds, and the median rate."""
    found = dict(starts[0])
    found["start_s"] = [start["start_s"] for start in starts]
    for name in found.keys() & kinds(0).keys():
        rows = [start[name] for start in starts]
        rates = [row["first_over_later_rate"] for row in rows]
        found[name] = {
            "seconds": [row["seconds"] for row in rows],
            "first_over_later_rate": median(rates),
            "of_each_start": rates,
            "of_the_cpu": median(row["of_the_cpu"] for row in rows),
            "compiled": sorted({name for row in rows for name in row["compiled"]}),
        }
    found["arrivals"] = [start["arrivals"] for start in starts]
    return found


def main() -> None:
    """Measure; at the first start, with caches of compilers that are empty."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", default="compiled", choices=("graphs", "compiled"))
    parser.add_argument("--kinds", nargs="+", help="only these")
    parser.add_argument("--starts", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    starts = []
    with TemporaryDirectory() as folder:
        for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
            os.environ[name] = f"{folder}/{name}"  # of the processes to come
        for _ in range(given.starts):
            with ProcessPoolExecutor(1, get_context("spawn")) as own:
                starts.append(own.submit(measure, given.run, given.kinds).result())
            if given.out:  # after each start, because the next takes a while
                report = json.dumps(together(starts), indent=1)
                given.out.write_text(report + "\n")


if __name__ == "__main__":
    main()
