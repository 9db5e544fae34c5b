"""Lab: rungs 6 and 7, long contexts split among programs, whose results are merged."""

import torch

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.kernels.decode import merge_splits
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import LOG2_E, padded
from minipaged.attention.kernels.tile import (
    divide,
    load_tile,
    log_of,
    nothing_seen,
    online_step,
    slots_of,
)
from minipaged.lab.tour.ladder.check import check_rung
from minipaged.lab.tour.ladder.kv_head import per_kv_head
from minipaged.memory.kv_cache import LayerCache


@triton.jit(do_not_specialize=["table_width"])
def _split_kernel(
    out,  # [S, H, splits, DIM] float32, so that nothing is rounded twice
    log_totals,  # [S, H, splits]: log2 of the sum of all weights
    q, keys, values, block_tables, context_lengths, table_width, scale,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """The same loop from `start` to `stop`; what it leaves is one part of a result."""
    kv_head, seq, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    num_splits = tl.num_programs(2)
    context = tl.load(context_lengths + seq).to(tl.int32)
    # Equal shares, in whole tiles; the last ones may be empty.
    share = tl.cdiv(tl.cdiv(context, num_splits), TILE) * TILE
    start = split * share
    stop = tl.minimum(start + share, context)

    row, column = tl.arange(0, ROWS), tl.arange(0, DIM)
    is_head = row < GROUP
    head = (seq.to(tl.int64) * NUM_KV_HEADS + kv_head) * GROUP + row
    places = head[:, None] * DIM + column[None, :]
    q_rows = tl.load(q + places, mask=is_head[:, None], other=0.0)
    table = block_tables + seq.to(tl.int64) * table_width
    key_head, value_head = keys + kv_head * DIM, values + kv_head * DIM
    SLOT_STRIDE: tl.constexpr = NUM_KV_HEADS * DIM  # numbers from slot to slot
    maximum, total, weighted = nothing_seen(ROWS, DIM)
    for first in range(start, stop, TILE):
        position = first + tl.arange(0, TILE)
        exists = position < stop
        slots = slots_of(table, position, exists, BLOCK_SIZE)
        # DIM twice: it needs no padding.
        k = load_tile(key_head, slots, exists, SLOT_STRIDE, DIM, DIM, MASKED=True)
        v = load_tile(value_head, slots, exists, SLOT_STRIDE, DIM, DIM, MASKED=True)
        maximum, total, weighted = online_step(
            q_rows, k, v, exists[None, :], maximum, total, weighted, scale, None, True
        )

    out_row = head * num_splits + split
    tl.store(log_totals + out_row, log_of(maximum, total), mask=is_head)
    places = out_row[:, None] * DIM + column[None, :]
    tl.store(out + places, divide(weighted, total), mask=is_head[:, None])


def split(
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    *,
    num_splits: int,
    tile: int = 64,
    num_warps: int = 4,
    num_stages: int = 4,
) -> torch.Tensor:
    """Every context in so many splits, merged by a second kernel.

    Other options as for `per_query_head`. A single split is `per_kv_head`.
    """
    given = q, cache, batch, masking
    sizes = {"tile": tile, "num_warps": num_warps, "num_stages": num_stages}
    if num_splits == 1:
        return per_kv_head(*given, matrix_units=True, **sizes)
    means, logs = read_splits(*given, num_splits=num_splits, **sizes)
    out = torch.empty_like(q)
    merge_splits(out, means, logs, batch.query_starts, overlap=False)
    return out


def read_splits(
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    *,
    num_splits: int,
    tile: int = 64,
    num_warps: int = 4,
    num_stages: int = 4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What so many splits leave for the merge, in float32.

    Each split's mean [S, H, splits, DIM]; and [S, H, splits] log2 of the sum of its
    weights. Options as for `split`.
    """
    check_rung(q, cache, batch)
    num_seqs, num_heads, dim = q.shape
    _, block_size, num_kv_heads, _ = cache.keys.shape
    group = num_heads // num_kv_heads
    shape = (num_seqs, num_heads, num_splits)
    means = q.new_empty((*shape, dim), dtype=torch.float32)
    logs = q.new_empty(shape, dtype=torch.float32)
    _split_kernel[num_kv_heads, num_seqs, num_splits](
        means, logs, q, cache.keys, cache.values, batch.block_tables,
        batch.context_lengths, batch.block_tables.shape[1], masking.scale * LOG2_E,
        BLOCK_SIZE=block_size,
        NUM_KV_HEADS=num_kv_heads,
        GROUP=group,
        DIM=dim,
        ROWS=padded(group),
        TILE=tile,
        num_warps=num_warps,
        num_stages=num_stages,
    )  # fmt: skip
    return means, logs
