"""Appendix C: which tiles of queries there are, the longest first.

The kernel for prompts on Hopper runs as many programs as there are multiprocessors, and
each computes one *tile* after another: a run of new tokens of one sequence. Under a
CUDA graph the CPU does not know the lengths, so a small kernel lists the tiles on the
GPU, once a step. The later the tokens, the more keys they see; tiles that see most come
first. So the last tiles are short, and no multiprocessor waits long for another.

For example, tiles of 32 tokens of two prompts, of 100 and 40 tokens: the list has the
tokens 96 to 99, 64 to 95, then 32 to 39 of the second prompt, 32 to 63 of the first,
and so on. No list is sorted: each tile counts how many tiles see more keys than it
does, which follows from the sequences' lengths.
"""

import torch

from minipaged.attention.kernels.setup import tl, triton

COLUMNS = 8  # of the list
_TILES = 64  # by one program
_SEQUENCES = 64  # looked at together


@triton.jit
def _lengths(context_lengths, query_starts, seq, num_seqs, TOKENS: tl.constexpr):
    """(context, first new token, new tokens, tiles) of these sequences.

    A sequence with one new token has no tile: another kernel computes it.
    """
    exists = seq < num_seqs
    context = tl.load(context_lengths + seq, mask=exists, other=0).to(tl.int32)
    start = tl.load(query_starts + seq, mask=exists, other=0).to(tl.int32)
    stop = tl.load(query_starts + seq + 1, mask=exists, other=0).to(tl.int32)
    new = stop - start
    return context, start, new, tl.where(new > 1, tl.cdiv(new, TOKENS), 0)


@triton.jit(do_not_specialize=["num_seqs", "table_width"])
def _tiles_kernel(
    tiles,  # [1 + room, COLUMNS] int32
    context_lengths,  # [S]
    query_starts,  # [S + 1]
    num_seqs,
    table_width,
    TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
    SEQUENCES: tl.constexpr,
):
    # Sequence s has the numbers from starts[s] // TOKENS + s on: room for a short last
    # tile of each sequence. Some numbers stay unused.
    number = tl.program_id(0) * TILES + tl.arange(0, TILES)
    begun = tl.zeros([TILES], tl.int32)
    num_tiles = 0
    for first in range(0, num_seqs, SEQUENCES):
        seq = first + tl.arange(0, SEQUENCES)
        _, start, _, count = _lengths(
            context_lengths, query_starts, seq, num_seqs, TOKENS
        )
        own = (start // TOKENS + seq)[None, :] <= number[:, None]
        begun += tl.sum((own & (seq < num_seqs)[None, :]).to(tl.int32), 1)
        num_tiles += tl.sum(count, 0)
    mine = begun - 1
    context, start, new, count = _lengths(
        context_lengths, query_starts, mine, num_seqs, TOKENS
    )
    at = number - (start // TOKENS + mine)
    token = start + at * TOKENS
    position = context - new + at * TOKENS
    end = tl.minimum(position + TOKENS, context)  # of the keys that it sees

    # How many tiles see more keys? Of equal tiles, the earlier sequence's come first.
    place = tl.zeros([TILES], tl.int32)
    for first in range(0, num_seqs, SEQUENCES):
        seq = first + tl.arange(0, SEQUENCES)
        its_context, _, its_new, its_count = _lengths(
            context_lengths, query_starts, seq, num_seqs, TOKENS
        )
        least = end[:, None] - (seq[None, :] < mine[:, None]).to(tl.int32)
        shorter = tl.maximum(least - (its_context - its_new)[None, :], 0) // TOKENS
        longer = tl.maximum(its_count[None, :] - shorter, 0)
        longer = tl.where(its_context[None, :] > least, longer, 0)
        place += tl.sum(longer, 1)

    row = tiles + (1 + place) * COLUMNS
    exists = at < count
    tl.store(row, mine * table_width, mask=exists)
    tl.store(row + 1, token, mask=exists)
    tl.store(row + 2, start + new, mask=exists)
    tl.store(row + 3, position, mask=exists)
    tl.store(row + 4, context, mask=exists)
    if tl.program_id(0) == 0:
        tl.store(tiles, num_tiles)


def list_tiles(
    context_lengths: torch.Tensor,
    query_starts: torch.Tensor,
    num_tokens: int,
    table_width: int,
    tokens: int,
) -> torch.Tensor:
    """All tiles of `tokens` new tokens, those that see most keys first.

    Returns [rows, COLUMNS] int32. The first number is that of the tiles; a row for each
    follows: where the sequence's blocks begin in the tables, the tile's first token,
    the end of the sequence's tokens, the position of the first token, and the context.
    Sequences with one new token have no tile.
    """
    num_seqs = len(context_lengths)
    room = num_tokens // tokens + num_seqs
    tiles = torch.empty(
        1 + room, COLUMNS, dtype=torch.int32, device=context_lengths.device
    )
    _tiles_kernel[-(-room // _TILES),](
        tiles, context_lengths, query_starts, num_seqs, table_width,
        TOKENS=tokens,
        COLUMNS=COLUMNS,
        TILES=_TILES,
        SEQUENCES=_SEQUENCES,
    )  # fmt: skip
    return tiles
