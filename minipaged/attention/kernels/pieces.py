"""Appendix A: how a decode step is cut into pieces, from the lengths on the GPU.

The grid of a launch is fixed before anybody knows the lengths, at the latest when a
CUDA graph is captured. So a program gets a number only, and finds its piece by itself:
it adds up what all sequences have to read, which says how long a piece should be; then
it counts pieces until its number is reached.
"""

from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.tile import divide, nothing_seen


@triton.jit
def to_read(
    context_lengths,
    query_starts,
    seq,
    exists,
    WINDOW: tl.constexpr,
):
    """(first position that is seen, end of what lies in the cache) of sequences.

    Without query_starts, all have one new token, which is not in the cache yet. With
    them, it is; and those of more or less new tokens are not this kernel's: their end
    is -1.
    """
    context = tl.load(context_lengths + seq, mask=exists, other=0).to(tl.int32)
    begin = context * 0
    if WINDOW is not None:
        begin = tl.maximum(context - WINDOW, 0)
    if query_starts is None:
        return begin, tl.maximum(context - 1, 0)
    else:
        start = tl.load(query_starts + seq, mask=exists, other=0)
        num_new = tl.load(query_starts + seq + 1, mask=exists, other=0) - start
        return begin, tl.where(num_new == 1, context, -1)


@triton.jit
def num_pieces_of(begin, stop, share, TILE: tl.constexpr):
    """Into how many pieces, each of `share` tiles at most, this is cut: one at least."""
    pieces = tl.maximum(tl.cdiv(tl.cdiv(stop - begin, TILE), share), 1)
    return tl.where(stop < 0, 0, pieces)


@triton.jit
def find_piece(
    number,
    context_lengths,
    query_starts,
    num_seqs,
    target,
    WINDOW: tl.constexpr,
    TILE: tl.constexpr,
    LEAST: tl.constexpr,
    N: tl.constexpr,
):
    """Whose is the piece of this number: sequence, first number of its pieces, share.

    If all is cut into `target` pieces of equal length, and each sequence's last may be
    shorter, there are at most target + num_seqs of them. Numbers that are left over
    belong to sequence num_seqs, which does not exist.
    """
    tiles = 0
    for first in range(0, num_seqs, N):
        seq = first + tl.arange(0, N)
        begin, stop = to_read(
            context_lengths, query_starts, seq, seq < num_seqs, WINDOW
        )
        tiles += tl.sum(tl.cdiv(tl.maximum(stop - begin, 0), TILE), 0)
    share = tl.maximum(tl.cdiv(tiles, target), LEAST)
    found, first_piece, before = 0, 0, 0
    for first in range(0, num_seqs, N):
        seq = first + tl.arange(0, N)
        begin, stop = to_read(
            context_lengths, query_starts, seq, seq < num_seqs, WINDOW
        )
        pieces = tl.where(seq < num_seqs, num_pieces_of(begin, stop, share, TILE), 0)
        ends = before + tl.cumsum(pieces, 0)
        is_before = (ends <= number) & (seq < num_seqs)
        found += tl.sum(is_before.to(tl.int32), 0)
        first_piece += tl.sum(tl.where(is_before, pieces, 0), 0)
        before += tl.sum(pieces, 0)
    return found, first_piece, share


@triton.jit
def merge(
    out_rows,  # pointer to the first query head's row of the result
    means,  # [pieces, KV heads, GROUP, value dim] float32
    logs,  # [pieces, KV heads, GROUP]
    first_piece,
    num_pieces,
    kv_head,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEADS: tl.constexpr,  # GROUP, padded
    PADDED_VALUE_DIM: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    """Each piece counts by the sum of its weights; an empty one, by nothing."""
    head, column = tl.arange(0, HEADS), tl.arange(0, PADDED_VALUE_DIM)
    maximum, total, weighted = nothing_seen(HEADS, PADDED_VALUE_DIM)
    for first in range(0, num_pieces, AT_ONCE):
        piece = first + tl.arange(0, AT_ONCE)
        exists = (piece < num_pieces)[:, None] & (head < GROUP)[None, :]
        rows = (first_piece + piece).to(tl.int64) * NUM_KV_HEADS + kv_head
        rows = rows[:, None] * GROUP + head[None, :]
        # Other programs wrote them: not to be taken from this multiprocessor's cache.
        log = tl.load(
            logs + rows, mask=exists, other=float("-inf"), cache_modifier=".cg"
        )
        mean = tl.load(
            means + rows[:, :, None] * VALUE_DIM + column[None, None, :],
            mask=exists[:, :, None] & (column < VALUE_DIM)[None, None, :],
            other=0.0,
            cache_modifier=".cg",
        )
        new_maximum = tl.maximum(maximum, tl.max(log, 0))
        reference = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        weights = tl.exp2(log - reference[None, :])
        rescale = tl.exp2(maximum - reference)
        total = total * rescale + tl.sum(weights, 0)
        weighted = weighted * rescale[:, None] + tl.sum(weights[:, :, None] * mean, 0)
        maximum = new_maximum
    places = out_rows + head[:, None] * VALUE_DIM + column[None, :]
    mask = (head < GROUP)[:, None] & (column < VALUE_DIM)[None, :]
    result = divide(weighted, total).to(out_rows.dtype.element_ty)
    tl.store(places, result, mask=mask)
