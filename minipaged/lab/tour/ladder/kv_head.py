"""Lab: rungs 2 to 5, a program for each KV head: one kernel, launched four ways."""

import torch

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import LOG2_E, padded
from minipaged.attention.kernels.tile import (
    divide,
    load_tile,
    nothing_seen,
    online_step,
    slots_of,
)
from minipaged.lab.tour.ladder.check import check_rung
from minipaged.memory.kv_cache import LayerCache


@triton.jit
def update_by_sums(q, k, v, visible, maximum, total, weighted, scale):
    """Lesson 5's step for several query heads; each number of a product is a sum.

    `[:, None, :]` makes [rows, DIM] a [rows, 1, DIM], `[None, :, :]` makes [N, DIM] a
    [1, N, DIM]; their product has [rows, N, DIM], and a sum over dimension 2 leaves
    [rows, N].
    """
    logits = tl.sum(q[:, None, :].to(tl.float32) * k[None, :, :], 2) * scale
    logits = tl.where(visible, logits, float("-inf"))
    new_maximum = tl.maximum(maximum, tl.max(logits, 1))
    weights = tl.exp2(logits - new_maximum[:, None])  # [rows, N]
    rescale = tl.exp2(maximum - new_maximum)  # [rows]
    total = total * rescale + tl.sum(weights, 1)
    weighted = weighted * rescale[:, None]
    weighted += tl.sum(weights[:, :, None] * v[None, :, :], 1)  # over the N positions
    return new_maximum, total, weighted


@triton.jit
def update_by_units(q, k, v, visible, maximum, total, weighted, scale):
    """The same step; the matrix units compute its products."""
    return online_step(  # no soft cap, but masked
        q, k, v, visible, maximum, total, weighted, scale, None, True
    )


@triton.jit(do_not_specialize=["table_width"])
def _kv_head_kernel(
    out, q, keys, values, block_tables, context_lengths, table_width, scale,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,  # GROUP, padded
    TILE: tl.constexpr,
    UPDATE: tl.constexpr,  # a function: lesson 5's step over a tile
):  # fmt: skip
    """It reads K and V once, for all query heads of its KV head: the rows of q_rows."""
    kv_head, seq = tl.program_id(0), tl.program_id(1)
    context = tl.load(context_lengths + seq).to(tl.int32)
    row, column = tl.arange(0, ROWS), tl.arange(0, DIM)
    is_head = row < GROUP  # the other rows only pad
    head = (seq.to(tl.int64) * NUM_KV_HEADS + kv_head) * GROUP + row
    places = head[:, None] * DIM + column[None, :]
    q_rows = tl.load(q + places, mask=is_head[:, None], other=0.0)
    table = block_tables + seq.to(tl.int64) * table_width
    key_head, value_head = keys + kv_head * DIM, values + kv_head * DIM
    SLOT_STRIDE: tl.constexpr = NUM_KV_HEADS * DIM  # numbers from slot to slot
    maximum, total, weighted = nothing_seen(ROWS, DIM)
    for first in range(0, context, TILE):
        position = first + tl.arange(0, TILE)
        exists = position < context
        slots = slots_of(table, position, exists, BLOCK_SIZE)
        # DIM twice: it needs no padding.
        k = load_tile(key_head, slots, exists, SLOT_STRIDE, DIM, DIM, MASKED=True)
        v = load_tile(value_head, slots, exists, SLOT_STRIDE, DIM, DIM, MASKED=True)
        maximum, total, weighted = UPDATE(
            q_rows, k, v, exists[None, :], maximum, total, weighted, scale
        )
    result = divide(weighted, total).to(out.dtype.element_ty)
    tl.store(out + places, result, mask=is_head[:, None])


def per_kv_head(
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    *,
    matrix_units: bool,
    tile: int = 16,
    num_warps: int = 4,
    num_stages: int = 1,
) -> torch.Tensor:
    """The query heads of a KV head together. Options as for `per_query_head`.

    matrix_units: they compute the products, and want 16 rows. The rows that only pad
    cost them nothing; sums are spared such rows.
    """
    check_rung(q, cache, batch)
    out = torch.empty_like(q)
    num_seqs, num_heads, dim = q.shape
    _, block_size, num_kv_heads, _ = cache.keys.shape
    group = num_heads // num_kv_heads
    _kv_head_kernel[num_kv_heads, num_seqs](
        out, q, cache.keys, cache.values, batch.block_tables, batch.context_lengths,
        batch.block_tables.shape[1], masking.scale * LOG2_E,
        BLOCK_SIZE=block_size,
        NUM_KV_HEADS=num_kv_heads,
        GROUP=group,
        DIM=dim,
        ROWS=padded(group) if matrix_units else triton.next_power_of_2(group),
        TILE=tile,
        UPDATE=update_by_units if matrix_units else update_by_sums,
        num_warps=num_warps,
        num_stages=num_stages,
    )  # fmt: skip
    return out
