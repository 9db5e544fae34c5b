"""Lab: checks of lesson 5's exercises: merging parts, streaming over blocks."""

from copy import deepcopy
from itertools import product
from typing import Any

import torch

from minipaged.lab.check.streaming import (
    RAMPS,
    TOLERANCE,
    Blocks,
    attends,
    draw,
    ramp,
    read_once,
)
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, expect


@exercise
def merge(attempt: Attempt) -> None:
    """Two (maximum, total, weighted) -> the one of the positions of both."""
    generator = torch.Generator().manual_seed(0)
    for sizes in product((0, 1, 3), (0, 1, 4)):
        for spread in (1.0, 1000.0):
            logits = spread * torch.randn(sum(sizes), generator=generator).double()
            values = torch.randn(len(logits), 3, generator=generator).double()
            cut = sizes[0]
            one = _triple(logits[:cut], values[:cut])
            other = _triple(logits[cut:], values[cut:])
            story = f"parts of {sizes[0]} and {sizes[1]} positions, logits "
            story += f"{[round(x, 1) for x in logits.tolist()]}"
            before = deepcopy((*one, *other))
            found = _three(attempt.shared(one, other), story)
            for part, given in zip((*one, *other), before, strict=True):
                if not torch.equal(part, given):
                    raise Rejected(f"{story}: it has written into its arguments")
            names = "maximum", "total", "weighted"
            parts = zip(names, found, _triple(logits, values), strict=True)
            for name, ours, right in parts:
                _compare(f"{story}; {name}", ours, right)


def _triple(logits: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What a part leaves behind, in one go; of no positions: -inf, 0 and zeros."""
    if not len(logits):
        return logits.new_tensor(-torch.inf), logits.new_zeros(()), values.sum(dim=0)
    weights = (logits - logits.max()).exp()
    return logits.max(), weights.sum(), weights @ values


def _three(answer: Any, story: str) -> list[torch.Tensor]:
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise Rejected(f"{story}: returned {answer!r:.40}, expected three things")
    return [torch.as_tensor(part).double() for part in answer]


def _compare(what: str, found: torch.Tensor, right: torch.Tensor) -> None:
    expect(f"{what}, shape", tuple(found.shape), tuple(right.shape))
    if found.isnan().any():
        raise Rejected(
            f"{what}: NaN; is -inf subtracted from -inf, or does an exp overflow?"
        )
    if not torch.allclose(found, right, atol=TOLERANCE):
        raise Rejected(f"{what}: got {found.tolist()}, expected {right.tolist()}")


@exercise
def stream(attempt: Attempt) -> None:
    """(q, read, num_tokens, block_size) -> one head's attention, [D], in one pass."""
    generator = torch.Generator().manual_seed(0)
    for num_tokens, spread in product((1, 3, 4, 5, 8, 19), (1.0, 0.0, 30.0)):
        q, k, v = draw(generator, num_tokens, 1, 1, spread)
        read = Blocks(k[:, 0], v[:, 0], block_size=4)
        found = attempt.shared(q[0], read, num_tokens, 4)
        story = f"{num_tokens} tokens in blocks of 4"
        if spread > 1:
            story += ", logits in the hundreds"
        read_once(story, read, range(-(-num_tokens // 4)))
        attends(story, found, q[0], k, v, read)
    for ends in RAMPS:
        q, k, v = ramp(generator, *ends, 1, 1)
        read = Blocks(k[:, 0], v[:, 0], block_size=4)
        found = attempt.shared(q[0], read, len(k), 4)
        story = "19 tokens in blocks of 4, logits from {:g} to {:g}".format(*ends)
        read_once(story, read, range(5))
        attends(story, found, q[0], k, v, read)


@exercise
def window(attempt: Attempt) -> None:
    """(q, read, num_tokens, window, block_size) -> [H, D]; only the blocks it needs."""
    generator = torch.Generator().manual_seed(0)
    lengths = (1, 4, 5, 8, 19, 22)
    for num_tokens, width in product(lengths, (1, 3, 4, 5, 9, 100)):
        heads, kv_heads = [(4, 2), (6, 2), (3, 3), (5, 1)][(num_tokens + width) % 4]
        spread = 30.0 if width == 9 else 1.0
        _windowed(attempt, *draw(generator, num_tokens, heads, kv_heads, spread), width)
    for ends in RAMPS:
        story = ", logits from {:g} to {:g}".format(*ends)
        _windowed(attempt, *ramp(generator, *ends, 4, 2), 12, story)


def _windowed(
    attempt: Attempt,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    width: int,
    also: str = "",
) -> None:
    """One case of `window`."""
    num_tokens, read = len(k), Blocks(k, v, block_size=4)
    found = attempt.shared(q, read, num_tokens, width, 4)
    story = f"{num_tokens} tokens in blocks of 4, a window of {width}, {len(q)} heads, "
    story += f"{k.shape[1]} KV heads{also}"
    first = max(0, num_tokens - width)
    read_once(story, read, range(first // 4, -(-num_tokens // 4)))
    mistakes = {
        f"right for a window of {w}": max(0, num_tokens - w)
        for w in (width + 1, width - 1)
    }
    mistakes["right if the window began with its first block"] = first // 4 * 4
    others = {name: (q, k[at:], v[at:]) for name, at in mistakes.items()}
    attends(story, found, q, k[first:], v[first:], read, others)
