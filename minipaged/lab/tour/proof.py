"""Lab: the proof of every lesson: HuggingFace `generate` and ours, side by side."""

import json
import os
from collections.abc import Callable, Sequence
from itertools import zip_longest
from math import isclose
from pathlib import Path

from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from minipaged.decoding.strategy import Output
from minipaged.engine.generate import generate
from minipaged.lab.tour.reference import huggingface_outputs
from minipaged.model.paged_model import PagedModel

WIDTH = 40  # of a column; longer text is cut
Ours = Callable[..., Sequence[Output | list[int]]]  # called as `generate` is


def prove(
    claim: str,
    paged: PagedModel | PreTrainedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    seed: int | Sequence[int] | None = None,
    ours: Ours = generate,
    theirs: PreTrainedModel | None = None,
    quiet: bool = False,
) -> list[Output]:
    """Generate on both sides under one config, print two columns, and assert equality.

    Args:
        claim: what is proved, in words; it heads the table.
        paged: or a plain model, where `ours` needs no more (as in lesson 1).
        tokenizer: if given, text is shown instead of token ids.
        ours: what stands in our column, called as `generate` is, with a seed only if
            there is one. An answer may be a list of new token ids, eos kept.
        theirs: whose `generate` stands in HuggingFace's column, if not the model's own;
            such as a copy of it whose cache rounds K and V.
        quiet: print one line in place of the columns, if all is equal.

    Returns our outputs. Raises AssertionError if one token differs. The result is also
    recorded for `make lessons`, as a line of JSON in the file that the environment
    variable MINIPAGED_PROOFS names.
    """
    equal, outputs, lines = _compare(
        claim, paged, prompts, generation_config, tokenizer, seed, ours, theirs
    )
    is_short = quiet and equal == len(prompts)
    print(f"{claim}: {lines[-1]}" if is_short else "\n".join(lines))
    _record({"claim": claim, "prompts": len(prompts), "equal": equal})
    assert equal == len(prompts), f"{claim}: {len(prompts) - equal} differ"
    return outputs


def refute(
    flaw: str,
    paged: PagedModel | PreTrainedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    seed: int | Sequence[int] | None = None,
    ours: Ours = generate,
    theirs: PreTrainedModel | None = None,
) -> None:
    """The negative control of `prove`: the same comparison, which must find the flaw.

    Takes what `prove` takes; the flaw is in `paged` or in `ours`. Raises AssertionError
    if every token is equal, for then the proof is blind to this flaw.
    """
    equal, _, lines = _compare(
        flaw, paged, prompts, generation_config, tokenizer, seed, ours, theirs
    )
    print("\n".join(lines))
    _record({"control": flaw, "prompts": len(prompts), "equal": equal})
    assert equal < len(prompts), f"the proof does not notice: {flaw}"


def _compare(
    claim: str,
    paged: PagedModel | PreTrainedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None,
    tokenizer: PreTrainedTokenizerBase | None,
    seed: int | Sequence[int] | None,
    ours: Ours,
    reference: PreTrainedModel | None,
) -> tuple[int, list[Output], list[str]]:
    """How many prompts are equal, our outputs, and both columns as lines of text."""
    if not prompts:
        raise ValueError("nothing to prove: give at least one prompt")
    is_paged = isinstance(paged, PagedModel)
    model = paged.model if is_paged else paged
    model = model if reference is None else reference
    theirs = huggingface_outputs(model, prompts, generation_config, seed=seed)
    options = {} if seed is None else {"seed": seed}
    answers = ours(paged, prompts, generation_config, **options)
    outputs = [
        answer if isinstance(answer, Output) else Output([list(answer)], "length")
        for answer in answers
    ]
    num_equal = sum(map(same_answer, theirs, outputs))
    column = "minipaged" if is_paged else "by hand"
    head = f"{'prompt':>6}  {'new':>5}  {'HuggingFace generate':{WIDTH}}  {column}"
    lines, lengths_differ = [claim, "", head], False
    for prompt, them, us in zip(prompts, theirs, outputs, strict=True):
        rows = zip_longest(them.sequences, us.sequences, fillvalue=[])
        for their, our in rows:
            left, right = _columns(their, our, tokenizer)
            sign = "" if their == our else "  DIFFERENT"
            new = str(len(our))
            if len(their) != len(our):
                new, lengths_differ = f"{len(their)}/{new}", True
            line = f"{len(prompt):6}  {new:>5}  {left:{WIDTH}}  {right}{sign}"
            lines.append(line)
        if them.sequences == us.sequences and not same_answer(them, us):
            scores = f"{them.scores} and {us.scores}"
            lines.append(f"{'':15}DIFFERENT scores: {scores}")
    if lengths_differ:
        lines += ["", "new: tokens, theirs/ours where the numbers differ"]
    lines += ["", f"{num_equal} of {len(prompts)} prompts equal, token for token"]
    return num_equal, outputs, lines


def same_answer(theirs: Output, ours: Output) -> bool:
    """The same tokens; of beams the same scores too, but for float32's rounding."""
    scores = theirs.scores or [], ours.scores or []
    if theirs.sequences != ours.sequences or len(scores[0]) != len(scores[1]):
        return False
    pairs = zip(*scores, strict=True)
    return all(isclose(a, b, rel_tol=1e-5, abs_tol=1e-4) for a, b in pairs)


def _columns(
    their: list[int], our: list[int], tokenizer: PreTrainedTokenizerBase | None
) -> tuple[str, str]:
    """Both as text of at most WIDTH characters, cut so that a difference is seen."""
    left, right = (
        repr(tokenizer.decode(row))[1:-1] if tokenizer else " ".join(map(str, row))
        for row in (their, our)
    )
    pairs = enumerate(zip(left, right, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))
    start = max(0, same - WIDTH // 2) if same > WIDTH - 6 and left != right else 0
    return _cut(left, start), _cut(right, start)


def _cut(text: str, start: int) -> str:
    text = text if start == 0 else "..." + text[start + 3 :]
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _record(line: dict[str, str | int]) -> None:
    if file := os.environ.get("MINIPAGED_PROOFS"):
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
