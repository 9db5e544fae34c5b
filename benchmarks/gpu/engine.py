"""The engine on a GPU: output tokens a second, and what a step is made of.

    python -m benchmarks.gpu.engine                      all ways to run, one workload
    python -m benchmarks.gpu.engine --runs graphs --out engine.json

A model of Qwen3-0.6B's shape with random weights, in bfloat16. 256 requests are there
at once; prompts and answers have 100 to 1,024 tokens, drawn from a seed; temperature
0.6, no eos. Timed is a whole run, from the first step to the last token, warm.
"""

import argparse
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, GenerationConfig

import minipaged as mp
from benchmarks.gpu.shapes import qwen3_06b
from minipaged.engine.ahead import LateTokens
from minipaged.lab.measure.machine import describe_machine

RUNS = ("eager", "graphs", "compiled")
NUM_BLOCKS = 20_000
Trace = list[tuple[list[int], int]]  # a prompt, and how many tokens its answer has


def random_model() -> torch.nn.Module:
    """Qwen3-0.6B's shape, random weights, bfloat16, on the GPU."""
    config = qwen3_06b(eos_token_id=None)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return model.eval()


def make_trace(count: int = 256) -> Trace:
    """Prompts and answers of 100 to 1,024 tokens; always the same."""
    draw = random.Random(0)
    return [
        (
            [draw.randrange(10_000) for _ in range(draw.randint(100, 1024))],
            draw.randint(100, 1024),
        )
        for _ in range(count)
    ]


def add_all(engine: mp.Engine, trace: Trace) -> int:
    """Hand in all requests; how many tokens they will be answered with."""
    for prompt, num_new in trace:
        config = GenerationConfig(
            max_new_tokens=num_new, do_sample=True, temperature=0.6, top_k=0
        )
        engine.add(prompt, config)
    return sum(num_new for _, num_new in trace)


def measure(engine: mp.Engine, trace: Trace, rounds: int) -> dict[str, Any]:
    """Tokens a second, and for how much of the time the CPU waited for the GPU."""
    read, waited = LateTokens.read, 0.0

    def timed(late: LateTokens) -> None:
        nonlocal waited
        start = time.perf_counter()
        read(late)
        waited += time.perf_counter() - start

    add_all(engine, [(prompt, 4) for prompt, _ in trace])
    engine.run()  # warm
    found = []
    LateTokens.read = timed
    try:
        for _ in range(rounds):
            num_tokens, waited = add_all(engine, trace), 0.0
            steps = engine.stats.num_steps
            torch.cuda.synchronize()
            start = time.perf_counter()
            engine.run()
            seconds = time.perf_counter() - start
            found.append(
                {
                    "tokens_per_s": round(num_tokens / seconds),
                    "seconds": round(seconds, 3),
                    "waited": round(waited, 3),
                    "steps": engine.stats.num_steps - steps,
                }
            )
    finally:
        LateTokens.read = read
    speeds = [each["tokens_per_s"] for each in found]
    return {"tokens_per_s": statistics.median(speeds), "rounds": found}


def time_line(engine: mp.Engine, num_sequences: int, steps: int = 20) -> dict[str, Any]:
    """Milliseconds of a decode step by kernel, and those in which no kernel ran."""
    for prompt, _ in make_trace(num_sequences):
        config = GenerationConfig(
            max_new_tokens=400, do_sample=True, temperature=0.6, top_k=0
        )
        engine.add((prompt * 8)[:700], config)
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
    idle, end = 0.0, spans[0][0]
    for start_us, end_us, name in spans:
        kernels[name[:70]] = kernels.get(name[:70], 0.0) + end_us - start_us
        idle += max(0.0, start_us - end)
        end = max(end, end_us)
    longest = sorted(kernels.items(), key=lambda pair: -pair[1])[:20]
    return {
        "num_sequences": num_sequences,
        "wall_ms": round(wall * 1e3 / steps, 3),
        "gpu_span_ms": round((end - spans[0][0]) / 1e3 / (steps + 1), 3),
        "idle_ms": round(idle / 1e3 / (steps + 1), 3),
        "kernels_ms": {n: round(us / 1e3 / (steps + 1), 4) for n, us in longest},
    }


def main() -> None:
    """Measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", nargs="+", default=RUNS, choices=RUNS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    model = random_model()
    paged = mp.PagedModel(model, NUM_BLOCKS, attention="triton")
    trace = make_trace(arguments.requests)
    found: dict[str, Any] = {"machine": describe_machine()}
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
        found[name] = row
        print(name, json.dumps(row, indent=1), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
