"""A text does not depend on its batch: checked on a GPU in bfloat16, and its price.

    python -m benchmarks.gpu.deterministic --out deterministic.json

A model of Qwen3-0.6B's shape, whose random weights are so large that a text depends on
its last bits. 256 requests, greedy or with a seed, some with a common beginning, are
answered alone, in batches of 2 to 256, as they arrive, in chunks, with a prefix cache,
and where blocks run out, by recompute and by swap. All texts must be equal. The same is
asked of the default, to see that the check can fail: there, some texts differ.

The price: the same requests, all at once, by `PagedModel(deterministic=True)` and by
the default, in turns.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

import minipaged as mp
from benchmarks.gpu.shapes import qwen3_06b
from minipaged.engine.stream import Stream
from minipaged.lab.measure.machine import describe_machine

SIZES = (2, 3, 16, 64, 256)  # of batches
VOCABULARY = 10_000  # of the prompts' tokens
Asked = tuple[list[int], GenerationConfig, int | None]  # prompt, config, seed


def spread_model(num_layers: int) -> PreTrainedModel:
    """Random weights that make the likeliest tokens change with the text."""
    config = qwen3_06b(eos_token_id=None)
    config.num_hidden_layers = num_layers
    config.tie_word_embeddings = False
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
    return model.eval()


def requests(count: int) -> list[Asked]:
    """Prompts of 20 to 600 tokens; every third begins as the others of its kind."""
    draw = random.Random(0)
    common = [draw.randrange(VOCABULARY) for _ in range(200)]
    asked: list[Asked] = []
    for number in range(count):
        prompt = [draw.randrange(VOCABULARY) for _ in range(draw.randint(20, 400))]
        sampled = {"do_sample": True, "temperature": 0.8} if number % 8 == 7 else {}
        config = GenerationConfig(
            max_new_tokens=draw.randint(16, 48), pad_token_id=0, **sampled
        )
        seed = number if sampled else None
        asked.append((common * (number % 3 == 0) + prompt, config, seed))
    return asked


def add(engine: mp.Engine, asked: list[Asked], spread: float = 0.0) -> list[Stream]:
    """Hand them in; each comes so many seconds after the one before."""
    now = engine.clock.now()
    return [
        engine.add(prompt, config, seed=seed, arrival=now + number * spread)
        for number, (prompt, config, seed) in enumerate(asked)
    ]


def texts(engine: mp.Engine, asked: list[Asked], size: int, spread=0.0) -> list:
    """Their answers, so many at a time."""
    found = []
    for first in range(0, len(asked), size):
        streams = add(engine, asked[first : first + size], spread)
        engine.run()
        found += [stream.output.sequences[0] for stream in streams]
    return found


def ways(model: PreTrainedModel, asked: list[Asked], **options) -> Iterator[tuple]:
    """Pairs of a name and the texts; alone first."""
    paged = mp.PagedModel(model, 20_000, attention="triton", **options)
    with mp.Engine(paged, max_tokens=8192) as engine:
        for size in (1, *SIZES):
            yield f"in batches of {size}", texts(engine, asked, size), {}
        yield "as they arrive", texts(engine, asked, len(asked), spread=0.004), {}
    limits = {"max_sequences": 64, "max_tokens": 200}
    cache = mp.PrefixCache(paged.pool)
    with mp.Engine(paged, cache, run="eager", **limits) as engine:
        found = texts(engine, asked, len(asked))
        cached = {"tokens from the cache": engine.stats.prefix_cache_hits}
        yield "in chunks of at most 200, with a prefix cache", found, cached
    paged = mp.PagedModel(model, 900, attention="triton", **options)
    for preemption in ("recompute", "swap"):
        limits = {"max_sequences": 64, "max_tokens": 2048}
        with mp.Engine(paged, preemption=preemption, **limits) as engine:
            found = texts(engine, asked, len(asked))
            count = {"preemptions": engine.stats.num_preemptions}
            yield f"in 900 blocks, {preemption}", found, count


def check(model: PreTrainedModel, asked: list[Asked], **options) -> dict[str, Any]:
    """How many texts of each way are those of the requests alone."""
    rows, alone = {}, None
    for name, found, more in ways(model, asked, **options):
        alone = alone or found
        equal = sum(map(list.__eq__, found, alone))
        rows[name] = {"equal": equal, "of": len(asked)} | more
        print(name, rows[name], flush=True)
    return rows


def price(num_layers: int, asked: list[Asked], run: str, rounds: int) -> dict[str, Any]:
    """Seconds for all at once, in turns; the first round warms up.

    Each engine has a model of its own: to compile one's layers moves its weights.
    """
    asked = [(prompt, config, None) for prompt, config, _ in asked]
    engines = {
        name: mp.Engine(
            mp.PagedModel(
                spread_model(num_layers), 12_000, attention="triton", **options
            ),
            max_tokens=8192,
            run=run,
        )
        for name, options in {
            "deterministic": {"deterministic": True},
            "default": {},
        }.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds + 1):
        for name, engine in engines.items():
            add(engine, asked)
            torch.cuda.synchronize()
            start = time.perf_counter()
            engine.run()
            seconds[name].append(round(time.perf_counter() - start, 3))
    medians = {name: statistics.median(own[1:]) for name, own in seconds.items()}
    for engine in engines.values():
        engine.close()
    return {
        "seconds": seconds,
        "ratio": round(medians["deterministic"] / medians["default"], 3),
    }


def main() -> None:
    """Check, measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", nargs="*", default=["graphs", "compiled"])
    parser.add_argument("--control", action="store_true", help="the default, too")
    parser.add_argument("--price-only", action="store_true", help="no check")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    model, asked = spread_model(arguments.layers), requests(arguments.requests)
    found: dict[str, Any] = {"machine": describe_machine(), "layers": arguments.layers}

    def note(name: str, row: dict[str, Any]) -> None:
        found[name] = row
        print(name, json.dumps(row, indent=1), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")

    if not arguments.price_only:
        note("deterministic", check(model, asked, deterministic=True))
    for run in arguments.runs:
        row = price(arguments.layers, asked, run, arguments.rounds)
        note(f"price, {run}", row)
    if arguments.control:
        note("default", check(model, asked))


if __name__ == "__main__":
    main()
