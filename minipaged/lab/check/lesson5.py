"""Lab: checks of lesson 5's exercises: merging parts, streaming over blocks."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from minipaged.lab.check.blocks import Blocks
from minipaged.lab.check.diagnose import Unlike, diagnose, telling
from minipaged.lab.check.misread import TOLERANCE, Inputs
from minipaged.lab.check.streaming import (
    BLOCK_SIZE,
    RAMPS,
    Asked,
    draw,
    holds_little,
    ramp,
)
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many

Triple = Sequence[Tensor]  # maximum, total, weighted


@exercise
def merge(attempt: Attempt) -> None:
    """Two (maximum, total, weighted) -> the one of the positions of both."""
    generator = torch.Generator().manual_seed(0)
    same = partial(torch.allclose, atol=TOLERANCE)
    for (cut, rest), spread in product(product((3, 1, 0), (4, 1, 0)), (1.0, 1000.0)):
        logits = spread * torch.randn(cut + rest, generator=generator).double()
        values = torch.randn(len(logits), 3, generator=generator).double()
        one = _triple(logits[:cut], values[:cut])
        other = _triple(logits[cut:], values[cut:])
        right, before = _triple(logits, values), deepcopy((one, other))
        answer = attempt.shared(one, other)
        numbers = [round(x, 1) for x in logits.tolist()]
        with telling(f"parts of {cut} and {rest} positions, logits {numbers}"):
            found = _three(answer)
            if not all(map(torch.equal, (*one, *other), (*before[0], *before[1]))):
                raise Rejected("it has written into its arguments")
            mistakes = _usual_mistakes(*before, right)
            for name, ours, wanted in zip(mistakes, found, right, strict=True):
                shape, usual = tuple(wanted.shape), mistakes[name]
                diagnose(f"{name}, shape", tuple(ours.shape), shape)
                if ours.isnan().any():
                    said = "is -inf subtracted from -inf, or does an exp overflow?"
                    raise Unlike(f"{name}: NaN; {said}")
                diagnose(name, ours, wanted, usual, same=same, write=_rounded)


def _triple(logits: Tensor, values: Tensor) -> Triple:
    """What a part leaves behind, in one go; of no positions: -inf, 0 and zeros."""
    if not len(logits):
        return logits.new_tensor(-torch.inf), logits.new_zeros(()), values.sum(dim=0)
    weights = (logits - logits.max()).exp()
    return logits.max(), weights.sum(), weights @ values


def _three(answer: Any) -> list[Tensor]:
    if not isinstance(answer, tuple | list):
        raise Rejected(f"returned {answer!r:.40}, expected three things")
    if len(answer) != 3:
        raise Rejected(f"returned {len(answer)} things, expected three")
    return [torch.as_tensor(part).double() for part in answer]


def _usual_mistakes(one: Triple, other: Triple, right: Triple) -> dict[str, dict]:
    """Wrong maxima, totals and weighted values, and what makes them."""
    maximum = torch.maximum(one[0], other[0])
    ours, theirs = (one[0] - maximum).exp(), (other[0] - maximum).exp()

    def by(at: int, a: Tensor | int, b: Tensor | int) -> Tensor:
        return one[at] * a + other[at] * b

    total, weighted = (
        {
            "the part whose maximum is smaller is not rescaled": by(at, 1, 1),
            "each side is multiplied by the other's factor": by(at, theirs, ours),
            "upside down: the factor is e^(its maximum - the larger)": (
                by(at, 1 / ours, 1 / theirs)
            ),
            "not lowered: the factor is e^(its maximum - the larger)": (
                by(at, one[0].exp(), other[0].exp())
            ),
        }
        for at in (1, 2)
    )
    divided = "it is divided already; keep the sum, divide at the end"
    weighted[divided] = right[2] / by(1, ours, theirs)
    larger = {"the larger of the two, also if it is -inf": True}
    return {"maximum": larger, "total": total, "weighted": weighted}


def _rounded(part: Tensor) -> str:
    numbers = [f"{number:.4g}" for number in part.flatten().tolist()]
    return f"[{', '.join(numbers)}]" if part.dim() else numbers[0]


@exercise
def stream(attempt: Attempt) -> None:
    """(q, read, num_tokens, block_size) -> one head's attention, [D], in one pass."""
    generator = torch.Generator().manual_seed(0)
    # Each case tells what those before it do not; many blocks more than two.
    lengths = (1, 3, 4, 19, 5, 8)
    for num_tokens in lengths:
        _streamed(attempt, draw(generator, num_tokens))
    _streamed(attempt, draw(generator, 19), size=3)
    for ends, hint in RAMPS.items():
        story = ", logits from {:g} to {:g}".format(*ends)
        _streamed(attempt, ramp(generator, ends, 1, 1), story, hint)
    for num_tokens, spread in product(lengths, (0.0, 30.0)):
        story = ", logits in the hundreds" if spread else ", equal logits"
        _streamed(attempt, draw(generator, num_tokens, spread=spread), story)
    query = torch.ones(5).double()
    holds_little(lambda read, n: attempt.shared(query, read, n, BLOCK_SIZE), heads=1)


def _streamed(
    attempt: Attempt,
    given: Inputs,
    also: str = "",
    hint: str = "",
    size: int = BLOCK_SIZE,
) -> None:
    """One case of `stream`."""
    q, k, v, _ = given
    story = f"{many(len(k), 'token')} in blocks of {size}{also}"

    def ask(read: Blocks) -> Any:
        return attempt.shared(q[0], read, len(k), size)

    read = Blocks(k[:, 0], v[:, 0], size)
    Asked(story, ask, read, Inputs(q[0], k, v), hint=hint).judge()


@exercise
def window(attempt: Attempt) -> None:
    """(q, read, num_tokens, window, block_size) -> [H, D]; only the blocks it needs."""
    generator = torch.Generator().manual_seed(0)
    # The first window that hides anything begins amid a block that is not the first.
    lengths = (22, 1, 4, 5, 8, 19)
    for num_tokens, width in product(lengths, (100, 8, 1, 3, 4, 5, 9)):
        heads = [(4, 2), (6, 2), (3, 3), (5, 1)][(num_tokens + width) % 4]
        _windowed(attempt, draw(generator, num_tokens, *heads), width)
    _windowed(attempt, draw(generator, 19, 4, 2), 10, size=3)
    for ends, hint in RAMPS.items():
        story = ", logits from {:g} to {:g}".format(*ends)
        _windowed(attempt, ramp(generator, ends, 4, 2), 12, story, hint)
    for num_tokens in lengths:
        case = draw(generator, num_tokens, 6, 2, 30.0)
        _windowed(attempt, case, 9, ", logits in the hundreds")
    query = torch.ones(4, 5).double()
    holds_little(lambda read, n: attempt.shared(query, read, n, n, BLOCK_SIZE), heads=2)


def _windowed(
    attempt: Attempt,
    given: Inputs,
    width: int,
    also: str = "",
    hint: str = "",
    size: int = BLOCK_SIZE,
) -> None:
    """One case of `window`."""
    q, k, v, _ = given
    story = f"{many(len(k), 'token')} in blocks of {size}, a window of {width}, "
    story += f"{len(q)} heads, {k.shape[1]} KV heads{also}"
    first = max(0, len(k) - width)

    def ask(read: Blocks) -> Any:
        return attempt.shared(q, read, len(k), width, size)

    asked = Asked(story, ask, Blocks(k, v, size), given, first, hint)
    is_right = asked.is_attention(asked.seen)
    if asked.wanted[0] and not is_right and asked.is_attention(given):
        raise Rejected(f"{story}: it is right without a window: all tokens are seen")
    mistakes = {
        f"right for a window of {w}": max(0, len(k) - w) for w in (width + 1, width - 1)
    }
    inside = "right if all of its first block were in the window"
    mistakes[inside] = first // size * size
    asked.judge({said: Inputs(q, k[at:], v[at:]) for said, at in mistakes.items()})
