"""Lab: checks of lesson 5's exercises: merging parts, streaming over blocks."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any

import torch

from minipaged.lab.check.misread import TOLERANCE
from minipaged.lab.check.streaming import (
    BLOCK_SIZE,
    RAMPS,
    Blocks,
    answer_of,
    attends,
    draw,
    holds_little,
    is_attention,
    ramp,
    read_once,
)
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, expect, many


@exercise
def merge(attempt: Attempt) -> None:
    """Two (maximum, total, weighted) -> the one of the positions of both."""
    generator = torch.Generator().manual_seed(0)
    for sizes in product((3, 1, 0), (4, 1, 0)):
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
            for index, (name, ours, right) in enumerate(parts):
                usual = _usual_mistakes(before[:3], before[3:], index, right)
                rule = "; the larger of the two, also if it is -inf" * (
                    name == "maximum"
                )
                _compare(f"{story}; {name}", ours, right, usual, rule)


def _triple(logits: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What a part leaves behind, in one go; of no positions: -inf, 0 and zeros."""
    if not len(logits):
        return logits.new_tensor(-torch.inf), logits.new_zeros(()), values.sum(dim=0)
    weights = (logits - logits.max()).exp()
    return logits.max(), weights.sum(), weights @ values


def _three(answer: Any, story: str) -> list[torch.Tensor]:
    if not isinstance(answer, tuple | list):
        raise Rejected(f"{story}: returned {answer!r:.40}, expected three things")
    if len(answer) != 3:
        raise Rejected(f"{story}: returned {len(answer)} things, expected three")
    return [torch.as_tensor(part).double() for part in answer]


def _usual_mistakes(
    one: Sequence[torch.Tensor],
    other: Sequence[torch.Tensor],
    index: int,
    right: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Wrong answers for part `index` of the triple, and what makes them."""
    maximum = torch.maximum(one[0], other[0])
    if not index:
        return {}
    factors = (one[0] - maximum).exp(), (other[0] - maximum).exp()
    unscaled = "the part whose maximum is smaller is not rescaled"
    mistakes = {unscaled: one[index] + other[index]}
    exchanged = one[index] * factors[1] + other[index] * factors[0]
    mistakes["each side is multiplied by the other's factor"] = exchanged
    upside_down = one[index] / factors[0] + other[index] / factors[1]
    mistakes["upside down: the factor is e^(its maximum - the larger)"] = upside_down
    plain = one[index] * one[0].exp() + other[index] * other[0].exp()
    mistakes["not lowered: the factor is e^(its maximum - the larger)"] = plain
    if index == 2:
        total = one[1] * factors[0] + other[1] * factors[1]
        mistakes["it is divided already; keep the sum, divide at the end"] = (
            right / total
        )
    return mistakes


def _compare(
    what: str,
    found: torch.Tensor,
    right: torch.Tensor,
    usual: Mapping[str, torch.Tensor],
    rule: str = "",
) -> None:
    """usual: wrong answers, by what makes them. rule: said of any other one."""
    expect(f"{what}, shape", tuple(found.shape), tuple(right.shape))
    if found.isnan().any():
        raise Rejected(
            f"{what}: NaN; is -inf subtracted from -inf, or does an exp overflow?"
        )
    if not torch.allclose(found, right, atol=TOLERANCE):
        said = f"{what}: got {_rounded(found)}, expected {_rounded(right)}"
        for mistake, wrong in usual.items():
            if torch.allclose(found, wrong, atol=TOLERANCE):
                raise Rejected(f"{said}; {mistake}")
        raise Rejected(said + rule)


def _rounded(part: torch.Tensor) -> str:
    numbers = [f"{number:.4g}" for number in part.flatten().tolist()]
    return f"[{', '.join(numbers)}]" if part.dim() else numbers[0]


@exercise
def stream(attempt: Attempt) -> None:
    """(q, read, num_tokens, block_size) -> one head's attention, [D], in one pass."""
    generator = torch.Generator().manual_seed(0)
    # Each case tells what those before it do not; many blocks more than two.
    lengths = (1, 3, 4, 19, 5, 8)
    for num_tokens in lengths:
        _streamed(attempt, *draw(generator, num_tokens, 1, 1, 1.0))
    _streamed(attempt, *draw(generator, 19, 1, 1, 1.0), size=3)
    for ends, hint in RAMPS.items():
        story = ", logits from {:g} to {:g}".format(*ends)
        _streamed(attempt, *ramp(generator, *ends, 1, 1), story, hint)
    for num_tokens, spread in product(lengths, (0.0, 30.0)):
        story = ", logits in the hundreds" if spread else ", equal logits"
        _streamed(attempt, *draw(generator, num_tokens, 1, 1, spread), story)
    query = torch.ones(5).double()
    holds_little(lambda read, n: attempt.shared(query, read, n, BLOCK_SIZE), heads=1)


def _streamed(
    attempt: Attempt,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    also: str = "",
    hint: str = "",
    size: int = BLOCK_SIZE,
) -> None:
    """One case of `stream`."""
    num_tokens, read = len(k), Blocks(k[:, 0], v[:, 0], size)
    story = f"{many(num_tokens, 'token')} in blocks of {size}{also}"
    seen, wanted = range(num_tokens), range(-(-num_tokens // size))

    def ask(blocks: Blocks) -> Any:
        return attempt.shared(q[0], blocks, num_tokens, size)

    found = answer_of(story, lambda: ask(read), read, seen, wanted)
    read_once(story, read, wanted)
    attends(story, found, q[0], k, v, read, ask, hint=hint)


@exercise
def window(attempt: Attempt) -> None:
    """(q, read, num_tokens, window, block_size) -> [H, D]; only the blocks it needs."""
    generator = torch.Generator().manual_seed(0)
    # The first window that hides anything begins amid a block that is not the first.
    lengths = (22, 1, 4, 5, 8, 19)
    for num_tokens, width in product(lengths, (100, 8, 1, 3, 4, 5, 9)):
        heads, kv_heads = [(4, 2), (6, 2), (3, 3), (5, 1)][(num_tokens + width) % 4]
        _windowed(attempt, *draw(generator, num_tokens, heads, kv_heads, 1.0), width)
    _windowed(attempt, *draw(generator, 19, 4, 2, 1.0), 10, size=3)
    for ends, hint in RAMPS.items():
        story = ", logits from {:g} to {:g}".format(*ends)
        _windowed(attempt, *ramp(generator, *ends, 4, 2), 12, story, hint)
    for num_tokens in lengths:
        case = draw(generator, num_tokens, 6, 2, 30.0)
        _windowed(attempt, *case, 9, ", logits in the hundreds")
    query = torch.ones(4, 5).double()
    holds_little(lambda read, n: attempt.shared(query, read, n, n, BLOCK_SIZE), heads=2)


def _windowed(
    attempt: Attempt,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    width: int,
    also: str = "",
    hint: str = "",
    size: int = BLOCK_SIZE,
) -> None:
    """One case of `window`."""
    num_tokens, read = len(k), Blocks(k, v, size)
    story = f"{many(num_tokens, 'token')} in blocks of {size}, a window of {width}, "
    story += f"{len(q)} heads, {k.shape[1]} KV heads{also}"
    first = max(0, num_tokens - width)
    wanted = range(first // size, -(-num_tokens // size))

    def ask(blocks: Blocks) -> Any:
        return attempt.shared(q, blocks, num_tokens, width, size)

    seen = range(first, num_tokens)
    found = answer_of(story, lambda: ask(read), read, seen, wanted)
    is_right = is_attention(found, q, k[first:], v[first:])
    if wanted[0] and not is_right and is_attention(found, q, k, v):
        raise Rejected(f"{story}: it is right without a window: all tokens are seen")
    read_once(story, read, wanted)
    mistakes = {
        f"right for a window of {w}": max(0, num_tokens - w)
        for w in (width + 1, width - 1)
    }
    mistakes["right if all of its first block were in the window"] = (
        first // size * size
    )
    others = {name: (q, k[at:], v[at:]) for name, at in mistakes.items()}
    attends(story, found, q, k[first:], v[first:], read, ask, others, hint)
