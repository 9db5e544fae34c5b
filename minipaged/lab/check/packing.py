"""Lab: what the check of packed attention knows: batches, and usual mistakes."""

import math
from typing import NamedTuple

import torch

from minipaged.lab.check.guard import GUARD
from minipaged.lab.check.kernel import Launched
from minipaged.lab.check.streaming import RAMPS, RULES, walk
from minipaged.lab.check.verdict import Rejected, many

TOLERANCE = 6e-3  # weights and results are rounded to float16; values are about 1
LOG2_E = math.log2(math.e)


class Batch(NamedTuple):
    """One new token of each sequence, over a pool that is NaN where no token lies."""

    contexts: list[int]
    q: torch.Tensor  # [S, H, D] float16
    keys: torch.Tensor  # [blocks, block size, KV heads, D] float16
    values: torch.Tensor
    tables: torch.Tensor  # [S, table width]
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

    def of(self, seq: int) -> tuple[torch.Tensor, torch.Tensor]:
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


# What is left out, and whether weighted values and total are of all blocks.
LOST = {
    "only the last block counts: is the maximum kept for the next?": (False, False),
    "weighted values are the last block's only; add to those before": (False, True),
    "the total is the last block's only; add to that before": (True, False),
}


def compare_packed(story: str, launched: Launched, batch: Batch) -> None:
    """Compare with softmax over all positions; then ask how often K and V were read."""
    found = launched[0].double()
    right = torch.stack([_attention(batch, seq) for seq in range(len(batch.contexts))])
    if (found == GUARD).any():
        seq, head = (found == GUARD).any(2).nonzero()[0].tolist()
        raise Rejected(f"{story}: sequence {seq}, head {head}: not all was stored")
    said = _too_little(launched, batch)
    if not found.isfinite().all():
        seen = launched.says_nan()
        where = "a slot was loaded in which the sequence has no token: is the load "
        where += "masked, is it the sequence's block, and is the way from slot to slot "
        where += f"right?{seen}"
        empty = batch.overflow or "is -inf subtracted from -inf, or 0 / 0?"
        raise Rejected(f"{story}: NaN; {said or (where if seen else empty)}")
    error = (found - right).abs().max().item()
    if error > TOLERANCE:
        said = said or _diagnosis(found, batch)
        raise Rejected(f"{story}: off by up to {error:.2g}; {said}")
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
            raise Rejected(
                f"{story}: right, but {name} was loaded {times:.3g} times over; load a "
                "tile once, and use it for all GROUP heads"
            )
    if launched.dots is not None:
        both = 2 * needed * batch.sizes[3]
        if not launched.dots:
            said = "no tl.dot ran: let it do both products"
            raise Rejected(f"{story}: right, but {said}")
        if sum(launched.dots.values()) < both:
            said = "one of the two products is no tl.dot; what ran is only"
            lines = "".join(f"\n    {line}" for line in launched.dots)
            raise Rejected(f"{story}: right, but {said}{lines}")


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


def _attention(batch: Batch, seq: int, **changes: float | torch.Tensor) -> torch.Tensor:
    """[H, D] of a sequence; changes: what a mistake takes for something else."""
    logits, v = _logits(batch, seq, **changes)
    return (torch.softmax(logits, 1)[:, None] @ v)[:, 0]


def _logits(
    batch: Batch,
    seq: int,
    factor: float = 1.0,
    is_round: bool = False,
    is_first: bool = False,
    first: int = 0,
    dropped: int = 0,
    zeros: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Natural logits [H, T], and the values that each head sees [H, T, D]."""
    k, v = (x[first : len(x) - dropped] for x in batch.of(seq))
    k, v = (torch.cat([x, x.new_zeros(zeros, *x.shape[1:])]) for x in (k, v))
    q = batch.q[seq].double()
    heads, kv_heads = torch.arange(len(q)), k.shape[1]
    kv = heads % kv_heads if is_round else heads // (len(q) // kv_heads)
    kv *= not is_first
    scale = batch.scale / LOG2_E * factor
    return torch.einsum("hd,thd->ht", q, k[:, kv]) * scale, v[:, kv].transpose(0, 1)


def _diagnosis(found: torch.Tensor, batch: Batch) -> str:
    """What the mistake is, if it is one that is often made."""
    size = batch.keys.shape[1]
    mistakes = {
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
    }
    every = range(len(batch.contexts))
    if batch.overflow and (found == 0).any():
        return batch.overflow
    for said, changes in mistakes.items():
        wrong = torch.stack([_attention(batch, seq, **changes) for seq in every])
        if _same(found, wrong):
            return said
    tails = [-context % size for context in batch.contexts]
    wrong = torch.stack([_attention(batch, s, zeros=tails[s]) for s in every])
    if _same(found, wrong):
        return "slots behind the last token count, with logit 0: set those to -inf"
    sums = []
    for seq in every:
        logits, v = _logits(batch, seq)
        weights = (logits - logits.amax(1, keepdim=True)).exp()
        sums.append((weights[:, None] @ v)[:, 0])
    if _same(found, torch.stack(sums)):
        return "it is the sum; divide by the sum of the weights"
    for said, (sums_all, total_all) in LOST.items():
        lost = [_only_last(batch, seq, sums_all, total_all) for seq in every]
        if max(batch.contexts) > size and _same(found, torch.stack(lost)):
            return said
    for said, (rule, by_own) in RULES.items():
        walked = []
        for seq in every:
            logits, v = _logits(batch, seq)
            sizes = [len(part) for part in torch.arange(logits.shape[1]).split(size)]
            walked.append(walk(logits, v, sizes, rule, by_own))
        if max(batch.contexts) > size and _same(found, torch.stack(walked)):
            return said
    return "which row of block_tables, which block, and which KV head are read?"


def _only_last(batch: Batch, seq: int, sums_all: bool, total_all: bool) -> torch.Tensor:
    """[H, D]: the mean if weighted values or their total are the last block's only."""
    logits, v = _logits(batch, seq)
    weights = (logits - logits.amax(1, keepdim=True)).exp()
    last = (logits.shape[1] - 1) // batch.keys.shape[1] * batch.keys.shape[1]
    of_sums, of_total = (0 if is_all else last for is_all in (sums_all, total_all))
    sums = (weights[:, None, of_sums:] @ v[:, of_sums:])[:, 0]
    return sums / weights[:, of_total:].sum(1, keepdim=True)


def _same(found: torch.Tensor, wrong: torch.Tensor) -> bool:
    scale = max(1.0, wrong.nan_to_num().abs().max().item())
    return bool((found - wrong).abs().max() < TOLERANCE * scale)
