"""A step without its forward: what scheduling, inputs and choosing cost the processor.

    python -m benchmarks.cpu.step                      prints
    python -m benchmarks.cpu.step --old FOLDER --save  beside a checkout of 4d949bf, the
                                                       last before `scheduling/`; writes
                                                       figures/data/cpu-step.json

One thread; the forward is a stub that returns the same logits at once. Each version has
a process of its own; the steps of one case follow one another, as in a run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import LogitsProcessorList

import minipaged as mp
from minipaged.decoding.options import Options

ROOT = Path(__file__).parents[2]
OUT = ROOT / "figures" / "data" / "cpu-step.json"
SIZE, VOCABULARY, NUM_NEW = 16, 32, 200
# Sequences, tokens of each: one token each is computed a step.
DECODES = ((256, 2_000), (64, 10_000), (1, 100_000))
PROMPTS = (16, 8_192)  # whole prompts in one step: their inputs alone
OPTIONS = Options(
    max_new_tokens=NUM_NEW, eos_ids=frozenset(), do_sample=False, num_sequences=1,
    processors=LogitsProcessorList(), num_beams=1, length_penalty=1.0,
    early_stopping=False, batch_key="greedy",
)  # fmt: skip


def table_of(pool: mp.BlockPool, tokens: list[int], prefix: Any) -> mp.BlockTable:
    """All tokens but the last are computed, and can be found."""
    table = mp.BlockTable(pool)
    table.append(len(tokens) - 1)
    if prefix is not None:
        prefix.publish(tokens[: table.num_tokens], table.block_ids)
    return table


def decode(num_sequences: int, num_tokens: int, cached: bool, fast: bool) -> float:
    """Milliseconds of a step that computes one token of each sequence: the median."""
    blocks = num_sequences * (-(-(num_tokens + NUM_NEW) // SIZE) + 1)
    pool = mp.BlockPool(blocks, SIZE)
    prefix = mp.PrefixCache(pool) if cached else None
    logits = torch.zeros(num_sequences, VOCABULARY)
    paged = SimpleNamespace(
        pool=pool,
        device="cpu",
        forward=lambda batch: logits,
        compute=lambda plan: (mp.RaggedBatch.of_plan(plan), logits),
        observers=[],
    )
    prompts = [
        [index * num_tokens + n for n in range(num_tokens)]
        for index in range(num_sequences)
    ]
    tables = [table_of(pool, prompt, prefix) for prompt in prompts]
    one_step = _new_steps if hasattr(mp, "Scheduler") else _old_steps
    step = one_step(paged, prompts, tables, prefix, fast)
    times = []
    for _ in range(3 * SIZE):  # every table gets three blocks meanwhile
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def _old_steps(paged, prompts, tables, prefix, fast):
    from minipaged.decoding.request import Request
    from minipaged.engine.step import step

    requests = [
        Request(prompt, OPTIONS, sequences=[mp.Sequence(prompt, table)])
        for prompt, table in zip(prompts, tables, strict=True)
    ]
    return lambda: step(paged, requests, prefix_cache=prefix)


def _new_steps(paged, prompts, tables, prefix, fast):
    from minipaged.engine.arguments import make_request
    from minipaged.engine.loop import step
    from minipaged.model.runner import Runner

    scheduler = mp.Scheduler(paged.pool, prefix)
    for prompt, table in zip(prompts, tables, strict=True):
        scheduler.add(request := make_request(prompt, OPTIONS))
        request.start(table)
        scheduler.running.append(scheduler.waiting.popleft())
    runner = Runner(paged) if fast else paged
    return lambda: step(runner, scheduler)


def prompt_inputs(num_prompts: int, num_tokens: int, fast: bool) -> float:
    """Milliseconds to build the batch of whole prompts: the median."""
    pool = mp.BlockPool(num_prompts * -(-num_tokens // SIZE), SIZE)
    prompts = [[*range(num_tokens)] for _ in range(num_prompts)]
    tables = [mp.BlockTable(pool) for _ in prompts]
    for table in tables:
        table.append(num_tokens)
    if not hasattr(mp, "Scheduler"):
        chunks = [mp.Chunk(*pair) for pair in zip(prompts, tables, strict=True)]
        return _median(lambda: mp.RaggedBatch.build(chunks), 3)
    from minipaged.model.persistent_inputs import PersistentInputs

    works = [
        mp.Work(None, mp.Sequence(prompt, table), 0, num_tokens, 1)
        for prompt, table in zip(prompts, tables, strict=True)
    ]
    plan = mp.Plan(works)
    if fast:
        return _median(lambda: PersistentInputs().build(plan), 9)
    return _median(lambda: mp.RaggedBatch.of_plan(plan), 9)


def _median(call, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def measure() -> dict[str, float]:
    """All cases of the version that is imported, in milliseconds."""
    torch.set_num_threads(1)
    builders = (
        {"plain": False, "fast": True} if hasattr(mp, "Scheduler") else {"": False}
    )
    found = {}
    for name, fast in builders.items():
        for num_sequences, num_tokens in DECODES:
            for cached in (False, True):
                case = f"{num_sequences} x {num_tokens:,}{', cached' * cached}"
                found[f"{case} {name}".strip()] = decode(
                    num_sequences, num_tokens, cached, fast
                )
        case = f"prompts {PROMPTS[0]} x {PROMPTS[1]:,}"
        found[f"{case} {name}".strip()] = prompt_inputs(*PROMPTS, fast)
    return {case: round(milliseconds, 3) for case, milliseconds in found.items()}


def in_a_process(checkout: Path) -> dict[str, float]:
    """`measure` of the package in this folder."""
    path = os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--one"]
    done = subprocess.run(
        command,
        env=environment,
        cwd=checkout,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure()))
        return
    results = {"new": in_a_process(ROOT)}
    if options.old:
        results["old"] = in_a_process(options.old.resolve())
    for case, milliseconds in results["new"].items():
        old = results.get("old", {}).get(
            case.removesuffix(" plain").removesuffix(" fast")
        )
        beside = f"  (before: {old:8.2f})" if old else ""
        print(f"{case:34} {milliseconds:8.2f} ms{beside}")
    if options.save:
        from minipaged.lab.measure.machine import describe_machine

        OUT.write_text(
            json.dumps(describe_machine() | {"milliseconds": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
