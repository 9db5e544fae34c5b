"""Lesson 6: one new token for each sequence, at the speed of the memory (section 4.3).

Decoding reads every K and V once and does little with them: all that matters is that
enough reads are under way at any time. So the query heads of a KV head share a program,
which reads K and V once for all of them. And long contexts are cut into splits: each
split has its own program, and a second kernel merges the results.
"""

import torch

from minipaged.attention.kernels.check import check_attention, without_gaps
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import (
    Sizes,
    decode_sizes,
    device_of,
    log2_scales,
    padded,
)
from minipaged.attention.kernels.tile import (
    divide,
    log_of,
    merge_parts,
    nothing_seen,
    over_tiles,
)

_MERGED_COLUMNS = 32  # of the result, by one program


@triton.jit(do_not_specialize=["table_width"])  # one compilation for all
def _decode_kernel(
    out,  # [T, H, value dim]; with splits: [S, H, splits, value dim] in float32
    log_totals,  # [S, H, splits]: log2 of the sum of all weights
    q,  # [T, H, key dim], of any strides
    keys,  # [blocks, block size, kv heads, key dim]
    values,
    block_tables,  # [S, table width]
    context_lengths,  # [S]
    query_starts,  # [S + 1]
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
    ROWS: tl.constexpr,  # GROUP, padded to what a matrix unit takes
    PADDED_KEY_DIM: tl.constexpr,
    PADDED_VALUE_DIM: tl.constexpr,
    TILE: tl.constexpr,  # positions read at a time
    SPLIT: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if SPLIT and OVERLAP:  # the merge may launch now, and then waits for this kernel
        tl.extra.cuda.gdc_launch_dependents()
    kv_head, seq, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    num_splits = tl.num_programs(2)
    token = tl.load(query_starts + seq).to(tl.int64)
    next_token = tl.load(query_starts + seq + 1)
    context = tl.load(context_lengths + seq).to(tl.int32)
    if next_token - token != 1:
        return  # a part of a prompt, or no new token
    begin = 0
    if WINDOW is not None:
        begin = tl.maximum(context - WINDOW, 0)
    # Each split reads an equal share, in whole tiles; the last splits may be empty.
    share = tl.cdiv(tl.cdiv(context - begin, num_splits), TILE) * TILE
    start = begin + split * share
    stop = tl.minimum(start + share, context)

    row = tl.arange(0, ROWS)
    is_head = row < GROUP  # the other rows only pad
    head = kv_head * GROUP + row
    column = tl.arange(0, PADDED_KEY_DIM)
    places = token * token_stride + head.to(tl.int64) * head_stride
    q_mask = is_head[:, None] & (column < KEY_DIM)[None, :]
    q_rows = tl.load(q + places[:, None] + column[None, :], mask=q_mask, other=0.0)

    table = block_tables + seq.to(tl.int64) * table_width
    last_seen = stop - 1 + tl.zeros([ROWS], tl.int32)  # by each row
    maximum, total, weighted = nothing_seen(ROWS, PADDED_VALUE_DIM)
    maximum, total, weighted = over_tiles(
        maximum, total, weighted, start, stop, last_seen, q_rows,
        keys + kv_head * KEY_DIM, values + kv_head * VALUE_DIM, table, scale, softcap,
        None, BLOCK_SIZE, NUM_KV_HEADS, KEY_DIM, VALUE_DIM,
        PADDED_KEY_DIM, PADDED_VALUE_DIM, TILE, MASKED=True,
    )  # fmt: skip

    out_row = token * (NUM_KV_HEADS * GROUP) + head
    if SPLIT:
        out_row = (seq * (NUM_KV_HEADS * GROUP) + head) * num_splits + split
        tl.store(log_totals + out_row, log_of(maximum, total), mask=is_head)
    column = tl.arange(0, PADDED_VALUE_DIM)
    places = out_row[:, None].to(tl.int64) * VALUE_DIM + column[None, :]
    out_mask = is_head[:, None] & (column < VALUE_DIM)[None, :]
    result = divide(weighted, total).to(out.dtype.element_ty)
    tl.store(out + places, result, mask=out_mask)


@triton.jit(do_not_specialize=["num_splits"])
def _merge_kernel(
    out,  # [T, H, value dim]
    partial,  # [S, H, splits, value dim] float32
    log_totals,  # [S, H, splits]
    query_starts,
    num_splits,
    NUM_HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    PADDED_SPLITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        tl.extra.cuda.gdc_wait()  # until all splits are written
    head, seq = tl.program_id(0), tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    split = tl.arange(0, PADDED_SPLITS)
    rows = (seq * NUM_HEADS + head).to(tl.int64) * num_splits + split
    result = merge_parts(
        log_totals, partial, rows, split < num_splits, column, VALUE_DIM
    )
    token = tl.load(query_starts + seq).to(tl.int64)
    is_single = tl.load(query_starts + seq + 1) - token == 1
    out_row = out + (token * NUM_HEADS + head) * VALUE_DIM
    # Of a sequence with more new tokens, no parts were written: store nothing.
    mask = is_single & (column < VALUE_DIM)
    tl.store(out_row + column, result.to(out.dtype.element_ty), mask=mask)


def merge_splits(
    out: torch.Tensor,
    partial: torch.Tensor,
    log_totals: torch.Tensor,
    query_starts: torch.Tensor,
    overlap: bool,
) -> None:
    """The mean of the splits, each weighted by the sum of its weights.

    out: [T, H, value_dim]; only the rows of sequences with one new token are written.
    partial: [S, H, splits, value_dim] float32, the weighted mean of each split.
    log_totals: [S, H, splits] float32, log2 of the sum of its weights. overlap: launch
    the kernel while the splits are still being computed, which hides the launch; it
    then waits on the GPU until all splits are written.
    """
    num_seqs, num_heads, num_splits, value_dim = partial.shape
    _merge_kernel[num_heads, num_seqs, -(-value_dim // _MERGED_COLUMNS)](
        out, partial, log_totals, query_starts, num_splits,
        NUM_HEADS=num_heads,
        VALUE_DIM=value_dim,
        COLUMNS=_MERGED_COLUMNS,
        PADDED_SPLITS=padded(num_splits),
        OVERLAP=overlap,
        launch_pdl=overlap,
    )  # fmt: skip


def paged_decode(
    out: torch.Tensor,
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    block_tables: torch.Tensor,
    context_lengths: torch.Tensor,
    query_starts: torch.Tensor,
    min_context_length: int,
    max_context_length: int,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
    num_splits: int | None = None,
) -> None:
    """Attention of every sequence that has one new token; the rest of `out` stays.

    Shapes are those of `triton_attention`. The two context lengths only decide sizes
    and splits. For a CUDA graph, which is captured once for many steps, they may be the
    bounds of later lengths. `num_splits` overrides the rule of `decode_sizes`.
    """
    where = block_tables, context_lengths, query_starts
    check_attention(out, q, keys, values, *where, sliding_window, softcap)
    if num_splits is not None and num_splits < 1:
        raise ValueError(f"num_splits is {num_splits}; give 1 or more, or None")
    if len(q) == 0:
        return
    num_seqs, lengths = len(context_lengths), [min_context_length, max_context_length]
    if sliding_window is not None:
        lengths = [min(length, sliding_window) for length in lengths]
    sizes, rule = decode_sizes(q, values, num_seqs, *lengths)
    launch_decode(
        out, q, keys, values, *where, scale, sliding_window, softcap,
        sizes, num_splits or rule, device_of(q.device.index or 0).can_overlap,
    )  # fmt: skip


def launch_decode(
    out: torch.Tensor,
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    block_tables: torch.Tensor,
    context_lengths: torch.Tensor,
    query_starts: torch.Tensor,
    scale: float,
    sliding_window: int | None,
    softcap: float | None,
    sizes: Sizes,
    num_splits: int,
    overlap: bool,
) -> None:
    """`paged_decode` with sizes of the caller's choice, and without checks.

    overlap: launch the merge early, as `merge_splits` says.
    """
    q = without_gaps(q)
    block_tables, context_lengths, query_starts = (
        tensor.contiguous() for tensor in (block_tables, context_lengths, query_starts)
    )
    num_seqs, table_width = block_tables.shape
    num_heads, key_dim = q.shape[1:]
    _, block_size, num_kv_heads, value_dim = values.shape
    scale, softcap = log2_scales(scale, softcap)
    target, log_totals = out, out
    if num_splits > 1:
        parts = (num_seqs, num_heads, num_splits)
        target = q.new_empty((*parts, value_dim), dtype=torch.float32)
        log_totals = q.new_empty(parts, dtype=torch.float32)
    with torch.cuda.device_of(q):  # of several GPUs, the right one
        _decode_kernel[num_kv_heads, num_seqs, num_splits](
            target, log_totals, q, keys, values,
            block_tables, context_lengths, query_starts,
            table_width, q.stride(0), q.stride(1), scale, softcap,
            WINDOW=sliding_window,
            BLOCK_SIZE=block_size,
            NUM_KV_HEADS=num_kv_heads,
            GROUP=num_heads // num_kv_heads,
            KEY_DIM=key_dim,
            VALUE_DIM=value_dim,
            ROWS=sizes.rows,
            PADDED_KEY_DIM=padded(key_dim),
            PADDED_VALUE_DIM=padded(value_dim),
            TILE=sizes.tile,
            SPLIT=num_splits > 1,
            OVERLAP=overlap,
            num_warps=sizes.num_warps,
            num_stages=sizes.num_stages,
        )  # fmt: skip
        if num_splits > 1:
            merge_splits(out, target, log_totals, query_starts, overlap)
