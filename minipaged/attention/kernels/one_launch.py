"""Appendix D: a decode step's attention in one launch: write, read and merge.

Lesson 6 takes three launches a layer: K and V are written, splits are read, splits are
merged. If every sequence has one new token, a single kernel does all three. If there
are few sequences, each may be cut into many pieces: then a second launch merges them
(see `pieces`).

- Every program reads the piece that the step's plan gives to it.
- The program that reads a sequence's last piece first stores K and V of its new token,
  and then reads them as all others. So no program reads a slot that another program
  writes in this launch. (If K and V are words, it adds the new token at the end.)
- The last program of a sequence and KV head to arrive merges their pieces. A ticket
  tells it that it is the last; it puts the ticket back to zero for the next layer.

A GPU launches a kernel when the kernel before it has ended, and is idle meanwhile. From
Hopper on, a launch may begin earlier. Then its programs wait before they read what the
kernel before it writes: q, K and V of the new tokens. The plan is there already, except
in the first layer. So are tables, and K and V of earlier tokens: where these are words
(see `eight_bits`), programs ask for their first tiles, and then wait.
"""

from minipaged.attention.kernels.eight_bits import (
    head_and_column,
    over_words,
    over_words_with_few_heads,
    to_eight_bits,
)
from minipaged.attention.kernels.pieces import merge
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.tile import (
    capped,
    divide,
    log_of,
    nothing_seen,
    over_tiles,
    sink_seen,
)


@triton.jit
def _one_more(q, k, v, maximum, total, weighted, scale, softcap):
    """Lesson 5's step over one position only: k [key dim], v [value dim].

    Plain sums are enough. A tile of sixteen positions, as a matrix unit wants, would
    take so many registers that fewer programs could run at a time.
    """
    logits = tl.sum(q.to(tl.float32) * k.to(tl.float32)[None, :], 1) * scale
    logits = capped(logits, softcap)
    new_maximum = tl.maximum(maximum, logits)
    reference = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
    weights, rescale = tl.exp2(logits - reference), tl.exp2(maximum - reference)
    total = total * rescale + weights
    weighted = weighted * rescale[:, None]
    weighted += weights[:, None] * v.to(tl.float32)[None, :]
    return new_maximum, total, weighted


@triton.jit(do_not_specialize=["table_stride", "is_first"])
def step_kernel(
    out,  # [T, H, value dim]
    means,  # [rows of the plan, KV heads, GROUP, value dim]: of what is cut
    logs,  # [rows of the plan, KV heads, GROUP]: log2 of the sum of all weights
    tickets,  # [S, KV heads] int32, zeros: how many pieces have arrived
    plan,  # [rows, COLUMNS] int32
    q,  # [T, H, key dim], of any strides but the last, as are K and V
    new_keys,  # [T, KV heads, key dim]; None: they are in the cache already
    new_values,
    keys,  # [blocks, block size, KV heads, key dim]
    values,
    slots,  # [T]; -1: nothing is stored
    block_tables,  # [S, table width]
    sinks,  # [H]; None: there are none
    key_scale,  # [KV heads]; None: K is not in 8 bits
    value_scale,
    table_stride,
    q_token_stride,
    q_head_stride,
    k_token_stride,
    k_head_stride,
    v_token_stride,
    v_head_stride,
    scale,
    softcap,  # None: there is none
    is_first,  # launch after the plan was made
    COLUMNS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    ROWS: tl.constexpr,  # GROUP, padded to the 16 rows or 8 columns of a matrix unit
    HEADS: tl.constexpr,  # GROUP, padded to a power of two
    PADDED_KEY_DIM: tl.constexpr,
    PADDED_VALUE_DIM: tl.constexpr,
    TILE: tl.constexpr,  # positions read at a time
    MERGED_AT_ONCE: tl.constexpr,  # pieces
    APART: tl.constexpr,  # a launch of its own merges
    WAITS: tl.constexpr,  # this launch may begin before the kernel before has ended
    HANDS_OVER: tl.constexpr,  # the next launch may begin before this launch has ended
    WORDS: tl.constexpr,  # V is in 8 bits, and read as words: see `over_words`
    TOGETHER: tl.constexpr,  # KV heads that are read as one: see `read_together`
):
    """One piece of one sequence and KV head: `write_plan` says which."""
    if WAITS and is_first:
        tl.extra.cuda.gdc_wait()  # for the plan
    number, kv_head = tl.program_id(0) // NUM_KV_HEADS, tl.program_id(0) % NUM_KV_HEADS
    own = plan + number * COLUMNS
    seq, token = tl.load(own), tl.load(own + 1).to(tl.int64)
    start, stop = tl.load(own + 2), tl.load(own + 3)
    first_result, num_pieces = tl.load(own + 4), tl.load(own + 5)
    kind, own_result = tl.load(own + 6), tl.load(own + 7)
    # Words are asked for, and then the loop waits. But if another kernel writes the new
    # tokens' K and V, it may be the one before this launch, so the wait comes first.
    ASKS_FIRST: tl.constexpr = WORDS and new_keys is not None
    if WAITS and (not ASKS_FIRST or seq < 0):
        # Programs without a row wait, too: then the next launch, which waits for these
        # programs, has also waited for all kernels before them.
        tl.extra.cuda.gdc_wait()
    if HANDS_OVER and not ASKS_FIRST:
        tl.extra.cuda.gdc_launch_dependents()
    if seq < 0:
        return  # an unused row of the plan

    row = tl.arange(0, ROWS)
    is_head = row < GROUP  # the other rows only pad
    head = kv_head * GROUP + row
    column, v_column = tl.arange(0, PADDED_KEY_DIM), tl.arange(0, PADDED_VALUE_DIM)
    places = token * q_token_stride + head.to(tl.int64) * q_head_stride
    q_mask = is_head[:, None] & (column < KEY_DIM)[None, :]
    k_head, k_column = head_and_column(kv_head, column, KEY_DIM, TOGETHER)
    v_head, v_col = head_and_column(kv_head, v_column, VALUE_DIM, TOGETHER)
    if TOGETHER > 1:  # q has zeros where K is of another head
        q_head = kv_head * TOGETHER + row // (GROUP // TOGETHER)
        q_mask = q_mask & (k_head[None, :] == q_head[:, None])
    q_places = q + places[:, None] + k_column[None, :]
    if not ASKS_FIRST:
        q_rows = tl.load(q_places, mask=q_mask, other=0.0)
    if new_keys is not None:
        has_new = kind == 2
        place = token * k_token_stride + k_head.to(tl.int64) * k_head_stride + k_column
        k_mask, k_places = (column < KEY_DIM) & has_new, new_keys + place
        if not ASKS_FIRST:
            new_k = tl.load(k_places, mask=k_mask, other=0.0)
        place = token * v_token_stride + v_head.to(tl.int64) * v_head_stride + v_col
        v_mask, v_places = (v_column < VALUE_DIM) & has_new, new_values + place
        if not ASKS_FIRST:
            new_v = tl.load(v_places, mask=v_mask, other=0.0)
        slot = tl.load(slots + token).to(tl.int64)

    if key_scale is not None:
        own_key_scale = tl.load(key_scale + k_head)
        if TOGETHER > 1:
            scale = scale * tl.load(key_scale + q_head, mask=is_head, other=0.0)
        else:
            scale = scale * own_key_scale
    if value_scale is not None:
        own_value_scale = tl.load(value_scale + v_head)
    if new_keys is not None and not ASKS_FIRST:
        if key_scale is not None:  # as later steps will read it
            new_k = to_eight_bits(new_k, own_key_scale)
        if value_scale is not None:
            new_v = to_eight_bits(new_v, own_value_scale)
        if has_new and slot >= 0:  # not a row that only pads the batch
            to_head = slot * NUM_KV_HEADS + kv_head
            tl.store(keys + to_head * KEY_DIM + column, new_k, mask=k_mask)
            tl.store(values + to_head * VALUE_DIM + v_column, new_v, mask=v_mask)
            stop += 1
        tl.debug_barrier()  # all threads have stored before one of them reads
    maximum, total, weighted = nothing_seen(ROWS, PADDED_VALUE_DIM)
    if sinks is not None:
        maximum, total = sink_seen(sinks, head, is_head & (kind > 0))
    table = block_tables + seq.to(tl.int64) * table_stride
    key_head, value_head = keys + kv_head * KEY_DIM, values + kv_head * VALUE_DIM
    if WORDS:
        if ROWS <= 8:
            maximum, total, weighted = over_words_with_few_heads(
                maximum, total, start, stop, q_places, q_mask, key_head, value_head,
                table, scale, softcap, BLOCK_SIZE, NUM_KV_HEADS, KEY_DIM, VALUE_DIM,
                PADDED_KEY_DIM, PADDED_VALUE_DIM, TILE,
                WAITS, HANDS_OVER and ASKS_FIRST,
            )  # fmt: skip
        else:
            maximum, total, weighted = over_words(
                maximum, total, start, stop, q_places, q_mask, key_head, value_head,
                table, scale, softcap, BLOCK_SIZE, NUM_KV_HEADS, KEY_DIM, VALUE_DIM,
                PADDED_KEY_DIM, PADDED_VALUE_DIM, TILE,
                WAITS, HANDS_OVER and ASKS_FIRST,
            )  # fmt: skip
    else:
        last_seen = stop - 1 + tl.zeros([ROWS], tl.int32)  # by each row
        maximum, total, weighted = over_tiles(
            maximum, total, weighted, start, stop, last_seen, q_rows,
            key_head, value_head, table, scale, softcap,
            None, BLOCK_SIZE, NUM_KV_HEADS, KEY_DIM, VALUE_DIM,
            PADDED_KEY_DIM, PADDED_VALUE_DIM, TILE, MASKED=True,
        )  # fmt: skip
    if ASKS_FIRST:
        if WAITS:  # programs that had nothing to read wait here
            tl.extra.cuda.gdc_wait()
        q_rows = tl.load(q_places, mask=q_mask, other=0.0)
        new_k = tl.load(k_places, mask=k_mask, other=0.0)
        new_v = tl.load(v_places, mask=v_mask, other=0.0)
        if key_scale is not None:  # as later steps will read it
            new_k = to_eight_bits(new_k, own_key_scale)
        if value_scale is not None:
            new_v = to_eight_bits(new_v, own_value_scale)
        if slot >= 0:  # not a row that only pads the batch
            to_head = slot * NUM_KV_HEADS + kv_head
            tl.store(keys + to_head * KEY_DIM + column, new_k, mask=k_mask)
            tl.store(values + to_head * VALUE_DIM + v_column, new_v, mask=v_mask)
        if has_new:
            maximum, total, weighted = _one_more(
                q_rows, new_k, new_v, maximum, total, weighted, scale, softcap
            )

    result = divide(weighted, total)
    if value_scale is not None:
        result = result * own_value_scale
    out_mask = is_head[:, None] & (v_column < VALUE_DIM)[None, :]
    if TOGETHER > 1:
        out_mask = out_mask & (v_head[None, :] == q_head[:, None])
    OUT_DIM: tl.constexpr = VALUE_DIM // TOGETHER
    places = row[:, None] * OUT_DIM + v_col[None, :]
    out_rows = out + (token * NUM_KV_HEADS + kv_head) * (GROUP * OUT_DIM)
    if num_pieces == 1:
        tl.store(out_rows + places, result.to(out.dtype.element_ty), mask=out_mask)
    else:
        own_row = (own_result.to(tl.int64) * NUM_KV_HEADS + kv_head) * GROUP
        tl.store(logs + own_row + row, log_of(maximum, total), mask=is_head)
        tl.store(means + own_row * OUT_DIM + places, result, mask=out_mask)
        if not APART:
            ticket = tickets + seq * NUM_KV_HEADS + kv_head
            tl.debug_barrier()  # all threads have stored before one of them says so
            if tl.atomic_add(ticket, 1, sem="acq_rel") == num_pieces - 1:
                tl.store(ticket, 0)
                merge(
                    out_rows, means, logs, first_result, num_pieces, kv_head,
                    NUM_KV_HEADS, GROUP, OUT_DIM, HEADS, PADDED_VALUE_DIM // TOGETHER,
                    MERGED_AT_ONCE,
                )  # fmt: skip
