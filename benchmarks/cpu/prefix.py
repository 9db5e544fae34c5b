"""The prefix cache: time to the first token with and without it, and what it costs.

    make bench                       prints
    make bench BENCH_FLAGS=--save    also writes figures/data/cpu-prefix.json

Prompts of 1,000 tokens on the pocket model, the first 900 of them always the same. The
first of them is computed and published; each round takes another end, so that nothing
but the 900 is found.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import GenerationConfig

import minipaged as mp
from benchmarks.cpu.generate import alternate
from benchmarks.random_prompts import random_prompts
from minipaged.lab.measure.machine import describe_machine

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-prefix.json"
LENGTH, SHARED = 1000, 900


def first_token(paged: mp.PagedModel, rounds: int) -> dict[str, float]:
    """Median seconds to the first token, with the cache and without, in turns."""
    vocabulary = paged.model.config.vocab_size
    # The stem's, the first one's, and one for each call of either side.
    count = 2 + 2 * (rounds + 1)
    fresh = iter(random_prompts(count, LENGTH, LENGTH, vocabulary))
    stem = next(fresh)[:SHARED]
    config = GenerationConfig(max_new_tokens=1)
    prefix = mp.PrefixCache(paged.pool)

    def generate(cache: mp.PrefixCache | None) -> mp.Output:
        prompt = stem + next(fresh)[SHARED:]
        (out,) = mp.generate(paged, [prompt], config, prefix_cache=cache)
        return out

    generate(prefix)
    found: list[int] = []
    with_cache, without = alternate(
        lambda: found.append(generate(prefix).num_cached_tokens),
        lambda: generate(None),
        rounds,
    )
    assert set(found) == {SHARED // 16 * 16}
    return {
        "with_cache_seconds": round(with_cache, 4),
        "without_seconds": round(without, 4),
        "tokens_found": found[-1],
        "times_sooner": round(without / with_cache, 2),
        "bar": 4.0,
    }


def bookkeeping(paged: mp.PagedModel, rounds: int) -> dict[str, float]:
    """What match and publish cost a prompt that nobody knows, beside its prefill."""
    vocabulary = paged.model.config.vocab_size
    prompts = random_prompts(rounds, LENGTH, LENGTH, vocabulary)
    config = GenerationConfig(max_new_tokens=1)
    prefix = mp.PrefixCache(mp.BlockPool(256, 16))
    prefill, match, publish = [], [], []
    for prompt in prompts:
        prefill.append(seconds(mp.generate, paged, [prompt], config))
        match.append(seconds(prefix.match, prompt))
        table = mp.BlockTable(prefix.pool)
        table.append(LENGTH)
        publish.append(seconds(prefix.publish, prompt, table.block_ids))
        table.free()
    cost = statistics.median(match) + statistics.median(publish)
    return {
        "prefill_milliseconds": round(1e3 * statistics.median(prefill), 2),
        "match_milliseconds": round(1e3 * statistics.median(match), 4),
        "publish_milliseconds": round(1e3 * statistics.median(publish), 4),
        "percent_of_prefill": round(100 * cost / statistics.median(prefill), 3),
        "bar": 2.0,
    }


def seconds(run: Callable[..., object], *arguments: object) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    arguments = parser.parse_args()
    model, _ = mp.load("pocket", device="cpu")
    report = {
        "machine": describe_machine(),
        "threads": torch.get_num_threads(),
        "first_token": first_token(mp.PagedModel(model, 512), arguments.rounds),
        "bookkeeping": bookkeeping(mp.PagedModel(model, 512), arguments.rounds),
    }
    print(json.dumps(report, indent=2))
    if arguments.save:
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
