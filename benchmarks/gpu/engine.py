"""The engine on a GPU: output tokens a second, and what a step is made of.

    python -m benchmarks.gpu.engine                      all ways to run
    python -m benchmarks.gpu.engine --runs graphs --out engine.json
    python -m benchmarks.gpu.engine --others --peers     other workloads; other engines
    python -m benchmarks.gpu.engine --without            what two of its parts give
    python -m benchmarks.gpu.engine --options            drawn with top-k and top-p

A model of Qwen3-0.6B's shape with random weights, in bfloat16. 256 requests are there
at once; prompts and answers have 100 to 1,024 tokens, drawn from a seed; temperature
0.6, no eos. Timed is a whole run, from the first step to the last token, warm.

The other workloads (see workloads.py) run in the last of the ways, as do the same
requests with other options: top_k 20 and top_p 0.95, too.

Other engines: see huggingface_engine.py, and, where installed, vllm_engine.py and
nano_vllm_engine.py, each in a process of its own.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.profiler import ProfilerActivity, profile

import minipaged as mp
from benchmarks.gpu import apart, huggingface_engine, workloads
from benchmarks.gpu.peers import installed
from benchmarks.gpu.shapes import random_model
from benchmarks.gpu.workloads import OPTIONS, Asked, num_answered, sampled
from minipaged.attention.kernels import attention
from minipaged.engine.ahead import PendingChoices
from minipaged.engine.stream import Stream
from minipaged.lab.measure.machine import describe_machine

RUNS = ("eager", "graphs", "compiled")
APART = {"vllm": "vllm", "nano_vllm": "nanovllm"}  # a row's name: what must be there
NUM_BLOCKS = 20_000


def add_all(engine: mp.Engine, trace: Sequence[Asked], **options: Any) -> list[Stream]:
    """Hand in all requests; those with an arrival come so much after now."""
    now = engine.clock.now()
    return [
        engine.add(prompt, sampled(num_new, **options), arrival=now + arrival)
        for prompt, num_new, arrival in trace
    ]


def measure(
    engine: mp.Engine,
    trace: Sequence[Asked],
    rounds: int,
    tell: Callable[[dict[str, Any]], object] = lambda row: None,
    **options: Any,
) -> dict[str, Any]:
    """Tokens a second, and for how much of the time the CPU waited for the GPU.

    tell: is called with each round's row as it ends.
    """
    read, waited = PendingChoices.read, 0.0

    def timed(choices: PendingChoices, turns: list[Any]) -> list[Any]:
        nonlocal waited
        start = time.perf_counter()
        choices = read(choices, turns)
        waited += time.perf_counter() - start
        return choices

    warm_up(engine, trace, **options)
    found = []
    gc.collect()
    gc.freeze()  # as Engine.serve advises
    PendingChoices.read = timed
    try:
        for _ in range(rounds):
            add_all(engine, trace, **options)
            waited, steps = 0.0, engine.stats.num_steps
            torch.cuda.synchronize()
            start = time.perf_counter()
            engine.run()
            seconds = time.perf_counter() - start
            found.append(
                {
                    "tokens_per_s": round(num_answered(trace) / seconds),
                    "seconds": round(seconds, 3),
                    "waited": round(waited, 3),
                    "steps": engine.stats.num_steps - steps,
                }
            )
            tell(found[-1])
    finally:
        gc.unfreeze()
        PendingChoices.read = read
    speeds = [each["tokens_per_s"] for each in found]
    return {"tokens_per_s": statistics.median(speeds), "rounds": found}


def time_line(engine: mp.Engine, num_sequences: int, steps: int = 20) -> dict[str, Any]:
    """Milliseconds of a decode step by kernel, and those in which no kernel ran."""
    for asked in workloads.uniform(num_sequences):
        engine.add((asked.prompt * 8)[:700], sampled(400))
    for _ in range(100):  # until all decode
        engine.step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        start = time.perf_counter()
        for _ in range(steps):
            engine.step()
        wall = time.perf_counter() - start
        torch.cuda.synchronize()
    for stream in list(engine.streams.values()):
        engine.abort(stream)
    spans = sorted(
        (event.time_range.start, event.time_range.end, event.name)
        for event in seen.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )
    kernels: dict[str, float] = {}
    idle, between, end = 0.0, 0.0, spans[0][0]
    for start_us, end_us, name in spans:
        kernels[name[:70]] = kernels.get(name[:70], 0.0) + end_us - start_us
        gap = max(0.0, start_us - end)
        idle += gap
        between += gap * ("HtoD" in name)  # a step begins with its packet
        end = max(end, end_us)
    longest = sorted(kernels.items(), key=lambda pair: -pair[1])[:20]
    return {
        "num_sequences": num_sequences,
        "wall_ms": round(wall * 1e3 / steps, 3),
        "gpu_span_ms": round((end - spans[0][0]) / 1e3 / steps, 3),
        "idle_ms": round(idle / 1e3 / steps, 3),
        "idle_between_steps_ms": round(between / 1e3 / steps, 3),
        "kernels_ms": {n: round(us / 1e3 / steps, 4) for n, us in longest},
    }


def warm_up(engine: mp.Engine, trace: Sequence[Asked], **options: Any) -> None:
    """Four tokens of each answer: all kernels that will be needed are loaded."""
    add_all(engine, [Asked(asked.prompt, 4) for asked in trace], **options)
    engine.run()


def serve(paged: mp.PagedModel, name: str, run: str, max_tokens: int) -> dict[str, Any]:
    """Another workload, once: speed, and how long its users wait."""
    trace = getattr(workloads, name)()
    cache = mp.PrefixCache(paged.pool) if name == "shared" else None
    engine = mp.Engine(paged, cache, max_tokens=max_tokens, run=run)
    warm_up(engine, workloads.uniform(64))
    streams = add_all(engine, trace)
    torch.cuda.synchronize()
    start = time.perf_counter()
    engine.run()
    seconds = time.perf_counter() - start
    hits, queries = engine.stats.prefix_cache_hits, engine.stats.prefix_cache_queries
    engine.close()
    first = [stream.time_to_first_token for stream in streams]
    each = [stream.time_per_token for stream in streams]
    return {
        "requests": len(trace),
        "prompt_tokens": sum(len(asked.prompt) for asked in trace),
        "output_tokens": num_answered(trace),
        "seconds": round(seconds, 3),
        "tokens_per_s": round(num_answered(trace) / seconds),
        "first_token_ms": [round(x * 1e3, 1) for x in _middle_and_last(first)],
        "next_token_ms": [round(x * 1e3, 2) for x in _middle_and_last(each)],
        "share_cached": round(hits / queries, 3) if queries else None,
        "preemptions": engine.stats.num_preemptions,
    }


def _middle_and_last(values: list[float]) -> list[float]:
    """The median, and what 99 % are below."""
    quantiles = statistics.quantiles(values, n=100)
    return [quantiles[49], quantiles[98]]


def lone(paged: mp.PagedModel, run: str, num_prompt: int = 1000) -> dict[str, float]:
    """One user alone: milliseconds to her first token, and for each next one."""
    engine = mp.Engine(paged, run=run)
    found = lone_of(engine, num_prompt)
    engine.close()
    return found


def lone_of(engine: mp.Engine, num_prompt: int = 1000) -> dict[str, float]:
    """The same of an engine that is there."""
    prompt = workloads.lone_prompt(num_prompt)
    found = []
    for _ in range(6):
        stream = engine.add(prompt, sampled(128))
        engine.run()
        found.append((stream.time_to_first_token, stream.time_per_token))
    first, each = map(statistics.median, zip(*found[1:], strict=True))
    return {
        "prompt": num_prompt,
        "first_token_ms": round(first * 1e3, 2),
        "next_token_ms": round(each * 1e3, 3),
    }


@contextmanager
def without_merging(paged: mp.PagedModel) -> Iterator[None]:
    """Compiled, but linear layers with a common input are computed one by one."""
    with mock.patch("minipaged.model.compiled.merge_linears"):
        yield


@contextmanager
def with_two_launches(paged: mp.PagedModel) -> Iterator[None]:
    """Compiled, but K and V are written in one launch and attended to in another."""
    whole = paged.attention
    paged.attention = attention.triton_attention = whole._replace(step=None)
    try:
        yield
    finally:
        paged.attention = attention.triton_attention = whole


def main() -> None:
    """Measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", nargs="+", default=RUNS, choices=RUNS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--others", action="store_true", help="other workloads, too")
    parser.add_argument("--peers", action="store_true", help="other engines, too")
    parser.add_argument("--without", action="store_true", help="parts left out, too")
    parser.add_argument("--options", action="store_true", help="top-k and top-p, too")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    model = random_model()
    paged = mp.PagedModel(model, NUM_BLOCKS, attention="triton")
    trace = workloads.uniform(arguments.requests)
    found: dict[str, Any] = {"machine": describe_machine()}

    def note(name: str, row: dict[str, Any]) -> None:
        found[name] = row
        print(name, json.dumps(row, indent=1), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")

    for name in arguments.runs:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        start = time.perf_counter()
        engine = mp.Engine(paged, max_tokens=arguments.max_tokens, run=name)
        torch.cuda.synchronize()
        row = {"start_s": round(time.perf_counter() - start, 2)}
        row["start_gb"] = round((torch.cuda.memory_allocated() - before) / 1e9, 3)
        row |= measure(engine, trace, arguments.rounds)
        row["time_line"] = [time_line(engine, count) for count in (128, 256)]
        row["peak_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 3)
        engine.close()
        row["lone"] = lone(paged, name)
        row["lone_long"] = lone(paged, name, 6000)
        note(name, row)
    ways = (without_merging, with_two_launches) if arguments.without else ()
    for way in ways:
        with way(paged):
            engine = mp.Engine(paged, max_tokens=arguments.max_tokens, run="compiled")
            note(way.__name__, measure(engine, trace, arguments.rounds))
            engine.close()
    if arguments.options:
        limits = {"max_tokens": arguments.max_tokens}
        engine = mp.Engine(paged, run=arguments.runs[-1], **limits)
        row = measure(engine, trace, arguments.rounds, **OPTIONS)
        note("options", {"asked_for": OPTIONS} | row)
        engine.close()
    if arguments.others:
        for name in ("chats", "shared", "long"):
            note(name, serve(paged, name, arguments.runs[-1], arguments.max_tokens))
    if arguments.peers:
        del paged, engine
        limits = (arguments.requests, arguments.rounds)
        there = [name for name, module in APART.items() if installed(module)]
        peers = {name: partial(apart.run_apart, name, *limits) for name in there}
        peers |= {
            "generate": lambda: huggingface_engine.static(model, trace[:64]),
            "generate_batch": lambda: huggingface_engine.continuous(model, trace),
        }
        for name, peer in peers.items():
            gc.collect()  # all but `generate` take most of the memory that is free
            torch.cuda.empty_cache()
            note(name, peer())


if __name__ == "__main__":
    main()
