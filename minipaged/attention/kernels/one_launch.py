"""Appendix A: a decode step's attention in one launch: write, read and merge.

Lesson 6 takes three launches a layer: K and V are written, splits are read, splits are
merged. Here one kernel does it all, where every sequence has one new token.

- Every program works out, from the lengths on the GPU, which *piece* of which sequence
  is its own. The pieces of a batch are about equally long, however long it is; so a
  CUDA graph that was captured once cuts every later step well.
- The new token takes part from the program's registers: nobody reads a slot that
  another program writes in this launch.
- The last program of a sequence and KV head to arrive merges their pieces. It knows by
  a ticket that it is the last, and puts it back to zero for the next layer.
"""

from minipaged.attention.kernels.pieces import (
    find_piece,
    merge,
    num_pieces_of,
    to_read,
)
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.tile import (
    divide,
    load_tile,
    log_of,
    nothing_seen,
    online_step,
    over_tiles,
    sink_seen,
)


@triton.jit(do_not_specialize=["num_seqs", "target", "table_stride"])
def _step_kernel(
    out,  # [T, H, value dim]
    means,  # [pieces, KV heads, GROUP, value dim] float32: of what is cut
    logs,  # [pieces, KV heads, GROUP]: log2 of the sum of all weights
    tickets,  # [S, KV heads] int32, zeros: how many pieces have arrived
    q,  # [T, H, key dim], of any strides but the last, as are K and V
    new_keys,  # [T, KV heads, key dim]; None: they are in the cache already
    new_values,
    keys,  # [blocks, block size, KV heads, key dim]
    values,
    slots,  # [T]; -1: nothing is stored
    block_tables,  # [S, table width]
    context_lengths,  # [S]
    query_starts,  # [S + 1]; None, with new_keys: one token for each
    sinks,  # [H]; None: there are none
    num_seqs,
    target,
    table_stride,
    q_token_stride,
    q_head_stride,
    k_token_stride,
    k_head_stride,
    v_token_stride,
    v_head_stride,
    scale,
    softcap,  # None: there is none
    WINDOW: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    ROWS: tl.constexpr,  # GROUP, padded to what a matrix unit takes
    HEADS: tl.constexpr,  # GROUP, padded to a power of two
    PADDED_KEY_DIM: tl.constexpr,
    PADDED_VALUE_DIM: tl.constexpr,
    TILE: tl.constexpr,  # positions read at a time
    LEAST: tl.constexpr,  # tiles of a piece
    COUNTED_AT_ONCE: tl.constexpr,  # sequences
    MERGED_AT_ONCE: tl.constexpr,  # pieces
):
    number, kv_head = tl.program_id(0) // NUM_KV_HEADS, tl.program_id(0) % NUM_KV_HEADS
    seq, first_piece, share = find_piece(
        number, context_lengths, query_starts, num_seqs, target,
        WINDOW, TILE, LEAST, COUNTED_AT_ONCE,
    )  # fmt: skip
    if seq >= num_seqs:
        return  # a number that is left over
    begin, end = to_read(context_lengths, query_starts, seq, True, WINDOW)
    num_pieces = num_pieces_of(begin, end, share, TILE)
    piece = number - first_piece
    is_last = piece == num_pieces - 1  # it has the new token, and the sink
    length = tl.cdiv(tl.cdiv(end - begin, num_pieces), TILE) * TILE
    start = begin + piece * length
    stop = tl.minimum(start + length, end)
    if query_starts is None:
        token = seq.to(tl.int64)
    else:
        token = tl.load(query_starts + seq).to(tl.int64)

    row = tl.arange(0, ROWS)
    is_head = row < GROUP  # the other rows only pad
    head = kv_head * GROUP + row
    column = tl.arange(0, PADDED_KEY_DIM)
    places = token * q_token_stride + head.to(tl.int64) * q_head_stride
    q_mask = is_head[:, None] & (column < KEY_DIM)[None, :]
    q_rows = tl.load(q + places[:, None] + column[None, :], mask=q_mask, other=0.0)

    maximum, total, weighted = nothing_seen(ROWS, PADDED_VALUE_DIM)
    if sinks is not None:
        maximum, total = sink_seen(sinks, head, is_head & is_last)
    if new_keys is not None:
        has_new = is_last & (tl.load(context_lengths + seq) > 0)
        new = tl.arange(0, 16)  # a tile of one token: a matrix unit takes no less
        is_new = (new == 0) & has_new
        k_place = (
            new_keys + token * k_token_stride + kv_head.to(tl.int64) * k_head_stride
        )
        v_place = (
            new_values + token * v_token_stride + kv_head.to(tl.int64) * v_head_stride
        )
        k = load_tile(k_place, new, is_new, 0, KEY_DIM, PADDED_KEY_DIM, MASKED=True)
        v = load_tile(v_place, new, is_new, 0, VALUE_DIM, PADDED_VALUE_DIM, MASKED=True)
        slot = tl.load(slots + token).to(tl.int64)
        is_stored = is_new & (slot >= 0)
        to_head = slot * NUM_KV_HEADS + kv_head
        k_mask = is_stored[:, None] & (column < KEY_DIM)[None, :]
        tl.store(
            keys + to_head * KEY_DIM + column[None, :] + 0 * new[:, None], k, k_mask
        )
        v_column = tl.arange(0, PADDED_VALUE_DIM)
        v_mask = is_stored[:, None] & (v_column < VALUE_DIM)[None, :]
        tl.store(
            values + to_head * VALUE_DIM + v_column[None, :] + 0 * new[:, None],
            v,
            v_mask,
        )
        maximum, total, weighted = online_step(
            q_rows, k, v, is_new[None, :], maximum, total, weighted, scale, softcap,
            MASKED=True,
        )  # fmt: skip

    table = block_tables + seq.to(tl.int64) * table_stride
    last_seen = stop - 1 + tl.zeros([ROWS], tl.int32)  # by each row
    maximum, total, weighted = over_tiles(
        maximum, total, weighted, start, stop, last_seen, q_rows,
        keys + kv_head * KEY_DIM, values + kv_head * VALUE_DIM, table, scale, softcap,
        None, BLOCK_SIZE, NUM_KV_HEADS, KEY_DIM, VALUE_DIM,
        PADDED_KEY_DIM, PADDED_VALUE_DIM, TILE, MASKED=True,
    )  # fmt: skip
    result = divide(weighted, total)
    column = tl.arange(0, PADDED_VALUE_DIM)
    out_mask = is_head[:, None] & (column < VALUE_DIM)[None, :]
    places = row[:, None] * VALUE_DIM + column[None, :]
    out_rows = out + (token * NUM_KV_HEADS + kv_head) * (GROUP * VALUE_DIM)
    if num_pieces == 1:
        tl.store(out_rows + places, result.to(out.dtype.element_ty), mask=out_mask)
    else:
        own_row = (number.to(tl.int64) * NUM_KV_HEADS + kv_head) * GROUP
        tl.store(logs + own_row + row, log_of(maximum, total), mask=is_head)
        tl.store(means + own_row * VALUE_DIM + places, result, mask=out_mask)
        ticket = tickets + seq * NUM_KV_HEADS + kv_head
        tl.debug_barrier()  # all threads have stored before one of them says so
        if tl.atomic_add(ticket, 1, sem="acq_rel") == num_pieces - 1:
            tl.store(ticket, 0)
            merge(
                out_rows, means, logs, first_piece, num_pieces, kv_head, NUM_KV_HEADS,
                GROUP, VALUE_DIM, HEADS, PADDED_VALUE_DIM, MERGED_AT_ONCE,
            )  # fmt: skip
