"""Lab: the proof of every lesson: HuggingFace `generate` and ours, side by side."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from transformers import GenerationConfig, PreTrainedTokenizerBase

from minipaged.decoding.request import Output
from minipaged.engine.generate import generate
from minipaged.lab.reference import huggingface_generate
from minipaged.model.paged_model import PagedModel

WIDTH = 40  # of a column; longer text is cut


def prove(
    claim: str,
    paged: PagedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    seed: int | Sequence[int] | None = None,
    ours: Callable[..., list[Output]] = generate,
) -> list[Output]:
    """Generate on both sides under one config, print two columns, and assert equality.

    Args:
        claim: what is proved, in words; it heads the table.
        tokenizer: if given, text is shown instead of token ids.
        ours: what stands in our column; a lesson may plug in a broken one.

    Returns our outputs. Raises AssertionError if one token differs. The result is also
    recorded for `make lessons`, as a line of JSON in the file that the environment
    variable MINIPAGED_PROOFS names.
    """
    if not prompts:
        raise ValueError("nothing to prove: give at least one prompt")
    theirs = huggingface_generate(paged.model, prompts, generation_config, seed=seed)
    outputs = ours(paged, prompts, generation_config, seed=seed)
    sequences = [output.sequences for output in outputs]
    num_equal = sum(a == b for a, b in zip(theirs, sequences, strict=True))
    print(f"{claim}\n")
    print(f"{'prompt':>6}  {'new':>4}  {'HuggingFace generate':{WIDTH}}  minipaged")
    for prompt, their_rows, our_rows in zip(prompts, theirs, sequences, strict=True):
        for their, our in zip(their_rows, our_rows, strict=False):
            left, right = (_shorten(row, tokenizer) for row in (their, our))
            sign = "" if their == our else "  DIFFERENT"
            print(f"{len(prompt):6}  {len(our):4}  {left:{WIDTH}}  {right}{sign}")
    print(f"\n{num_equal} of {len(prompts)} prompts equal, token for token")
    _record(claim, len(prompts), num_equal)
    assert num_equal == len(prompts), f"{claim}: {len(prompts) - num_equal} differ"
    return outputs


def _shorten(row: list[int], tokenizer: PreTrainedTokenizerBase | None) -> str:
    text = repr(tokenizer.decode(row))[1:-1] if tokenizer else " ".join(map(str, row))
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _record(claim: str, num_prompts: int, num_equal: int) -> None:
    if file := os.environ.get("MINIPAGED_PROOFS"):
        line = {"claim": claim, "prompts": num_prompts, "equal": num_equal}
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
