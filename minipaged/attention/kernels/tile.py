"""Lesson 6: what both kernels do with one tile of K and V (paper, equation 4).

A tile is a run of positions of one sequence, as long as is good for the hardware. It
has nothing to do with blocks: each position finds its block through the table.
"""

from minipaged.attention.kernels.setup import tl, triton


@triton.jit
def slots_of(table, position, exists, BLOCK_SIZE: tl.constexpr):
    """The slots of these positions, in 64 bits.

    table: pointer to a row of the block tables. position: [N]; exists: [N], False where
    the table has no entry that may be read. A pool's K can have more than 2**31
    numbers, so the block id is widened before it is multiplied.
    """
    block = tl.load(table + position // BLOCK_SIZE, mask=exists, other=0)
    return block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE


@triton.jit
def load_tile(
    head_start, slots, exists,
    SLOT_STRIDE: tl.constexpr, DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """K or V of one head at these slots: [N, PADDED_DIM], zeros where nothing exists.

    V needs the mask as much as K does: a slot that nobody wrote may hold NaN, and a
    weight of zero times NaN is NaN.
    """
    column = tl.arange(0, PADDED_DIM)
    pointers = head_start + slots[:, None] * SLOT_STRIDE + column[None, :]
    if MASKED:
        mask = exists[:, None] & (column < DIM)[None, :]
        return tl.load(pointers, mask=mask, other=0.0)
    elif DIM < PADDED_DIM:
        return tl.load(pointers, mask=(column < DIM)[None, :], other=0.0)
    else:
        return tl.load(pointers)


@triton.jit
def nothing_seen(ROWS: tl.constexpr, DIM: tl.constexpr):
    """Lesson 5's state before the first tile: maximum, total, weighted values."""
    maximum = tl.full([ROWS], float("-inf"), tl.float32)
    return maximum, tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, DIM], tl.float32)


@triton.jit
def capped(logits, softcap):
    """softcap * tanh(logits), or the logits as they are if softcap is None."""
    if softcap is not None:
        # tanh, written so that no exponent overflows into inf / inf
        logits = softcap * (1.0 - 2.0 / (1.0 + tl.exp2(logits * 2.885390081777927)))
    return logits


@triton.jit
def sink_seen(sinks, head, exists):
    """(maximum, total) after one more logit for each head, whose value is zero.

    sinks: [H], one for each query head; head and exists: [rows].
    """
    sink = tl.load(sinks + head, mask=exists, other=float("-inf")).to(tl.float32)
    return sink * 1.4426950408889634, tl.where(exists, 1.0, 0.0)  # log2(e)


@triton.jit
def online_step(
    q, k, v, visible, maximum, total, weighted, scale, softcap, MASKED: tl.constexpr
):  # fmt: skip
    """Lesson 5's step over one tile: raise the maximum, rescale, add.

    Logits are counted in powers of two, for the hardware has exp2 and makes exp of it.
    So `scale` is the model's scale times log2(e). With a soft cap, `softcap` is the
    model's cap times log2(e), and `scale` is the model's scale divided by its cap.

    q: [rows, key dim]; k: [N, key dim]; v: [N, value dim]; visible: [rows, N]. The
    state, in float32: maximum [rows], total [rows], weighted [rows, value dim].
    """
    # "ieee" keeps the precision of float32; numbers of 16 bits have less anyway.
    logits = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    logits = capped(logits, softcap)
    if MASKED:
        logits = tl.where(visible, logits, float("-inf"))
    new_maximum = tl.maximum(maximum, tl.max(logits, 1))
    # A row that has seen nothing yet: -inf - -inf would be NaN.
    reference = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
    weights = tl.exp2(logits - reference[:, None])
    rescale = tl.exp2(maximum - reference)
    total = total * rescale + tl.sum(weights, 1)
    weighted = weighted * rescale[:, None]
    weighted = tl.dot(weights.to(v.dtype), v, weighted, input_precision="ieee")
    return new_maximum, total, weighted


@triton.jit
def over_tiles(
    maximum, total, weighted,
    start, stop, position, q, key_head, value_head, table, scale, softcap,
    WINDOW: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    PADDED_KEY_DIM: tl.constexpr,
    PADDED_VALUE_DIM: tl.constexpr,
    TILE: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Lesson 5's loop, from `start` to `stop`, a tile at a time.

    position: [rows], the last position that each row sees. key_head and value_head:
    pointers to this KV head in slot 0; numbers of 8 bits are converted to the type of
    q, and not scaled (see `eight_bits`). Without MASKED, all tiles must be whole and
    seen by all rows.
    """
    for first in range(start, stop, TILE):
        seen = first + tl.arange(0, TILE)
        visible = seen[None, :] <= position[:, None]
        if WINDOW is not None:
            visible = visible & (seen[None, :] > position[:, None] - WINDOW)
        slots = slots_of(table, seen, seen < stop, BLOCK_SIZE)
        k = load_tile(
            key_head, slots, seen < stop,
            NUM_KV_HEADS * KEY_DIM, KEY_DIM, PADDED_KEY_DIM, MASKED,
        ).to(q.dtype)  # fmt: skip
        v = load_tile(
            value_head, slots, seen < stop,
            NUM_KV_HEADS * VALUE_DIM, VALUE_DIM, PADDED_VALUE_DIM, MASKED,
        ).to(q.dtype)  # fmt: skip
        maximum, total, weighted = online_step(
            q, k, v, visible, maximum, total, weighted, scale, softcap, MASKED
        )
    return maximum, total, weighted


@triton.jit
def divide(weighted, total):
    """The weighted mean; zeros for a row that saw nothing."""
    return weighted / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def log_of(maximum, total):
    """log2 of the sum of all weights; -inf, for none, if nothing was seen."""
    return maximum + tl.log2(tl.where(total == 0.0, 1.0, total))


@triton.jit
def merge_parts(logs, means, rows, exists, column, DIM: tl.constexpr):
    """The mean of the parts that several programs have read; zeros, if all are empty.

    Each part is weighted by the sum of its weights; `logs` has the log2 of the sum.

    rows: [N], where the parts lie; exists: [N]. column: numbers of the mean. Returns
    [columns].
    """
    log = tl.load(logs + rows, mask=exists, other=float("-inf"))
    mask = exists[:, None] & (column < DIM)[None, :]
    mean = tl.load(means + rows[:, None] * DIM + column[None, :], mask=mask, other=0.0)
    maximum = tl.max(log, 0)
    weights = tl.exp2(log - tl.where(maximum == float("-inf"), 0.0, maximum))
    total = tl.sum(weights, 0)
    return tl.sum(weights[:, None] * mean, 0) / tl.where(total == 0.0, 1.0, total)
