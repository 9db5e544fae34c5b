"""Appendix D: attention by a kernel whose sums have the same order in any batch.

Lesson 6's kernels choose tiles and splits by the batch, so its sums, and the last bits
of a token's result, depend on the batch. Here a context is read in chunks of 512
positions, from a multiple of 512 on. Within a chunk, lesson 5's step goes over tiles,
always of the same size. Then the chunk is merged into those before it, in their order.
A prompt's program merges its chunks in registers. If sequences decode, and there are
few, each chunk may have a program, and a second kernel merges: by the same function, in
the same order. So the bits are the same.
"""

import torch
from torch.nn.functional import pad

from minipaged.attention.backend import AttentionBatch, Backend, Masking
from minipaged.attention.kernels.cache import TritonKVCache
from minipaged.attention.kernels.check import (
    check_attention,
    check_sinks,
    without_gaps,
)
from minipaged.attention.kernels.prefill import SEARCHED_AT_ONCE, find_sequence
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import (
    device_of,
    log2_scales,
    padded,
    sizes_in_fixed_order,
)
from minipaged.attention.kernels.tile import divide, nothing_seen, over_tiles, sink_seen
from minipaged.attention.kernels.write import write_kv
from minipaged.memory.kv_cache import LayerCache

CHUNK = 512  # positions: a multiple of the tile, which has 64 at most
_MERGED_COLUMNS = 32  # of a result, by a program of the second kernel


@triton.jit
def _merge(maximum, total, weighted, part_maximum, part_total, part_weighted):
    """Lesson 5's merge of a chunk into the chunks before it.

    Each `fma` says which product is rounded: a compiler might choose otherwise in the
    other kernel. A chunk of which a row sees nothing changes nothing.
    """
    new_maximum = tl.maximum(maximum, part_maximum)
    reference = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
    ours, theirs = tl.exp2(maximum - reference), tl.exp2(part_maximum - reference)
    total = tl.fma(total, ours, part_total * theirs)
    weighted = tl.fma(weighted, ours[:, None], part_weighted * theirs[:, None])
    return new_maximum, total, weighted


@triton.jit(do_not_specialize=["num_seqs", "table_width", "num_chunks"])
def _attend_kernel(
    out,  # [T, H, value dim]
    chunk_maxima,  # [T, H, chunks] float32; only if SPLIT, as are the next two
    chunk_totals,  # [T, H, chunks]: the sums of weights
    chunk_values,  # [T, H, chunks, value dim]: the weighted sums of values
    q,  # [T, H, key dim], of any strides
    keys,  # [blocks, block size, kv heads, key dim]
    values,
    block_tables,  # [S, table width]
    context_lengths,  # [S]
    query_starts,  # [S + 1]
    sinks,  # [H]; None: there are none
    num_seqs,
    table_width,
    num_chunks,
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
    CHUNK: tl.constexpr,
    SEARCHED_AT_ONCE: tl.constexpr,
    SPLIT: tl.constexpr,
):
    TOKENS: tl.constexpr = ROWS // GROUP
    # As in `_prefill_kernel`: the last tokens see the most, so they start first.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    run, kv_head = program // NUM_KV_HEADS, program % NUM_KV_HEADS
    seq = find_sequence(run, query_starts, num_seqs, TOKENS, SEARCHED_AT_ONCE)
    first_token = tl.load(query_starts + seq).to(tl.int64)
    num_new = (tl.load(query_starts + seq + 1) - first_token).to(tl.int32)
    offset = (run - (first_token // TOKENS + seq)).to(tl.int32) * TOKENS
    if offset >= num_new:
        return  # an unused number
    context = tl.load(context_lengths + seq).to(tl.int32)

    row = tl.arange(0, ROWS)
    own = offset + row // GROUP  # number of the row's token among the new ones
    exists = (row // GROUP < TOKENS) & (own < num_new)
    head = kv_head * GROUP + row % GROUP
    position = context - num_new + own
    first_position = context - num_new + offset
    stop = tl.minimum(first_position + TOKENS, context)
    first_chunk = 0
    if WINDOW is not None:
        first_chunk = tl.maximum(first_position - WINDOW + 1, 0) // CHUNK

    column = tl.arange(0, PADDED_KEY_DIM)
    q_rows = q + (first_token + own) * token_stride + head.to(tl.int64) * head_stride
    q_mask = exists[:, None] & (column < KEY_DIM)[None, :]
    q_tile = tl.load(q_rows[:, None] + column[None, :], mask=q_mask, other=0.0)

    table = block_tables + seq.to(tl.int64) * table_width
    key_head, value_head = keys + kv_head * KEY_DIM, values + kv_head * VALUE_DIM
    out_row = (first_token + own) * (NUM_KV_HEADS * GROUP) + head
    column = tl.arange(0, PADDED_VALUE_DIM)
    out_mask = exists[:, None] & (column < VALUE_DIM)[None, :]
    maximum, total, weighted = nothing_seen(ROWS, PADDED_VALUE_DIM)
    if sinks is not None:
        maximum, total = sink_seen(sinks, head, exists)
    last_chunk = tl.cdiv(tl.maximum(stop, 0), CHUNK)
    for chunk in range(first_chunk + tl.program_id(1), last_chunk, tl.num_programs(1)):
        part = nothing_seen(ROWS, PADDED_VALUE_DIM)
        # Always masked: without a mask, the compiler may round otherwise.
        part_maximum, part_total, part_weighted = over_tiles(
            part[0], part[1], part[2],
            chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, stop), position, q_tile,
            key_head, value_head, table, scale, softcap,
            WINDOW, BLOCK_SIZE, NUM_KV_HEADS, KEY_DIM, VALUE_DIM,
            PADDED_KEY_DIM, PADDED_VALUE_DIM, TILE, MASKED=True,
        )  # fmt: skip
        if SPLIT:
            part_row = out_row * num_chunks + chunk
            tl.store(chunk_maxima + part_row, part_maximum, mask=exists)
            tl.store(chunk_totals + part_row, part_total, mask=exists)
            places = chunk_values + part_row[:, None] * VALUE_DIM + column[None, :]
            tl.store(places, part_weighted, mask=out_mask)
        else:
            maximum, total, weighted = _merge(
                maximum, total, weighted, part_maximum, part_total, part_weighted
            )
    if not SPLIT:
        result = divide(weighted, total).to(out.dtype.element_ty)
        tl.store(out + out_row[:, None] * VALUE_DIM + column[None, :], result, out_mask)


@triton.jit(do_not_specialize=["num_chunks"])
def _merge_kernel(
    out,
    chunk_maxima,
    chunk_totals,
    chunk_values,
    context_lengths,  # of sequences with one new token each
    sinks,
    num_chunks,
    WINDOW: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    seq, head = tl.program_id(0), tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    context = tl.load(context_lengths + seq).to(tl.int32)
    first_chunk = 0
    if WINDOW is not None:
        first_chunk = tl.maximum(context - WINDOW, 0) // CHUNK
    maximum, total, weighted = nothing_seen(1, COLUMNS)
    if sinks is not None:
        heads = head + tl.arange(0, 1)
        maximum, total = sink_seen(sinks, heads, heads >= 0)
    out_row = seq.to(tl.int64) * NUM_HEADS + head
    for chunk in range(first_chunk, tl.cdiv(context, CHUNK)):
        row = out_row * num_chunks + chunk + tl.arange(0, 1)
        places = chunk_values + row[:, None] * VALUE_DIM + column[None, :]
        part = tl.load(places, mask=(column < VALUE_DIM)[None, :], other=0.0)
        maximum, total, weighted = _merge(
            maximum,
            total,
            weighted,
            tl.load(chunk_maxima + row),
            tl.load(chunk_totals + row),
            part,
        )
    result = divide(weighted, total).to(out.dtype.element_ty)
    places = out + out_row * VALUE_DIM + column[None, :]
    tl.store(places, result, mask=(column < VALUE_DIM)[None, :])


def attend_in_fixed_order(
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    num_splits: int | None = None,
) -> torch.Tensor:
    """Causal attention of new tokens; a token's bits are the same in any batch.

    Args and result: those of `attend_by_kernels`; so is what is refused. num_splits:
    programs that share a context, if all sequences decode; by default, four for each
    multiprocessor in all.
    """
    scale, window, softcap, sinks = masking
    keys, values = cache.keys, cache.values
    _, block_size, num_kv_heads, value_dim = values.shape
    num_heads, key_dim = q.shape[1:]
    out = q.new_empty(*q.shape[:2], value_dim)
    where = batch.block_tables, batch.context_lengths, batch.query_starts
    check_attention(out, q, keys, values, *where, window, softcap)
    check_sinks(q, sinks)
    if len(q) == 0:
        return out
    q = without_gaps(q)
    tables, contexts, starts = (x.contiguous() for x in where)
    num_seqs, table_width = tables.shape
    group = num_heads // num_kv_heads
    sizes = sizes_in_fixed_order(q, values)
    num_runs = len(q) // (sizes.rows // group) + num_seqs
    num_chunks = -(-batch.max_context_length // CHUNK)
    if num_splits is None:
        device = device_of(q.device.index or 0)
        num_splits = 4 * device.multiprocessors // (num_seqs * num_kv_heads)
    if batch.max_query_length > 1:
        num_splits = 1
    num_splits = max(1, min(num_splits, num_chunks))
    is_split = num_splits > 1
    chunks = (out,) * 3
    if is_split:
        shape = num_seqs, num_heads, num_chunks
        shapes = shape, shape, (*shape, value_dim)
        chunks = [q.new_empty(each, dtype=torch.float32) for each in shapes]
    with torch.cuda.device_of(q):  # of several GPUs, the right one
        _attend_kernel[num_runs * num_kv_heads, num_splits](
            out, *chunks, q, keys, values, tables, contexts, starts, sinks, num_seqs,
            table_width, num_chunks, q.stride(0), q.stride(1),
            *log2_scales(scale, softcap),
            WINDOW=window,
            BLOCK_SIZE=block_size,
            NUM_KV_HEADS=num_kv_heads,
            GROUP=group,
            KEY_DIM=key_dim,
            VALUE_DIM=value_dim,
            ROWS=sizes.rows,
            PADDED_KEY_DIM=padded(key_dim),
            PADDED_VALUE_DIM=padded(value_dim),
            TILE=sizes.tile,
            CHUNK=CHUNK,
            SEARCHED_AT_ONCE=SEARCHED_AT_ONCE,
            SPLIT=is_split,
            num_warps=sizes.num_warps,
            num_stages=sizes.num_stages,
        )  # fmt: skip
        if is_split:
            _merge_kernel[num_seqs, num_heads, -(-value_dim // _MERGED_COLUMNS)](
                out, *chunks, contexts, sinks, num_chunks,
                WINDOW=window,
                NUM_HEADS=num_heads,
                VALUE_DIM=value_dim,
                COLUMNS=_MERGED_COLUMNS,
                CHUNK=CHUNK,
                num_warps=1,
            )  # fmt: skip
    return out


def step_in_fixed_order(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> torch.Tensor:
    """Write, then attend. The step may be filled up with tokens that have no slot."""
    count = len(batch.slots)
    write_kv(cache.keys, cache.values, batch.slots, k[:count], v[:count])
    out = attend_in_fixed_order(q[:count], cache, batch, masking)
    return pad(out, (0, 0, 0, 0, 0, len(q) - count))


# What `PagedModel(..., attention="triton", deterministic=True)` uses.
fixed_order_kernels = Backend(attend_in_fixed_order, TritonKVCache, step_in_fixed_order)
