"""Lab: what the check of packed attention knows: batches, and usual mistakes."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from minipaged.lab.check.diagnose import why
from minipaged.lab.check.guard import GUARD
from minipaged.lab.check.kernel import Launched
from minipaged.lab.check.misread import misscaled
from minipaged.lab.check.streaming import RAMPS
from minipaged.lab.check.verdict import Rejected, many

TOLERANCE = 6e-3  # weights and results are rounded to float16; values are about 1
LOG2_E = math.log2(math.e)


class Batch(NamedTuple):
    """One new token of each sequence, over a pool that is NaN where no token lies."""

    contexts: list[int]
    q: Tensor  # [S, H, D] float16
    keys: Tensor  # [blocks, block size, KV heads, D] float16
    values: Tensor
    tables: Tensor  # [S, table width]
    scale: float  # of powers of two
    story: str
    overflow: str  # what goes wrong where logits are far from 0

    @property
    def sizes(self) -> tuple[float | int, ...]:
        """What the kernel takes behind the tensors and the width of the table."""
        _, heads, dim = self.q.shape
        _, block_size, kv_heads, _ = self.keys.shape
        group = heads // kv_heads
        rows = max(16, 1 << (group - 1).bit_length())
        return self.scale, kv_heads, group, rows, dim, block_size

    def of(self, seq: int) -> tuple[Tensor, Tensor]:
        """K and V of a sequence, [T, KV heads, D], in float64."""
        size = self.keys.shape[1]
        position = torch.arange(self.contexts[seq])
        slots = self.tables[seq][position // size] * size + position % size
        return tuple(x.flatten(0, 1)[slots].double() for x in self[2:4])


def draw_batch(
    generator: torch.Generator,
    contexts: list[int],
    kv_heads: int,
    group: int,
    dim: int,
    block_size: int,
    spread: float,
) -> Batch:
    """A random batch; spread: of the logits. Below 0, all logits are."""
    num_blocks = sum(-(-context // block_size) for context in contexts)
    width = max(-(-context // block_size) for context in contexts)
    ids = torch.randperm(num_blocks, generator=generator).tolist()
    tables = torch.zeros(len(contexts), width, dtype=torch.int64)
    heads = kv_heads * group
    q = torch.randn(len(contexts), heads, dim, generator=generator) * abs(spread)
    k, v = (
        torch.randn(num_blocks, block_size, kv_heads, dim, generator=generator)
        for _ in "kv"
    )
    if spread < 0:
        q, k = -q.abs(), k.abs()
    for seq, context in enumerate(contexts):
        for entry in range(-(-context // block_size)):
            tables[seq, entry] = ids.pop()
        last = tables[seq, (context - 1) // block_size]
        for pool in (k, v):
            pool[last, (context - 1) % block_size + 1 :] = torch.nan
    each = f"{many(kv_heads, 'KV head')}, GROUP={group}, DIM={dim}"
    story = f"contexts of {contexts}, BLOCK_SIZE={block_size}, {each}"
    story += ", logits in the hundreds" if spread > 1 else ""
    story += ", all logits far below 0" if spread < 0 else ""
    hints = list(RAMPS.values())
    overflow = "" if abs(spread) == 1 else hints[0] if spread > 0 else hints[1]
    pools, scale = (q.half(), k.half(), v.half()), dim**-0.5 * LOG2_E
    return Batch(contexts, *pools, tables, scale, story, overflow)


def compare_packed(launched: Launched, batch: Batch) -> None:
    """Compare with softmax over all positions; then ask how often K and V were read."""
    found = launched[0].double()
    if (found == GUARD).any():
        seq, head = (found == GUARD).any(2).nonzero()[0].tolist()
        raise Rejected(f"sequence {seq}, head {head}: not all was stored")
    too_little = _too_little(launched, batch)
    if not found.isfinite().all():
        where = "a slot was loaded in which the sequence has no token: is the load "
        where += "masked, is it the sequence's block, and is the way from slot to slot "
        where += f"right?{launched.says_nan()}"
        empty = batch.overflow or "is -inf subtracted from -inf, or 0 / 0?"
        said = where if launched.says_nan() else empty
        raise Rejected(f"NaN; {too_little or said}")
    error = (found - _attention(batch)).abs().max().item()
    if error > TOLERANCE:
        said = why(found, {too_little: True} | _mistakes(found, batch), _same)
        raise Rejected(f"off by up to {error:.2g}{said}")
    _read_once(launched, batch)


def _too_little(launched: Launched, batch: Batch) -> str:
    """What to say if fewer numbers were loaded than there are."""
    _, _, kv_heads, dim = batch.keys.shape
    needed = sum(batch.contexts)
    loaded = {"keys": launched.num_loaded(2), "values": launched.num_loaded(3)}
    for name, number in loaded.items():
        if number is None:
            continue
        if not number and any(loaded.values()):
            return f"nothing was loaded from {name}"
        if number < needed * kv_heads * dim:
            return (
                f"{name} were loaded at {number / (kv_heads * dim):g} positions of "
                f"{needed}: does each program walk over all blocks, from 0 to the "
                "context?"
            )
    return ""


def _read_once(launched: Launched, batch: Batch) -> None:
    """Raise Rejected if K or V was read too often, or a product made without tl.dot."""
    block_size, kv_heads, dim = batch.keys.shape[1:]
    blocks = sum(-(-context // block_size) for context in batch.contexts)
    needed, most = (
        positions * kv_heads * dim
        for positions in (sum(batch.contexts), blocks * block_size)
    )
    for name, index in (("K", 2), ("V", 3)):
        number = launched.num_loaded(index)
        if number is not None and number > most:
            times = number / needed if number % needed == 0 else number / most
            said = f"{name} was loaded {times:.3g} times over; load a tile once, and "
            raise Rejected(f"right, but {said}use it for all GROUP heads")
    if launched.dots is None:
        return
    if not launched.dots:
        raise Rejected("right, but no tl.dot ran: let it do both products")
    if sum(launched.dots.values()) < 2 * needed * batch.sizes[3]:
        lines = "".join(f"\n    {line}" for line in launched.dots)
        said = "one of the two products is no tl.dot; what ran is only"
        raise Rejected(f"right, but {said}{lines}")


def _attention(batch: Batch, **changes: float) -> Tensor:
    """[S, H, D]; changes: what a mistake takes for something else."""
    every = (_logits(batch, seq, **changes) for seq in range(len(batch.contexts)))
    return torch.stack([(x.softmax(1)[:, None] @ v)[:, 0] for x, v in every])


def _logits(
    batch: Batch,
    seq: int,
    factor: float = 1.0,
    is_round: bool = False,
    is_first: bool = False,
    first: int = 0,
    dropped: int = 0,
    has_tail: bool = False,
) -> tuple[Tensor, Tensor]:
    """Natural logits [H, T], and the values that each head sees [H, T, D]."""
    zeros = has_tail * (-batch.contexts[seq] % batch.keys.shape[1])
    k, v = (x[first : len(x) - dropped] for x in batch.of(seq))
    k, v = (torch.cat([x, x.new_zeros(zeros, *x.shape[1:])]) for x in (k, v))
    q = batch.q[seq].double()
    heads, kv_heads = torch.arange(len(q)), k.shape[1]
    kv = heads % kv_heads if is_round else heads // (len(q) // kv_heads)
    kv *= not is_first
    scale = batch.scale / LOG2_E * factor
    return torch.einsum("hd,thd->ht", q, k[:, kv]) * scale, v[:, kv].transpose(0, 1)


def _mistakes(found: Tensor, batch: Batch) -> dict[str, Tensor | bool]:
    """What usual mistakes give."""
    size = batch.keys.shape[1]
    changes: dict[str, dict[str, float]] = {
        "right but for `scale`, by which nothing is multiplied": {
            "factor": 1 / batch.scale
        },
        "the weights are powers of e, but `scale` is made for tl.exp2": {
            "factor": LOG2_E
        },
        "the weights are powers of 2, and `scale` lost its log2(e)": {
            "factor": 1 / LOG2_E
        },
        "right if query heads took turns; but neighbours share one": {"is_round": True},
        "every program read K and V of the first KV head": {"is_first": True},
        "right if the last token did not count": {"dropped": 1},
        "right if the first block did not count": {"first": size},
        "slots behind the last token count, with logit 0: set those to -inf": {
            "has_tail": True
        },
    }
    mistakes: dict[str, Tensor | bool] = {
        batch.overflow: bool((found == 0).any()),
        **{said: _attention(batch, **change) for said, change in changes.items()},
    }
    of_each: list[dict[str, Tensor]] = []  # what each sequence gives, by mistake
    for seq in range(len(batch.contexts)):
        logits, v = _logits(batch, seq)
        weights = (logits - logits.amax(1, keepdim=True)).exp()
        last = (logits.shape[1] - 1) // size * size

        def added(start: int, weights: Tensor = weights, v: Tensor = v) -> Tensor:
            return (weights[:, None, start:] @ v[:, start:])[:, 0]

        total, last_total = (weights[:, at:].sum(1, keepdim=True) for at in (0, last))
        of_each.append(
            {
                "it is the sum; divide by the sum of the weights": added(0),
                "only the last block counts: is the maximum kept for the next?": (
                    added(last) / last_total
                ),
                "weighted values are the last block's only; add to those before": (
                    added(last) / total
                ),
                "the total is the last block's only; add to that before": (
                    added(0) / last_total
                ),
                **misscaled(
                    logits, v, [*map(len, torch.arange(len(v[0])).split(size))]
                ),
            }
        )
    several = max(batch.contexts) > size  # else the last block is all there is
    for said in list(of_each[0])[: None if several else 1]:
        mistakes[said] = torch.stack([given[said] for given in of_each])
    last = "which row of block_tables, which block, and which KV head are read?"
    return mistakes | {last: True}


def _same(found: Tensor, wrong: Tensor) -> bool:
    scale = max(1.0, wrong.nan_to_num().abs().max().item())
    return bool((found - wrong).abs().max() < TOLERANCE * scale)
