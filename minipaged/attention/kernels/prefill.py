"""Lesson 6: many new tokens of many sequences in one launch, causal, over the cache.

Here K and V of a tile meet many queries, so arithmetic is the limit. A program takes a
run of new tokens of a sequence, with all query heads of a KV head: `ROWS` rows of
(token, head). Most of its tiles lie wholly in the past of all rows and need no mask;
only the tiles on the diagonal need a mask.
"""

import torch

from minipaged.attention.kernels.check import (
    check_attention,
    check_sinks,
    without_gaps,
)
from minipaged.attention.kernels.eight_bits import as_float16
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import log2_scales, padded, prefill_sizes
from minipaged.attention.kernels.tile import divide, nothing_seen, over_tiles, sink_seen

SEARCHED_AT_ONCE = 128  # sequences


@triton.jit
def find_sequence(run, query_starts, num_seqs, TOKENS: tl.constexpr, N: tl.constexpr):
    """The sequence that this run of new tokens belongs to.

    The runs of sequence s begin at number starts[s] // TOKENS + s. So there is room for
    a short last run of each sequence, and nobody has to count runs. Some numbers may
    stay unused.
    """
    found = 0
    for first in range(0, num_seqs, N):
        seq = first + tl.arange(0, N)
        starts = tl.load(query_starts + seq, mask=seq < num_seqs, other=0)
        begun = (starts // TOKENS + seq <= run) & (seq < num_seqs)
        found += tl.sum(begun.to(tl.int32), 0)
    return found - 1


@triton.jit(do_not_specialize=["num_seqs", "table_width"])
def _prefill_kernel(
    out,  # [T, H, value dim]
    q,  # [T, H, key dim], of any strides
    keys,  # [blocks, block size, kv heads, key dim]
    values,
    block_tables,  # [S, table width]
    context_lengths,  # [S]
    query_starts,  # [S + 1]
    sinks,  # [H]; None: there are none
    key_scale,  # [kv heads]; None: K is not in 8 bits
    value_scale,
    num_seqs,
    table_width,
    token_stride,
    head_stride,
    scale,
    softcap,  # None: there is none
    WINDOW: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    ROWS: tl.constexpr,
    PADDED_KEY_DIM: tl.constexpr,
    PADDED_VALUE_DIM: tl.constexpr,
    TILE: tl.constexpr,
    SEARCHED_AT_ONCE: tl.constexpr,
    SKIP_SINGLE: tl.constexpr,
):
    TOKENS: tl.constexpr = ROWS // GROUP
    # The grid has one axis, because the other axes take 65,535 programs only. The last
    # tokens of a sequence see the most and take the longest, so they start first.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    run, kv_head = program // NUM_KV_HEADS, program % NUM_KV_HEADS
    seq = find_sequence(run, query_starts, num_seqs, TOKENS, SEARCHED_AT_ONCE)
    first_token = tl.load(query_starts + seq).to(tl.int64)
    num_new = (tl.load(query_starts + seq + 1) - first_token).to(tl.int32)
    offset = (run - (first_token // TOKENS + seq)).to(tl.int32) * TOKENS
    if offset >= num_new:
        return  # an unused number
    if SKIP_SINGLE and num_new == 1:
        return
    context = tl.load(context_lengths + seq).to(tl.int32)

    row = tl.arange(0, ROWS)
    own = offset + row // GROUP  # number of the row's token among the new ones
    exists = (row // GROUP < TOKENS) & (own < num_new)
    head = kv_head * GROUP + row % GROUP
    position = context - num_new + own
    first_position = context - num_new + offset
    stop = tl.minimum(first_position + TOKENS, context)
    start = 0
    if WINDOW is not None:
        start = tl.maximum(first_position - WINDOW + 1, 0)
        diagonal = start  # a window needs the mask everywhere
    else:
        diagonal = tl.maximum(first_position + 1, 0) // TILE * TILE  # 0: row pads

    column = tl.arange(0, PADDED_KEY_DIM)
    q_rows = q + (first_token + own) * token_stride + head.to(tl.int64) * head_stride
    q_mask = exists[:, None] & (column < KEY_DIM)[None, :]
    q_tile = tl.load(q_rows[:, None] + column[None, :], mask=q_mask, other=0.0)

    table = block_tables + seq.to(tl.int64) * table_width
    key_head, value_head = keys + kv_head * KEY_DIM, values + kv_head * VALUE_DIM
    if key_scale is not None:
        scale = scale * tl.load(key_scale + kv_head)
        if q_tile.dtype != tl.float32:  # to bfloat16, K and V would be converted slowly
            q_tile, divisor = as_float16(q_tile)
            scale = scale * divisor[:, None]
    maximum, total, weighted = nothing_seen(ROWS, PADDED_VALUE_DIM)
    if sinks is not None:
        maximum, total = sink_seen(sinks, head, exists)
    if WINDOW is None:
        maximum, total, weighted = over_tiles(
            maximum, total, weighted,
            start, diagonal, position, q_tile, key_head, value_head, table, scale,
            softcap, WINDOW, BLOCK_SIZE, NUM_KV_HEADS, KEY_DIM, VALUE_DIM,
            PADDED_KEY_DIM, PADDED_VALUE_DIM, TILE, MASKED=False,
        )  # fmt: skip
    maximum, total, weighted = over_tiles(
        maximum, total, weighted,
        diagonal, stop, position, q_tile, key_head, value_head, table, scale,
        softcap, WINDOW, BLOCK_SIZE, NUM_KV_HEADS, KEY_DIM, VALUE_DIM,
        PADDED_KEY_DIM, PADDED_VALUE_DIM, TILE, MASKED=True,
    )  # fmt: skip

    column = tl.arange(0, PADDED_VALUE_DIM)
    out_row = (first_token + own) * (NUM_KV_HEADS * GROUP) + head
    out_pointers = out + out_row[:, None] * VALUE_DIM + column[None, :]
    out_mask = exists[:, None] & (column < VALUE_DIM)[None, :]
    result = divide(weighted, total)
    if value_scale is not None:
        result = result * tl.load(value_scale + kv_head)
    tl.store(out_pointers, result.to(out.dtype.element_ty), mask=out_mask)


def paged_prefill(
    out: torch.Tensor,
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    block_tables: torch.Tensor,
    context_lengths: torch.Tensor,
    query_starts: torch.Tensor,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    skip_single: bool = False,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
) -> None:
    """Attention of any number of new tokens for each sequence, causal, in one launch.

    Shapes are those of `triton_attention`. `skip_single` leaves the rows of sequences
    with one new token as they are, for `paged_decode`. key_scale, value_scale: as in
    LayerCache.
    """
    where = block_tables, context_lengths, query_starts
    options = sliding_window, softcap, key_scale, value_scale
    check_attention(out, q, keys, values, *where, *options)
    check_sinks(q, sinks)
    if len(q) == 0:
        return
    q = without_gaps(q)
    block_tables, context_lengths, query_starts = (x.contiguous() for x in where)
    num_seqs, table_width = block_tables.shape
    num_tokens, num_heads, key_dim = q.shape
    _, block_size, num_kv_heads, value_dim = values.shape
    group = num_heads // num_kv_heads
    sizes = prefill_sizes(q, values)
    num_runs = num_tokens // (sizes.rows // group) + num_seqs
    scale, cap = log2_scales(scale, softcap)
    with torch.cuda.device_of(q):  # of several GPUs, the right one
        _prefill_kernel[num_runs * num_kv_heads,](
            out, q, keys, values, block_tables, context_lengths, query_starts, sinks,
            key_scale, value_scale,
            num_seqs, table_width, q.stride(0), q.stride(1), scale, cap,
            WINDOW=sliding_window,
            BLOCK_SIZE=block_size,
            NUM_KV_HEADS=num_kv_heads,
            GROUP=group,
            KEY_DIM=key_dim,
            VALUE_DIM=value_dim,
            ROWS=sizes.rows,
            PADDED_KEY_DIM=padded(key_dim),
            PADDED_VALUE_DIM=padded(value_dim),
            TILE=sizes.tile,
            SEARCHED_AT_ONCE=SEARCHED_AT_ONCE,
            SKIP_SINGLE=skip_single,
            num_warps=sizes.num_warps,
            num_stages=sizes.num_stages,
        )  # fmt: skip
