"""Appendix D: how a decode step is cut into pieces, and how pieces are merged.

The grid of a launch is fixed before the CPU knows the lengths, at the latest when a
CUDA graph is captured. So once a step, a small kernel looks at the lengths on the GPU
and writes a *plan*. A row of the plan says what a program of the layers' launches
reads. All pieces are about equally long, and the longest come first. So the last pieces
are short, and no multiprocessor waits long for another.

For example, sequences of 8, 8, 4 and 1 tiles are to be cut into about 6 pieces. That is
4 tiles a piece at most, so the rows of the plan have 4, 4, 4, 4, 4 and 1 tiles.

The last program of a sequence and KV head to arrive merges their pieces. If there are
many pieces of few sequences, a separate kernel merges, with programs for each query
head.

Pieces of the same length may leave places empty: if a GPU has five places for programs,
two sequences of 15 tiles make four pieces of 8, 7, 8 and 7 tiles, and one place has
nothing to read. Where there is much to read, `target` says how many places there are,
and the plan fills them: 7, 7, 7, 7, 1 and 1 tiles. The pieces have the same length, and
what remains of a sequence is a shorter piece. The last two are read one after the other
in the fifth place.

If sequences have different lengths, what remains has, too. Then what one short piece
leaves of a place, other short pieces fill: see MIXED.

A piece takes time to begin, so only so many short ones share a place. In 8 bits, tiles
are read in less time, so to begin takes as long as to read more of them. For example,
there are 39 sequences of 13 tiles, and 49 places. If to begin is as long as 2 tiles,
four pieces of 1 tile share a place, and sequences are cut into 12 and 1 tiles. But if
it is as long as 5 tiles, the short pieces take 39 x 6 in the 10 places that are left,
and the others only 17 in each. So in 8 bits, these sequences are not cut.
"""

import torch

from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.tile import divide, nothing_seen

COLUMNS = 9  # of a plan's row
_SEQUENCES = 64  # by one program
_TO_BEGIN = 2  # as long as reading so many tiles
_ALL_TO_BEGIN = 5  # in 8 bits, where a tile is read in less time


@triton.jit
def _to_read(
    context_lengths,
    query_starts,
    seq,
    num_seqs,
    WINDOW: tl.constexpr,
    TILE: tl.constexpr,
):
    """What sequences have to read: context, new token, first position, end, tiles.

    Positions up to `end` lie in the cache. Without query_starts, every sequence has one
    new token, which is not in the cache yet. With query_starts, it is; sequences with
    more new tokens, or none, are skipped: their token is -1.
    """
    exists = seq < num_seqs
    context = tl.load(context_lengths + seq, mask=exists, other=0).to(tl.int32)
    begin = context * 0
    if WINDOW is not None:
        begin = tl.maximum(context - WINDOW, 0)
    if query_starts is None:
        token = tl.where(exists, seq, -1)
        end = tl.maximum(context - 1, 0)
    else:
        start = tl.load(query_starts + seq, mask=exists, other=0).to(tl.int32)
        stop = tl.load(query_starts + seq + 1, mask=exists, other=0).to(tl.int32)
        token = tl.where(stop - start == 1, start, -1)
        end = tl.where(token < 0, begin, context)
    return context, token, begin, end, tl.cdiv(end - begin, TILE)


@triton.jit
def _cut(tiles, token, share, FILL: tl.constexpr):
    """How sequences are cut into pieces of `share` tiles at most.

    Returns the tiles of a piece; how many such pieces there are; and the tiles of a
    last, shorter piece, or -1, if there is none.
    """
    if FILL:
        length = tl.zeros_like(tiles) + share
        pieces = tiles // share
        rest = tiles - pieces * share
        rest = tl.where((rest > 0) | (pieces == 0), rest, -1)
    else:
        length = tl.cdiv(tiles, tl.maximum(tl.cdiv(tiles, share), 1))
        length = tl.maximum(length, 1)
        pieces = tl.maximum(tl.cdiv(tiles, length), 1)
        rest = tl.zeros_like(tiles) - 1
    return length, tl.where(token < 0, 0, pieces), tl.where(token < 0, -1, rest)


@triton.jit(do_not_specialize=["num_seqs", "target", "num_rows", "most_pieces"])
def _plan_kernel(
    plan,  # [rows, COLUMNS] int32
    tickets,  # [S, KV heads] int32
    context_lengths,  # [S]
    query_starts,  # [S + 1]; None: one token for each sequence
    num_seqs,
    target,
    num_rows,
    most_pieces,  # of a sequence; None: the programs that read also merge
    FILL: tl.constexpr,  # `target` places
    MIXED: tl.constexpr,  # short pieces share places, whatever their lengths
    TO_BEGIN: tl.constexpr,
    ALL_TO_BEGIN: tl.constexpr,  # the same for all short pieces together; 0: no limit
    WINDOW: tl.constexpr,
    TILE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    COLUMNS: tl.constexpr,
    N: tl.constexpr,
):
    all_tiles, longest = 0, 0
    for first in range(0, num_seqs, N):
        other = first + tl.arange(0, N)
        _, _, _, _, tiles = _to_read(
            context_lengths, query_starts, other, num_seqs, WINDOW, TILE
        )
        all_tiles += tl.sum(tiles, 0)
        longest = tl.maximum(longest, tl.max(tiles, 0))
    if most_pieces is not None:
        least = tl.cdiv(longest, most_pieces)
    else:
        # A program that merges all pieces of a sequence cannot read meanwhile: for n
        # tiles, the best number of pieces grows as the square root of n.
        least = tl.ceil(tl.sqrt(longest.to(tl.float32)) / 4).to(tl.int32)
    share = tl.maximum(tl.maximum(tl.cdiv(all_tiles, target), least), 1)
    # There may be no more pieces than rows, or than places. A piece of `share` tiles
    # takes a place. Of shorter last pieces, as many share a place as have together
    # `share` tiles. In 8 bits, all of them together must also have the time to begin.
    # Longer pieces need fewer places.
    most = target + 0.01 if FILL else num_rows + 0.01  # places are sums of fractions
    places = most + 1.0
    while places > most:
        places = 0.0
        for first in range(0, num_seqs, N):
            other = first + tl.arange(0, N)
            _, its_token, _, _, its_tiles = _to_read(
                context_lengths, query_starts, other, num_seqs, WINDOW, TILE
            )
            _, its_pieces, its_rest = _cut(its_tiles, its_token, share, FILL)
            if MIXED:
                part = (its_rest + TO_BEGIN).to(tl.float32) / share
            else:
                as_long = tl.maximum(its_rest + TO_BEGIN, 1)
                in_a_place = tl.maximum(share // as_long, 1)
                part = 1.0 / in_a_place
                if ALL_TO_BEGIN > 0:
                    longer = (its_rest + ALL_TO_BEGIN).to(tl.float32)
                    part = tl.maximum(part, longer / (share + ALL_TO_BEGIN))
            of_a_place = tl.where(its_rest > 0, part, 0.0)
            places += tl.sum(its_pieces + of_a_place, 0)
        if places > most:
            share += tl.cdiv(share, 64)

    seq = tl.program_id(0) * N + tl.arange(0, N)
    context, token, begin, end, tiles = _to_read(
        context_lengths, query_starts, seq, num_seqs, WINDOW, TILE
    )
    length, pieces, rest = _cut(tiles, token, share, FILL)
    # First come all longer pieces, then pieces as long of earlier sequences; at the
    # end, the shorter last pieces. Results lie in the order of the sequences.
    first_row, rest_row = tl.zeros([N], tl.int32), tl.zeros([N], tl.int32)
    first_result, num_used = tl.zeros([N], tl.int32), 0
    for first in range(0, num_seqs, N):
        other = first + tl.arange(0, N)
        _, its_token, _, _, its_tiles = _to_read(
            context_lengths, query_starts, other, num_seqs, WINDOW, TILE
        )
        its_length, its_pieces, its_rest = _cut(its_tiles, its_token, share, FILL)
        has_rest = tl.where(its_rest >= 0, 1, 0)
        is_earlier = other[None, :] < seq[:, None]
        is_equal = its_length[None, :] == length[:, None]
        is_before = (its_length[None, :] > length[:, None]) | (is_equal & is_earlier)
        first_row += tl.sum(tl.where(is_before, its_pieces[None, :], 0), 1)
        is_equal = its_rest[None, :] == rest[:, None]
        is_before = (its_rest[None, :] > rest[:, None]) | (is_equal & is_earlier)
        rest_row += tl.sum(its_pieces, 0)
        rest_row += tl.sum(tl.where(is_before, has_rest[None, :], 0), 1)
        its_rows = its_pieces + has_rest
        first_result += tl.sum(tl.where(is_earlier, its_rows[None, :], 0), 1)
        num_used += tl.sum(its_rows, 0)

    num_own = pieces + tl.where(rest >= 0, 1, 0)
    for piece in range(0, tl.max(num_own, 0)):
        row = plan + tl.where(piece < pieces, first_row + piece, rest_row) * COLUMNS
        exists = piece < num_own
        start = begin + piece * length * TILE
        tl.store(row, seq, mask=exists)
        tl.store(row + 1, token, mask=exists)
        tl.store(row + 2, start, mask=exists)
        tl.store(row + 3, tl.minimum(start + length * TILE, end), mask=exists)
        tl.store(row + 4, first_result, mask=exists)
        tl.store(row + 5, num_own, mask=exists)
        # The last piece has the new token, unless the row only pads the batch.
        kind = tl.where(piece < num_own - 1, 0, tl.where(context > 0, 2, 1))
        tl.store(row + 6, kind, mask=exists)
        tl.store(row + 7, first_result + piece, mask=exists)
    # Row n says where sequence n begins.
    found_at = tl.where(pieces > 0, first_row, rest_row)
    found_at = tl.where(num_own > 0, found_at, -1)
    tl.store(plan + seq * COLUMNS + 8, found_at, mask=seq < num_seqs)
    for kv_head in range(0, NUM_KV_HEADS):
        tl.store(tickets + seq * NUM_KV_HEADS + kv_head, 0, mask=seq < num_seqs)
    step = N * tl.num_programs(0)
    for first in range(num_used + tl.program_id(0) * N, num_rows, step):
        left_over = first + tl.arange(0, N)
        tl.store(plan + left_over * COLUMNS, -1, mask=left_over < num_rows)


def write_plan(
    plan: torch.Tensor,
    tickets: torch.Tensor,
    context_lengths: torch.Tensor,
    query_starts: torch.Tensor | None,
    target: int,
    tile: int,
    sliding_window: int | None,
    most_pieces: int | None,
    fill: bool = False,
    mixed: bool = False,
    in_eight_bits: bool = False,
) -> None:
    """Say which piece each program reads, and set the tickets to zero.

    plan: [rows, COLUMNS] int32: sequence, token, first position, end; where the
    results of the sequence begin, and how many there are; whether this is its last
    piece (1; 2 if it has a new token); where this result lies. Unused rows belong to
    sequence -1. The last column of row n says in which row sequence n begins, or -1.
    tickets: [S, KV heads].
    The batch is cut into about `target` pieces, at most target + S. If the plan has
    fewer rows than that, but at least S, pieces are so long that they fit. Each
    sequence is cut into at least one, and at most `most_pieces`, which a separate
    launch merges. If that is None, no sequence is cut into so many that merging would
    take longer than reading.
    fill: `target` programs run at a time, and all have about as much to read. mixed:
    lengths differ, so short pieces fill what others leave of a place. in_eight_bits:
    what short pieces need to begin counts more; not if they are mixed.
    """
    num_seqs = len(context_lengths)
    _plan_kernel[-(-num_seqs // _SEQUENCES),](
        plan, tickets, context_lengths, query_starts, num_seqs, target, len(plan),
        most_pieces,
        FILL=fill,
        MIXED=mixed,
        TO_BEGIN=_TO_BEGIN,
        ALL_TO_BEGIN=_ALL_TO_BEGIN if in_eight_bits else 0,
        WINDOW=sliding_window,
        TILE=tile,
        NUM_KV_HEADS=tickets.shape[1],
        COLUMNS=COLUMNS,
        N=_SEQUENCES,
    )  # fmt: skip


@triton.jit
def merge(
    out_rows,  # pointer to the first query head's row of the result
    means,  # [rows of the plan, KV heads, GROUP, value dim]
    logs,  # [rows of the plan, KV heads, GROUP]
    first_result,
    num_pieces,
    kv_head,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    HEADS: tl.constexpr,  # GROUP, padded
    PADDED_VALUE_DIM: tl.constexpr,
    AT_ONCE: tl.constexpr,  # pieces that are read
):
    """The mean of a sequence's pieces, each weighted by the sum of its weights.

    AT_ONCE pieces are read at a time, as lesson 5's step reads a tile: they wait for
    their common maximum only. Every piece lies in the registers of the same threads, so
    threads need not wait for each other.
    """
    head, column = tl.arange(0, HEADS), tl.arange(0, PADDED_VALUE_DIM)
    maximum, total, weighted = nothing_seen(HEADS, PADDED_VALUE_DIM)
    is_number = (head < GROUP)[:, None] & (column < VALUE_DIM)[None, :]
    row = (first_result.to(tl.int64) * NUM_KV_HEADS + kv_head) * GROUP + head
    for first in range(0, num_pieces, AT_ONCE):
        part_logs, part_means, new_maximum = (), (), maximum
        for at in tl.static_range(AT_ONCE):
            exists = first + at < num_pieces
            own = row + (first + at) * (NUM_KV_HEADS * GROUP)
            # Other multiprocessors wrote them, so this one's own cache may be stale.
            log = tl.load(
                logs + own,
                mask=(head < GROUP) & exists,
                other=float("-inf"),
                cache_modifier=".cg",
            )
            mean = tl.load(
                means + own[:, None] * VALUE_DIM + column[None, :],
                mask=is_number & exists,
                other=0.0,
                cache_modifier=".cg",
            )
            part_logs += (log,)
            part_means += (mean,)
            new_maximum = tl.maximum(new_maximum, log)
        reference = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        rescale = tl.exp2(maximum - reference)
        total, weighted = total * rescale, weighted * rescale[:, None]
        for at in tl.static_range(AT_ONCE):
            weight = tl.exp2(part_logs[at] - reference)
            total += weight
            weighted += weight[:, None] * part_means[at]
        maximum = new_maximum
    places = out_rows + head[:, None] * VALUE_DIM + column[None, :]
    result = divide(weighted, total).to(out_rows.dtype.element_ty)
    tl.store(places, result, mask=is_number)


@triton.jit
def merge_kernel(
    out,  # [T, H, value dim]
    means,
    logs,
    plan,  # [rows, COLUMNS]
    COLUMNS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    NUMBERS: tl.constexpr,  # of the result, by one program
    PIECES: tl.constexpr,  # that are read at a time
    WAITS: tl.constexpr,
    HANDS_OVER: tl.constexpr,
):
    """Merge some numbers of a query head's pieces, in a separate launch."""
    seq, head = tl.program_id(1), tl.program_id(0)
    found_at = tl.load(plan + seq * COLUMNS + 8)
    own = plan + tl.maximum(found_at, 0) * COLUMNS
    token, num_pieces = tl.load(own + 1).to(tl.int64), tl.load(own + 5)
    first_result = tl.load(own + 4)
    if WAITS:
        # Until all pieces are written. Programs that merge nothing wait, too: the next
        # kernel may begin when this launch ends, and needs what `step_kernel` stores.
        tl.extra.cuda.gdc_wait()
    if HANDS_OVER:
        tl.extra.cuda.gdc_launch_dependents()
    if found_at < 0:
        return  # a sequence that the plan skips
    if num_pieces == 1:
        return  # it is stored already
    column = tl.program_id(2) * NUMBERS + tl.arange(0, NUMBERS)
    piece = tl.arange(0, PIECES)
    highest, total = float("-inf"), 0.0
    weighted = tl.zeros([NUMBERS], tl.float32)
    for first in range(0, num_pieces, PIECES):
        exists = first + piece < num_pieces
        rows = (first_result + first + piece).to(tl.int64)
        rows = rows * (NUM_KV_HEADS * GROUP) + head
        log = tl.load(logs + rows, mask=exists, other=float("-inf"))
        mask = exists[:, None] & (column < VALUE_DIM)[None, :]
        places = rows[:, None] * VALUE_DIM + column[None, :]
        mean = tl.load(means + places, mask=mask, other=0.0)
        new_highest = tl.maximum(highest, tl.max(log, 0))
        base = tl.where(new_highest == float("-inf"), 0.0, new_highest)
        weights, rescale = tl.exp2(log - base), tl.exp2(highest - base)
        total = total * rescale + tl.sum(weights, 0)
        weighted = weighted * rescale + tl.sum(weights[:, None] * mean, 0)
        highest = new_highest
    result = weighted / tl.where(total == 0.0, 1.0, total)
    places = (token * (NUM_KV_HEADS * GROUP) + head) * VALUE_DIM + column
    tl.store(out + places, result.to(out.dtype.element_ty), mask=column < VALUE_DIM)
