"""Lab: checks of lesson 5's exercises: merging parts, streaming over blocks."""

from itertools import product
from typing import Any

import torch

from minipaged.lab.check.verdict import Attempt, Rejected, exercise, expect

TOLERANCE = 1e-5  # the inputs are float64, and the values about 1


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
            found = _three(attempt(one, other), story)
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
        raise Rejected(f"{what}: NaN; is -inf subtracted from -inf somewhere?")
    if not torch.allclose(found, right, atol=TOLERANCE):
        raise Rejected(f"{what}: got {found.tolist()}, expected {right.tolist()}")


class Blocks:
    """A sequence's blocks, to be read one at a time: `read(j)` gives its K and V.

    There is memory for one block: what an earlier call gave turns into NaN. So do the
    slots that no token was written to.
    """

    def __init__(self, k: torch.Tensor, v: torch.Tensor, block_size: int):
        size = -len(k) % block_size  # slots without a token
        tail = k.new_full((size, *k.shape[1:]), torch.nan)
        self._k, self._v = (torch.cat([x, tail]).split(block_size) for x in (k, v))
        self._given: tuple[torch.Tensor, ...] = ()
        self.reads: list[int] = []

    def __call__(self, block: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= block < len(self._k):
            raise IndexError(f"no block {block}: they are 0 to {len(self._k) - 1}")
        for given in self._given:
            given.fill_(torch.nan)
        self.reads.append(int(block))
        self._given = self._k[block].clone(), self._v[block].clone()
        return self._given

    def __repr__(self) -> str:
        return "read"


@exercise
def stream(attempt: Attempt) -> None:
    """(q, read, num_tokens, block_size) -> one head's attention, [D], in one pass."""
    generator = torch.Generator().manual_seed(0)
    for num_tokens, spread in product((1, 3, 4, 5, 8, 19), (1.0, 0.0, 30.0)):
        q, k, v = _draw(generator, num_tokens, 1, 1, spread)
        read = Blocks(k[:, 0], v[:, 0], block_size=4)
        found = attempt.shared(q[0], read, num_tokens, 4)
        story = f"{num_tokens} tokens in blocks of 4"
        if spread > 1:
            story += ", logits in the hundreds"
        _read_once(story, read, range(-(-num_tokens // 4)))
        _attends(story, found, q[0], k, v)


@exercise
def window(attempt: Attempt) -> None:
    """(q, read, num_tokens, window, block_size) -> [H, D]; only the blocks it needs."""
    generator = torch.Generator().manual_seed(0)
    lengths = (1, 4, 5, 8, 19, 22)
    for num_tokens, width in product(lengths, (1, 3, 4, 5, 9, 100)):
        heads, kv_heads = [(4, 2), (6, 2), (3, 3), (5, 1)][(num_tokens + width) % 4]
        spread = 30.0 if width == 9 else 1.0
        q, k, v = _draw(generator, num_tokens, heads, kv_heads, spread)
        read = Blocks(k, v, block_size=4)
        found = attempt.shared(q, read, num_tokens, width, 4)
        story = (
            f"{num_tokens} tokens in blocks of 4, a window of {width}, {heads} heads, "
            f"{kv_heads} KV heads"
        )
        first = max(0, num_tokens - width)
        _read_once(story, read, range(first // 4, -(-num_tokens // 4)))
        _attends(story, found, q, k[first:], v[first:])


def _draw(
    generator: torch.Generator,
    num_tokens: int,
    heads: int,
    kv_heads: int,
    spread: float,
) -> tuple[torch.Tensor, ...]:
    """q [heads, 5]; k and v [num_tokens, kv heads, 5], in float64."""
    shapes = (heads, 5), (num_tokens, kv_heads, 5), (num_tokens, kv_heads, 5)
    q, k, v = (torch.randn(shape, generator=generator).double() for shape in shapes)
    return spread * q, spread * k, v


def _read_once(story: str, read: Blocks, wanted: range) -> None:
    twice = sorted({block for block in read.reads if read.reads.count(block) > 1})
    if twice:
        raise Rejected(f"{story}: block {twice[0]} was read more than once")
    expect(f"{story}; blocks read", sorted(read.reads), list(wanted))


def _attends(
    story: str, found: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> None:
    """Compare with softmax over all of k and v at once."""
    if not isinstance(found, torch.Tensor):
        raise Rejected(f"{story}: got {found!r:.40}, expected a tensor")
    expect(f"{story}; shape", tuple(found.shape), tuple(q.shape))
    if found.isnan().any():
        raise Rejected(
            f"{story}: NaN; an overflow, -inf minus -inf, a slot past the last token, "
            "or a block that was kept after the next one was read"
        )
    error = (found.double() - _attention(q, k, v)).abs().max()
    if error > TOLERANCE:
        said = _diagnosis(found.double(), q, k, v)
        raise Rejected(f"{story}: off by up to {error:.2g}{said}")


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    rows = q.view(-1, q.shape[-1])
    k, v = (x.repeat_interleave(len(rows) // k.shape[1], dim=1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    weights = torch.softmax(torch.einsum("hd,thd->ht", rows, k) * scale, dim=-1)
    return torch.einsum("ht,thd->hd", weights, v).view(q.shape)


def _diagnosis(
    found: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> str:
    """What the mistake is, if it is one that is often made."""
    tiled = torch.arange(k.shape[1]).repeat(q.numel() // q.shape[-1] // k.shape[1])
    mistakes = {
        "right but for the scale": (q, k, v, 1.0),
        "right if KV heads went round: neighbours share one": (
            q,
            k[:, tiled],
            v[:, tiled],
        ),
        "right if the last token did not count": (q, k[:-1], v[:-1]),
    }
    for name, inputs in mistakes.items():
        if len(inputs[1]) and (found - _attention(*inputs)).abs().max() < TOLERANCE:
            return f"; it is {name}"
    return "; is what was summed so far rescaled when the maximum grows?"
