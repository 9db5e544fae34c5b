"""Greedy answers with guesses, counted: how many differ from HuggingFace's `generate`?

Tiny models of many families, and the pocket model, in float32. Four ways to guess, with
and without processors that read the text, with and without a prefix cache, in so few
blocks that requests are preempted, by recomputing or by swapping, prompts in chunks.

A step of several tokens adds numbers in another order than a step of one token. So if
two tokens are equally likely, up to float32's rounding, either may be taken. Such
places are found before anything is guessed: in HuggingFace's own scores of the plain
text, the two best differ by at most a millionth of the best. A text is compared up to
the first such place, and is counted as cut.

    make bench-one NAME=speculation_exact                       prints
    make bench-one NAME=speculation_exact BENCH_FLAGS=--save    writes it, too
"""

import argparse
import json
from collections import Counter
from copy import deepcopy
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import torch
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedModel

import minipaged as mp
from benchmarks.cpu import speculation
from benchmarks.cpu.tiny_families import VOCABULARY, tiny_family
from minipaged.decoding.speculation import Speculation
from minipaged.lab.measure.machine import describe_machine

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-speculation-exact.json"
FAMILIES = (
    "llama mistral qwen2 qwen3 qwen3_moe gemma2 gemma3_text phi3 gpt2 opt gpt_oss "
    "deepseek_v3"
).split()
PROCESSORS: dict[str, dict[str, Any]] = {
    "none": {},
    "repetition penalty": {"repetition_penalty": 1.2},
    "no repeated n-gram": {"no_repeat_ngram_size": 3, "min_new_tokens": 4},
}
WAYS: dict[str, dict[str, Any]] = {
    "recompute, cached": {"preemption": "recompute", "cached": True},
    "swap": {"preemption": "swap", "cached": False},
}
TIE = 1e-6  # of the best score
NEW = 24
NUM_BLOCKS, BLOCK_SIZE = 28, 4

Right = tuple[list[int], int]  # a text, and how many of its tokens are compared


def prompts() -> list[list[int]]:
    """Eight prompts; half of them repeat a part, and all begin with the same tokens."""
    draw = Random(0)
    found = []
    for size in (3, 5, 8, 12):
        part = [draw.randrange(3, VOCABULARY) for _ in range(size)]
        other = [draw.randrange(3, VOCABULARY) for _ in range(2 * size)]
        found += [[7, 8, 9, 10, *part, *part], [7, 8, 9, 10, *other]]
    return found


def plain(model: PreTrainedModel, ids: list[int], config: GenerationConfig) -> Right:
    """HuggingFace's text, and its length up to the first tie."""
    options = {"output_scores": True, "return_dict_in_generate": True}
    config = GenerationConfig(**config.to_diff_dict() | options)
    out = model.generate(torch.tensor([ids]), generation_config=config)
    text = out.sequences[0, len(ids) :].tolist()
    for place, scores in enumerate(out.scores):
        best, second = scores[0].topk(2).values.tolist()
        if best - second <= TIE * max(1.0, abs(best)):
            return text, place
    return text, len(text)


class Steadily(mp.DraftModel):
    """It never pauses."""

    least_right = 0.0


def noisy(model: PreTrainedModel, noise: float = 0.02) -> PreTrainedModel:
    """A model that says much the same."""
    model = deepcopy(model)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                size = noise * weight.std()
                weight += size * torch.randn(weight.shape, generator=draw)
    return model


def guessers(draft: PreTrainedModel, *blocks: int) -> dict[str, Speculation]:
    """The four ways to guess; the draft model has so many blocks, of so many tokens."""
    return {
        "PromptLookup(8)": mp.PromptLookup(8),
        "PromptLookup(8, 2)": mp.PromptLookup(8, 2),
        "PromptLookup(4, tree=2)": mp.PromptLookup(4, tree=2),
        "DraftModel": Steadily(mp.PagedModel(draft, *blocks), 4),
    }


class Tally:
    """How many texts were compared, and what became of them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.differing: list[dict[str, Any]] = []

    def compare(self, name: str, found: list[list[int]], right: list[Right]) -> None:
        """These texts beside the right ones."""
        for number, (text, (whole, size)) in enumerate(zip(found, right, strict=True)):
            is_cut = size < len(whole)
            self.counts["compared"] += 1
            self.counts["cut_at_a_tie"] += is_cut
            if text[:size] != whole[:size] or not (is_cut or text == whole):
                self.differing.append({"case": name, "prompt": number, "text": text})


def check_family(name: str, tally: Tally) -> None:
    """All ways and all processors, with all ways to guess."""
    model = tiny_family(name)
    blocks = NUM_BLOCKS, BLOCK_SIZE
    paged = mp.PagedModel(model, *blocks)
    for kind, options in PROCESSORS.items():
        config = GenerationConfig(
            max_new_tokens=NEW, pad_token_id=0, eos_token_id=5, **options
        )
        right = [plain(model, ids, config) for ids in prompts()]
        cases = product(guessers(noisy(model), *blocks).items(), WAYS.items())
        for (who, guesses), (way, limits) in cases:
            prefix = mp.PrefixCache(paged.pool) if limits["cached"] else None
            engine = mp.Engine(
                paged, prefix, preemption=limits["preemption"], speculation=guesses,
                max_sequences=8, max_tokens=96,
            )  # fmt: skip
            with engine:
                for ids in prompts():
                    engine.add(ids, config)
                found = [out.sequences[0] for out in engine.run()]
            tally.compare(f"{name}, {kind}, {who}, {way}", found, right)
            for count in ("preemptions", "draft_tokens", "accepted_tokens"):
                tally.counts[count] += getattr(engine.stats, f"num_{count}")
            if prefix is not None:
                prefix.clear()


def check_pocket(tally: Tally) -> None:
    """The forty prompts of the other benchmark, and pocket's own draft model."""
    model, tokenizer = mp.load("pocket", device="cpu")
    draft, _ = mp.load("pocket-draft", device="cpu")
    paged = mp.PagedModel(model)
    config = GenerationConfig(max_new_tokens=speculation.NEW)
    own = [ids for half in speculation.prompts(tokenizer).values() for ids in half]
    right = [plain(model, ids, config) for ids in own]
    for who, guesses in guessers(draft).items():
        paged.observers[:] = [counts := speculation.Counts()]
        outputs = mp.generate(paged, own, config, speculation=guesses)
        found = [out.sequences[0] for out in outputs]
        tally.compare(f"pocket, {who}", found, right)
        tally.counts["draft_tokens"] += counts.num_draft_tokens
        tally.counts["accepted_tokens"] += counts.num_accepted_tokens


def main() -> None:
    """Count, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    parser.add_argument("--families", nargs="*", default=FAMILIES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tally = Tally()
    for name in tqdm(arguments.families):
        check_family(name, tally)
        print(name, dict(tally.counts), len(tally.differing), "differ", flush=True)
    check_pocket(tally)
    report = {"machine": describe_machine(), "dtype": "float32", "tie": TIE}
    report |= {"families": [*arguments.families, "pocket"], **tally.counts}
    report |= {"differ": len(tally.differing), "differing": tally.differing}
    print(json.dumps(report, indent=2))
    if arguments.save:
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
