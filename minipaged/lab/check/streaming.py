"""Lab: what lesson 5's checks share: blocks to read, and attention over all at once."""

from collections.abc import Mapping
from typing import Any

import torch

from minipaged.lab.check.verdict import Rejected, expect

TOLERANCE = 1e-5  # the inputs are float64, and the values about 1
# First and last logit, far beyond what exp can take: all must be lowered by the largest
# so far, neither by that of the first block, nor by 0 where it is smaller.
RAMPS = (-1000.0, 1000.0), (-900.0, -1000.0)


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


def draw(
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


def ramp(
    generator: torch.Generator, start: float, end: float, heads: int, kv_heads: int
) -> tuple[torch.Tensor, ...]:
    """As `draw`, for 19 tokens, with logits that go evenly from start to end."""
    q, k, v = draw(generator, 19, heads, kv_heads, 1.0)
    logits = torch.linspace(start, end, 19).double().view(-1, 1, 1)
    return torch.ones_like(q), (logits * 5**-0.5).expand_as(k), v


def read_once(story: str, read: Blocks, wanted: range) -> None:
    """Raise Rejected unless each wanted block was read once, and no other."""
    twice = sorted({block for block in read.reads if read.reads.count(block) > 1})
    if twice:
        raise Rejected(f"{story}: block {twice[0]} was read more than once")
    expect(f"{story}; blocks read", sorted(read.reads), list(wanted))


def attends(
    story: str,
    found: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    read: Blocks,
    others: Mapping[str, tuple[torch.Tensor, ...]] | None = None,
) -> None:
    """Compare with softmax over all of k and v at once; `others`: see _diagnosis."""
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
        said = _diagnosis(found.double(), q, k, v, others or {})
        if not said and len(read.reads) > 1:
            said = "; is what was summed so far rescaled when the maximum grows?"
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
    found: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    others: Mapping[str, tuple[torch.Tensor, ...]],
) -> str:
    """What the mistake is, if it is one that is often made, or one of `others`."""
    tiled = torch.arange(k.shape[1]).repeat(q.numel() // q.shape[-1] // k.shape[1])
    mistakes = {
        "right but for the scale": (q, k, v, 1.0),
        "right if KV heads went round: neighbours share one": (
            q,
            k[:, tiled],
            v[:, tiled],
        ),
        "right if the last token did not count": (q, k[:-1], v[:-1]),
        **others,
    }
    for name, inputs in mistakes.items():
        if len(inputs[1]) and (found - _attention(*inputs)).abs().max() < TOLERANCE:
            return f"; it is {name}"
    return ""
