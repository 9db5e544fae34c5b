"""Lab: what paging costs: one kernel, with a block table and without."""

import torch

from minipaged.attention.kernels.decode import merge_splits
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import LOG2_E, Sizes
from minipaged.attention.kernels.tile import (
    divide,
    load_tile,
    log_of,
    nothing_seen,
    online_step,
)


@triton.jit(do_not_specialize=["table_width", "room"])
def _paging_kernel(
    out, log_totals, q, keys, values, block_tables, context_lengths, table_width, room,
    scale,
    PAGED: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """The ladder's `_split_kernel`; new are the lines at `PAGED`."""
    kv_head, seq, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    num_splits = tl.num_programs(2)
    context = tl.load(context_lengths + seq).to(tl.int32)
    share = tl.cdiv(tl.cdiv(context, num_splits), TILE) * TILE
    start = split * share
    stop = tl.minimum(start + share, context)

    row, column = tl.arange(0, ROWS), tl.arange(0, DIM)
    is_head = row < GROUP
    head = (seq.to(tl.int64) * NUM_KV_HEADS + kv_head) * GROUP + row
    places = head[:, None] * DIM + column[None, :]
    q_rows = tl.load(q + places, mask=is_head[:, None], other=0.0)
    if PAGED:
        table = block_tables + seq.to(tl.int64) * table_width
    key_head, value_head = keys + kv_head * DIM, values + kv_head * DIM
    maximum, total, weighted = nothing_seen(ROWS, DIM)
    for first in range(start, stop, TILE):
        position = first + tl.arange(0, TILE)
        exists = position < stop
        if PAGED:  # the table says where the position's block lies
            block = tl.load(table + position // BLOCK_SIZE, mask=exists, other=0)
            slots = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
        else:  # every sequence has `room` slots in one piece
            slots = seq.to(tl.int64) * room + position
        k = load_tile(key_head, slots, exists, NUM_KV_HEADS * DIM, DIM, DIM, True)
        v = load_tile(value_head, slots, exists, NUM_KV_HEADS * DIM, DIM, DIM, True)
        maximum, total, weighted = online_step(
            q_rows, k, v, exists[None, :], maximum, total, weighted, scale, None, True
        )

    out_row = head * num_splits + split
    tl.store(log_totals + out_row, log_of(maximum, total), mask=is_head)
    places = out_row[:, None] * DIM + column[None, :]
    result = divide(weighted, total).to(out.dtype.element_ty)
    tl.store(out + places, result, mask=is_head[:, None])


def paged_or_not(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    block_tables: torch.Tensor | None,
    context_lengths: torch.Tensor,
    query_starts: torch.Tensor,
    scale: float,
    sizes: Sizes,
    num_splits: int,
) -> torch.Tensor:
    """Attention of one new token for each sequence: [S, H, dim], as q.

    keys, values: [num_blocks, block_size, num_kv_heads, dim], with a block table;
    without one, [S, room, num_kv_heads, dim]: the sequences lie one after another, and
    the place of a position is computed. Nothing is checked.
    """
    out = torch.empty_like(q)
    num_seqs, num_heads, dim = q.shape
    _, block_size, num_kv_heads, _ = keys.shape
    parts = (num_seqs, num_heads, num_splits)
    log_totals = q.new_empty(parts, dtype=torch.float32)
    target = out
    if num_splits > 1:
        target = q.new_empty((*parts, dim), dtype=torch.float32)
    is_paged = block_tables is not None
    _paging_kernel[num_kv_heads, num_seqs, num_splits](
        target, log_totals, q, keys, values,
        block_tables, context_lengths, block_tables.shape[1] if is_paged else 0,
        block_size,  # which is all the room, without a table
        scale * LOG2_E,
        PAGED=is_paged,
        BLOCK_SIZE=block_size if is_paged else 1,
        NUM_KV_HEADS=num_kv_heads,
        GROUP=num_heads // num_kv_heads,
        DIM=dim,
        ROWS=sizes.rows,
        TILE=sizes.tile,
        num_warps=sizes.num_warps,
        num_stages=sizes.num_stages,
    )  # fmt: skip
    if num_splits > 1:
        merge_splits(out, target, log_totals, query_starts, overlap=False)
    return out
