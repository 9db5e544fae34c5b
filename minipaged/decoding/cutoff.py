"""Appendix D: how low a logit may be: top-k, top-p and min-p as one number a row.

Each of the three leaves out the lowest logits. So each is a cutoff: a token may be
drawn if its logit is at least as high. For example: top-k with k = 2 has the cutoff 3.0
in the row [4.0, 1.0, 3.0, 2.0]. The cutoff of min-p follows from the highest logit. The
others are found without sorting. They are the highest number that has enough of the row
at or above it: k logits, or the wanted share of probability. The search begins with all
numbers that a logit can be. A look at the row weighs the logits from four of these
numbers on, and leaves a quarter of the numbers. So eight looks search all 16 bits.

Most often, one look at the row is enough. First, 4,096 lanes go side by side over the
row, and each keeps the highest logit that it meets. These few logits are searched, in
registers. If enough of them lie at or above a number, enough of the row does: the
cutoff is no lower. The highest logits seldom share a lane. If none do, the number found
is the cutoff, and one look at the row confirms it. Otherwise the search goes on from
that number.
"""

from torch import Tensor, bfloat16, float16, float32

from minipaged.attention.kernels.setup import tl, triton

_LANES = 4096
_PIVOTS = 4  # numbers that are tried in one look
# A logit is widened to float32. So many of the new bits are always 0.
_EMPTY_BITS = {float32: 0, float16: 13, bfloat16: 16}


@triton.jit
def _cutoff_kernel(
    cutoffs,  # [rows]
    logits,  # [rows, vocabulary]
    numbers,  # [rows, 4]: the fields of RowOptions, in their order
    row_stride,
    vocabulary,
    EMPTY_BITS: tl.constexpr,
    LANES: tl.constexpr,
    PIVOTS: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    sharpness = tl.load(numbers + 4 * number)
    top_k = tl.load(numbers + 4 * number + 1)
    top_p = tl.load(numbers + 4 * number + 2)
    min_p = tl.load(numbers + 4 * number + 3)
    cutoff = tl.full([], float("-inf"), tl.float32)
    if (top_k > 0) | (top_p < 1) | (min_p > 0):
        row = logits + number * row_stride
        lanes = tl.full([1, LANES], float("-inf"), tl.float32)
        for start in range(0, vocabulary, LANES):
            lanes = tl.maximum(lanes, _load(row, start, vocabulary, LANES))
        highest = tl.max(tl.max(lanes, 1), 0)
        low, high = _key(cutoff, EMPTY_BITS), _key(highest, EMPTY_BITS) + 1
        if top_k > 0:  # at a sharpness of 0 each logit weighs 1
            low = _cut(
                row, vocabulary, lanes, low, high, top_k, highest, 0.0,
                EMPTY_BITS, LANES, PIVOTS,
            )  # fmt: skip
        if top_p < 1:
            from_low = _logit(tl.full([1, 1], low, tl.int64), EMPTY_BITS)
            left = _weigh(
                row, vocabulary, lanes, from_low, highest, sharpness, False, LANES
            )
            low = _cut(
                row, vocabulary, lanes, low, high, top_p * tl.max(left, 0),
                highest, sharpness, EMPTY_BITS, LANES, PIVOTS,
            )  # fmt: skip
        lowest_of_min_p = highest + tl.log(min_p) / sharpness
        cutoff = tl.maximum(_logit(low, EMPTY_BITS), lowest_of_min_p)
        cutoff = tl.minimum(cutoff, highest)  # the highest logit always stays
    tl.store(cutoffs + number, cutoff)


@triton.jit
def _cut(
    row, vocabulary, lanes, low, high, target, highest, sharpness,
    EMPTY_BITS: tl.constexpr, LANES: tl.constexpr, PIVOTS: tl.constexpr,
):  # fmt: skip
    """The highest key that has enough of the row at or above it.

    If the whole row is not enough, it is the key of -inf: a k beyond the vocabulary
    keeps all logits.
    """
    low = _search(
        row, vocabulary, lanes, low, high, target, highest, sharpness,
        True, EMPTY_BITS, LANES, PIVOTS,
    )  # fmt: skip
    return _search(
        row, vocabulary, lanes, low, high, target, highest, sharpness,
        False, EMPTY_BITS, LANES, PIVOTS,
    )  # fmt: skip


@triton.jit
def _search(
    row, vocabulary, lanes, low, high, target, highest, sharpness,
    IN_LANES: tl.constexpr, EMPTY_BITS: tl.constexpr,
    LANES: tl.constexpr, PIVOTS: tl.constexpr,
):  # fmt: skip
    """The same key, in the row or the lanes: from low on is enough, from high on not.

    The first pivot is the key next to low: if low is the answer, one look shows it.
    """
    while high - low > 1:
        pivots = low + 1 + (high - low - 1) * tl.arange(0, PIVOTS) // PIVOTS
        starts = _logit(pivots, EMPTY_BITS)[:, None]
        enough = target <= _weigh(
            row, vocabulary, lanes, starts, highest, sharpness, IN_LANES, LANES
        )
        low = tl.max(tl.where(enough, pivots, low), 0)
        high = tl.min(tl.where(enough, high, pivots), 0)
    return low


@triton.jit
def _weigh(
    row, vocabulary, lanes, starts, highest, sharpness,
    IN_LANES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The weight of all logits at or above each start. [P, 1] to [P], float32.

    A logit's weight is its probability, divided by that of the highest logit.
    """
    found = tl.zeros([starts.shape[0], LANES], tl.float32)
    for start in range(0, LANES if IN_LANES else vocabulary, LANES):
        x = lanes if IN_LANES else _load(row, start, vocabulary, LANES)
        weight = tl.exp((x - highest) * sharpness)
        found = tl.where(x >= starts, found + weight, found)
    return tl.sum(found, 1)


@triton.jit
def _load(row, start, vocabulary, LANES: tl.constexpr):
    """The row's logits from `start` on, [1, LANES] float32; -inf beyond its end."""
    column = start + tl.arange(0, LANES)[None, :]
    x = tl.load(row + column, mask=column < vocabulary, other=float("-inf"))
    return x.to(tl.float32)


@triton.jit
def _key(logit, EMPTY_BITS: tl.constexpr):
    """An integer for each number that a logit can be, in the same order, without gaps.

    A float's bits are a sign and a size; its key is the integer of that sign and size.
    So 0.0 and -0.0 have the same key.
    """
    bits = logit.to(tl.int32, bitcast=True)
    size = ((bits & 0x7FFFFFFF) >> EMPTY_BITS).to(tl.int64)
    return tl.where(bits < 0, -size, size)


@triton.jit
def _logit(key, EMPTY_BITS: tl.constexpr):
    """The number with this key, as float32."""
    size = (tl.abs(key) << EMPTY_BITS).to(tl.int32).to(tl.float32, bitcast=True)
    return tl.where(key < 0, -size, size)


def find_cutoffs(logits: Tensor, numbers: Tensor) -> Tensor:
    """The lowest logit of each row that may still be drawn.

    logits: [rows, vocabulary] float32, float16 or bfloat16. numbers: [rows, 4] float32,
    of each row's RowOptions. Returns [rows] float32; -inf for rows that keep all.

    Kept are the logits that TopKLogitsWarper, TopPLogitsWarper and MinPLogitsWarper
    keep, one after the other, after the temperature. One difference: of several equal
    logits at top-p's cut, HuggingFace keeps some, by the order of its sort, and we keep
    all.
    """
    cutoffs = logits.new_empty(len(logits), dtype=float32)
    _cutoff_kernel[len(logits),](
        cutoffs, logits, numbers, logits.stride(0), logits.shape[1],
        EMPTY_BITS=_EMPTY_BITS[logits.dtype], LANES=_LANES, PIVOTS=_PIVOTS,
        num_warps=16,
    )  # fmt: skip
    return cutoffs
