"""minipaged.generate against HuggingFace `generate`, in one run, as ratios.

The comparison is with what a user would write otherwise: one left-padded batch, which
runs until its longest member is done. Rounds alternate between the two, and the median
of five counts. Run it on an idle machine:

    make bench                       prints
    make bench BENCH_FLAGS=--save    also writes figures/data/cpu-generate.json

Where one thread's time went, of the pocket model (a lone prompt; 32 ragged ones): in
HuggingFace's modules, such as norms and rotations, 46 and 32 %; in linear layers, 28
and 28; in gathering and attention, 8 and 22; in the calls around them, and in writes of
K and V, 5 and 5; in what prepares attention once a step, 2 and 6; in inputs and the
question whether the model has changed, 4 and 2; in scheduling and choosing, 7 and 6.
Since then, `minipaged/model/direct_calls.py` calls modules without torch's questions
for hooks, and a norm by one call instead of six: the whole takes 14 and 5 to 12 % less.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedModel

import minipaged as mp
from benchmarks.random_prompts import random_prompts
from minipaged.lab.measure.machine import describe_machine

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-generate.json"


def huggingface(model: PreTrainedModel, prompts: list[list[int]], new: int) -> None:
    """The usual way: pad on the left, generate `new` tokens for every row."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    config = GenerationConfig(max_new_tokens=new, pad_token_id=0)
    model.generate(ids, attention_mask=mask, generation_config=config)


def alternate(ours: Callable, theirs: Callable, rounds: int) -> tuple[float, float]:
    """Median seconds of each, taken in turns after one warm-up of each."""
    seconds: dict[Callable, list[float]] = {ours: [], theirs: []}
    for round_ in range(rounds + 1):
        for run in (ours, theirs):
            start = time.perf_counter()
            run()
            if round_:
                seconds[run].append(time.perf_counter() - start)
    return statistics.median(seconds[ours]), statistics.median(seconds[theirs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="pocket", help="pocket, a folder or an id")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    arguments = parser.parse_args()

    model, _ = mp.load(arguments.model, device="cpu")
    model.generation_config.eos_token_id = None  # both sides run to the agreed length
    paged = mp.PagedModel(model, num_blocks=1024)
    prompts = random_prompts(32, 5, 200, model.config.vocab_size)
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 129, (32,), generator=generator).tolist()
    # name: (prompts, new tokens of each, the bar)
    cases = {
        "32 ragged prompts, 1 to 128 new tokens": (prompts, lengths, 1.2),
        "32 ragged prompts, 128 new tokens": (prompts, [128] * 32, 0.95),
        "1 prompt, 128 new tokens": (prompts[:1], [128], 0.75),
    }
    results = []
    for name, (own, new, bar) in tqdm(cases.items(), desc="cases"):
        configs = [GenerationConfig(max_new_tokens=n) for n in new]
        ours, theirs = alternate(
            lambda own=own, configs=configs: mp.generate(paged, own, configs),
            lambda own=own, new=new: huggingface(model, own, max(new)),
            arguments.rounds,
        )
        results.append(
            {
                "case": name,
                "useful_tokens": sum(new),
                "minipaged_tokens_per_second": round(sum(new) / ours, 1),
                "huggingface_tokens_per_second": round(sum(new) / theirs, 1),
                "ratio": round(theirs / ours, 3),
                "bar": bar,
            }
        )
    print(f"\n{'useful tokens per second':42}{'minipaged':>10}{'HF':>10}{'ratio':>8}")
    for row in results:
        print(
            f"{row['case']:42}{row['minipaged_tokens_per_second']:10.0f}"
            f"{row['huggingface_tokens_per_second']:10.0f}{row['ratio']:8.2f}"
            f"   (bar {row['bar']})"
        )
    report = {"machine": describe_machine(), "threads": torch.get_num_threads()}
    report |= {"model": arguments.model, "dtype": "float32", "results": results}
    if arguments.save:
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
