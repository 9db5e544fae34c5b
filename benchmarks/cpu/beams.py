"""Beam search against HuggingFace's: every case of a grid, then speed and memory.

    make bench                       prints
    make bench BENCH_FLAGS=--save    also writes figures/data/cpu-beams.json

The grid: architectures (random weights, tests/helpers/tiny_models.py) x numbers of
beams x length penalties x modes of early stopping x sets of eos x block sizes, each
with ragged prompts in one batch, with a prefix cache and a small pool; one block size a
case.
"""

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import DynamicCache, GenerationConfig

import minipaged as mp
from benchmarks.cpu.generate import alternate
from benchmarks.random_prompts import random_prompts
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.watch import watch
from minipaged.lab.tour.proof import same_answer
from minipaged.lab.tour.reference import cache_argument, huggingface_outputs

ROOT = Path(__file__).parents[2]
OUT = ROOT / "figures" / "data" / "cpu-beams.json"
ARCHITECTURES = ("qwen3", "llama", "mistral", "gpt2", "opt", "gemma2")
EOS = ([127], list(range(5, 13)), list(range(3, 60)))
GRID = (
    ARCHITECTURES,
    (2, 3, 4, 8),
    (0.0, 1.0, -0.7),
    (True, False, "never"),
    EOS,
)


def parity(tiny_model) -> dict[str, int]:
    """How many prompts there are in the grid, and how many answers are equal."""
    count = equal = 0
    for index, (name, width, penalty, early, eos) in enumerate(
        tqdm(list(itertools.product(*GRID)), desc="grid", smoothing=0)
    ):
        config = GenerationConfig(
            max_new_tokens=14,
            num_beams=width,
            num_return_sequences=width,
            length_penalty=penalty,
            early_stopping=early,
            eos_token_id=eos,
            pad_token_id=0,
        )
        stem, *tails = random_prompts(5, 1, 23, 120)
        prompts = [stem, *(stem[: 4 * n] + tail for n, tail in enumerate(tails))]
        # Another one for each row of sets of eos, so that every pair of them occurs.
        size = (1, 8, 16)[(index + index // 3) % 3]
        worst = -(-(max(map(len, prompts)) + 13) // size) * width
        paged = mp.PagedModel(tiny_model(name), int(1.3 * worst) + 2, size)
        theirs = huggingface_outputs(paged.model, prompts, config)
        ours = mp.generate(
            paged, prompts, config, prefix_cache=mp.PrefixCache(paged.pool)
        )
        equal += sum(map(same_answer, theirs, ours))
        count += len(prompts)
    return {"prompts": count, "equal": equal}


def speed_and_memory(rounds: int) -> dict[str, float]:
    """Four beams, a prompt of 256 tokens, 64 new ones, on the pocket model."""
    model, _ = mp.load("pocket", device="cpu")
    prompt = random_prompts(1, 256, 256, model.config.vocab_size)
    config = GenerationConfig(
        max_new_tokens=64, min_new_tokens=64, num_beams=4, num_return_sequences=4
    )
    paged = mp.PagedModel(model, num_blocks=128, block_size=16)
    ids = torch.tensor(prompt)

    def theirs():
        cache = DynamicCache(config=model.config)
        given = {"attention_mask": torch.ones_like(ids), **cache_argument(cache)}
        model.generate(ids, generation_config=config, **given)
        return cache

    ours, huggingface = alternate(
        lambda: mp.generate(paged, prompt, config), theirs, rounds
    )
    layers = theirs().layers
    their_bytes = sum(t.nbytes for one in layers for t in (one.keys, one.values))
    with watch(paged) as moments:
        mp.generate(paged, prompt, config)
    peak = max(moment.num_blocks for moment in moments)
    our_bytes = peak * paged.cache.bytes_per_block
    return {
        "minipaged_seconds": round(ours, 3),
        "huggingface_seconds": round(huggingface, 3),
        "speed_ratio": round(huggingface / ours, 3),
        "speed_bar": 1.0,
        "minipaged_kv_bytes": our_bytes,
        "huggingface_kv_bytes": their_bytes,
        "memory_ratio": round(our_bytes / their_bytes, 3),
        "memory_bar": 0.4,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers.tiny_models import tiny_model

    start = time.perf_counter()
    report = {"machine": describe_machine(), "threads": torch.get_num_threads()}
    report["speed"] = speed_and_memory(arguments.rounds)
    report["grid"] = parity(tiny_model)
    report["grid_seconds"] = round(time.perf_counter() - start, 1)
    print(json.dumps({key: report[key] for key in ("grid", "speed")}, indent=2))
    if arguments.save:
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
