"""Lab: the rungs that lead to lesson 6's decode kernel, each to be run and timed.

All compute the same, for batches of one new token per sequence. They leave out what
does not bear on speed: windows, soft caps, and head sizes that are no power of two.
"""

from collections.abc import Callable
from functools import partial

import torch

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.kernels.check import (
    check_contiguous,
    check_fit,
    check_heads,
)
from minipaged.attention.kernels.decode import paged_decode
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import LOG2_E, padded
from minipaged.attention.kernels.tile import divide, load_tile, online_step, slots_of
from minipaged.memory.kv_cache import LayerCache


@triton.jit(do_not_specialize=["table_width"])
def _query_head_kernel(
    out, q, keys, values, block_tables, context_lengths, table_width, scale,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    """One program for each query head: lesson 5's loop as it stands."""
    head, seq = tl.program_id(0), tl.program_id(1)
    kv_head = head // (NUM_HEADS // NUM_KV_HEADS)
    context = tl.load(context_lengths + seq).to(tl.int32)
    column, offset = tl.arange(0, DIM), tl.arange(0, BLOCK_SIZE)
    own_row = (seq.to(tl.int64) * NUM_HEADS + head) * DIM + column
    q_row = tl.load(q + own_row).to(tl.float32)  # [DIM]
    maximum, total = float("-inf"), 0.0
    weighted = tl.zeros([DIM], tl.float32)
    for first in range(0, context, BLOCK_SIZE):
        block = tl.load(block_tables + seq * table_width + first // BLOCK_SIZE)
        slots = block.to(tl.int64) * BLOCK_SIZE + offset
        # [BLOCK_SIZE, DIM]: where this head's numbers lie, in each slot of the block
        rows = (slots * NUM_KV_HEADS + kv_head)[:, None] * DIM + column[None, :]
        exists = first + offset < context
        k = tl.load(keys + rows, mask=exists[:, None], other=0.0).to(tl.float32)
        v = tl.load(values + rows, mask=exists[:, None], other=0.0).to(tl.float32)
        logits = tl.sum(k * q_row[None, :], 1) * scale  # [BLOCK_SIZE]
        logits = tl.where(exists, logits, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(logits, 0))
        weights, rescale = tl.exp2(logits - new_maximum), tl.exp2(maximum - new_maximum)
        total = total * rescale + tl.sum(weights, 0)
        weighted = weighted * rescale + tl.sum(weights[:, None] * v, 0)
        maximum = new_maximum
    tl.store(out + own_row, (weighted / total).to(out.dtype.element_ty))


@triton.jit(do_not_specialize=["table_width"])
def _kv_head_kernel(
    out, q, keys, values, block_tables, context_lengths, table_width, scale,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One program for each KV head: it reads K and V once, for all of its query heads.

    The heads are the rows of a matrix, which must have 16 for the matrix units; those
    that nobody needs cost nothing, for the memory is what everybody waits for.
    """
    kv_head, seq = tl.program_id(0), tl.program_id(1)
    context = tl.load(context_lengths + seq).to(tl.int32)
    row, column = tl.arange(0, ROWS), tl.arange(0, DIM)
    heads = (seq.to(tl.int64) * NUM_KV_HEADS + kv_head) * GROUP + row
    own_rows, mask = heads[:, None] * DIM + column[None, :], (row < GROUP)[:, None]
    q_rows = tl.load(q + own_rows, mask=mask, other=0.0)
    table = block_tables + seq.to(tl.int64) * table_width
    key_head, value_head = keys + kv_head * DIM, values + kv_head * DIM
    maximum = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    weighted = tl.zeros([ROWS, DIM], tl.float32)
    for first in range(0, context, TILE):
        position = first + tl.arange(0, TILE)
        exists = position < context
        slots = slots_of(table, position, exists, BLOCK_SIZE)
        # Behind `exists`: numbers from slot to slot, DIM, DIM as padded, and masked.
        k = load_tile(key_head, slots, exists, NUM_KV_HEADS * DIM, DIM, DIM, True)
        v = load_tile(value_head, slots, exists, NUM_KV_HEADS * DIM, DIM, DIM, True)
        maximum, total, weighted = online_step(  # no soft cap, but masked
            q_rows, k, v, exists[None, :], maximum, total, weighted, scale, 0.0,
            False, True, PRECISION,
        )  # fmt: skip
    result = divide(weighted, total).to(out.dtype.element_ty)
    tl.store(out + own_rows, result, mask=mask)


def _check(q: torch.Tensor, cache: LayerCache, batch: AttentionBatch) -> None:
    """Refuse what the rungs leave out."""
    keys, values = cache.keys, cache.values
    check_fit(
        q=(q, "num_sequences num_heads dim"),
        keys=(keys, "num_blocks block_size num_kv_heads dim"),
        values=(values, "num_blocks block_size num_kv_heads dim"),
        block_tables=(batch.block_tables, "num_sequences table_width"),
        context_lengths=(batch.context_lengths, "num_sequences"),
    )
    check_heads(q, keys)
    check_contiguous(q=q, keys=keys, values=values, block_tables=batch.block_tables)


def per_query_head(
    q: torch.Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> torch.Tensor:
    """Every query head by itself, block by block. Shapes as in triton_attention."""
    _check(q, cache, batch)
    out = torch.empty_like(q)
    num_seqs, num_heads, dim = q.shape
    _query_head_kernel[num_heads, num_seqs](
        out, q, cache.keys, cache.values, batch.block_tables, batch.context_lengths,
        batch.block_tables.shape[1], masking.scale * LOG2_E,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=cache.keys.shape[2],
        DIM=dim,
        BLOCK_SIZE=cache.keys.shape[1],
    )  # fmt: skip
    return out


def per_kv_head(
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    tile: int | None = None,
    num_stages: int = 1,
) -> torch.Tensor:
    """The query heads of a KV head together; `tile` positions at a time, or a block.

    num_stages: above 1, the next tile is read while this one is computed.
    """
    _check(q, cache, batch)
    out = torch.empty_like(q)
    num_seqs, num_heads, dim = q.shape
    _, block_size, num_kv_heads, _ = cache.keys.shape
    group = num_heads // num_kv_heads
    _kv_head_kernel[num_kv_heads, num_seqs](
        out, q, cache.keys, cache.values, batch.block_tables, batch.context_lengths,
        batch.block_tables.shape[1], masking.scale * LOG2_E,
        NUM_KV_HEADS=num_kv_heads,
        GROUP=group,
        ROWS=padded(group),
        DIM=dim,
        BLOCK_SIZE=block_size,
        TILE=tile or block_size,
        PRECISION="ieee" if q.dtype == torch.float32 else None,
        num_stages=num_stages,
    )  # fmt: skip
    return out


def split(
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    num_splits: int | None = None,
) -> torch.Tensor:
    """The package's own kernel: long contexts are shared among programs, and merged."""
    _check(q, cache, batch)
    out = torch.empty_like(q)
    where = (batch.block_tables, batch.context_lengths, batch.query_starts)
    lengths = (batch.min_context_length, batch.max_context_length)
    paged_decode(
        out, q, cache.keys, cache.values, *where, *lengths, masking.scale,
        num_splits=num_splits,
    )  # fmt: skip
    return out


# From the bottom to the top; each is called with (q, cache, batch, masking).
RUNGS: dict[str, Callable[..., torch.Tensor]] = {
    "one program per query head": per_query_head,
    "one program per KV head": per_kv_head,
    "tiles wider than a block": partial(per_kv_head, tile=64),
    "reads under way while computing": partial(per_kv_head, tile=64, num_stages=4),
    "contexts split among programs": split,
}
