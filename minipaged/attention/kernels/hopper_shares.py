"""Appendix C: few long tiles of queries, in equal shares for all multiprocessors.

If a step has few new tokens on long contexts, there are fewer tiles of queries than
multiprocessors, or not many more: some programs would have twice as much to do as
others. So the tiles' keys are laid end to end, for all heads, and cut into as many
equal shares as there are programs.

For example, three tiles of queries that see 6, 6 and 4 tiles of keys, and four
programs: a share has 4 tiles of keys. So the first tile is cut after 4, and the second
after 2; the third is the fourth program's.

    tiles of queries    | 0 0 0 0 0 0 | 1 1 1 1 1 1 | 2 2 2 2 |
    programs            | 0 0 0 0 | 1 1 1 1 | 2 2 2 2 | 3 3 3 3 |

The program that begins a tile stores its result. Programs that go on with it leave
their parts to that program, which merges them as lesson 5 merges parts. A flag tells it
that a part is there; it puts the flag back to zero for the next layer. It need not wait
long: it begins the tile at the end of its share, and the others read their parts first.

To begin a tile takes a while, too, as long as some tiles of keys. And if programs read
the same K and V at other times, fewer reads are found in the L2. So tiles are only cut
if it makes up for that.
"""

import torch

from minipaged.attention.kernels.hopper_tiles import COLUMNS
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import padded

BEGINNING = 2  # tiles of keys that take as long as to begin a tile of queries
LEAST = 4  # tiles of keys in a share, if a tile of queries sees so many
MOST_PARTS = 32  # of a tile of queries
_TILES = 64  # looked at together


@triton.jit
def _keys_of(
    tiles, tile, exists, TOKENS: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr
):
    """How many tiles of keys these tiles of queries see."""
    row = tiles + (1 + tile) * COLUMNS
    position = tl.load(row + 3, mask=exists, other=0)
    context = tl.load(row + 4, mask=exists, other=0)
    return tl.maximum(tl.cdiv(tl.minimum(position + TOKENS, context), TILE), 1)


@triton.jit(do_not_specialize=["workers"])
def _shares_kernel(
    shares,  # [workers + 2, 2] int32
    flags,  # [workers, CONSUMERS] int32
    tiles,  # see `list_tiles`
    workers,
    HEAD_GROUPS: tl.constexpr,
    TOKENS: tl.constexpr,  # of a tile of queries
    TILE: tl.constexpr,  # of keys
    BEGINNING: tl.constexpr,
    LEAST: tl.constexpr,
    MOST_PARTS: tl.constexpr,
    CONSUMERS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
    WORKERS: tl.constexpr,  # workers + 1, padded
):
    num_tiles = tl.load(tiles)
    number = num_tiles * HEAD_GROUPS  # of tiles, each listed once for all heads
    length = 0  # of all tiles
    for first in range(0, num_tiles, TILES):
        tile = first + tl.arange(0, TILES)
        exists = tile < num_tiles
        keys = _keys_of(tiles, tile, exists, TOKENS, TILE, COLUMNS)
        length += tl.sum(tl.where(exists, keys + BEGINNING, 0), 0)
    length *= HEAD_GROUPS
    longest = _keys_of(tiles, 0, num_tiles > 0, TOKENS, TILE, COLUMNS)
    share = tl.maximum(tl.cdiv(length, workers), tl.minimum(longest, LEAST) + BEGINNING)
    share = tl.maximum(share, tl.cdiv(longest + BEGINNING, MOST_PARTS - 1))

    # If tiles are dealt whole, what has the program that is the last to end?
    worker = tl.arange(0, WORKERS)
    whole = tl.zeros([WORKERS], tl.int32)
    for turn in range(0, tl.cdiv(number, workers)):
        place = tl.where(turn % 2 == 0, worker, workers - 1 - worker)
        exists = (worker < workers) & (turn * workers + place < number)
        tile = (turn * workers + place) // HEAD_GROUPS
        keys = _keys_of(tiles, tile, exists, TOKENS, TILE, COLUMNS)
        whole += tl.where(exists, keys + BEGINNING, 0)
    is_cut = 5 * tl.max(whole, 0) > 6 * (share + 2 * BEGINNING)
    tl.store(shares, is_cut.to(tl.int32))

    # Where does each share begin: in which tile, where does that one begin?
    begin = worker * share
    found, its_begin = tl.zeros([WORKERS], tl.int32), tl.zeros([WORKERS], tl.int32)
    before = 0
    for first in range(0, num_tiles, TILES):
        tile = first + tl.arange(0, TILES)
        exists = tile < num_tiles
        keys = _keys_of(tiles, tile, exists, TOKENS, TILE, COLUMNS)
        lengths = tl.where(exists, keys + BEGINNING, 0) * HEAD_GROUPS
        ends = before + tl.cumsum(lengths, 0)
        is_before = exists[None, :] & (ends[None, :] <= begin[:, None])
        found += tl.sum(is_before.to(tl.int32), 1)
        last_end = tl.max(tl.where(is_before, ends[None, :], 0), 1)
        its_begin = tl.maximum(its_begin, last_end)
        before += tl.sum(lengths, 0)
    exists = is_cut & (found < num_tiles)
    keys = _keys_of(tiles, found, exists, TOKENS, TILE, COLUMNS)
    inside = begin - its_begin
    head_group = inside // (keys + BEGINNING)
    key = inside % (keys + BEGINNING) - BEGINNING
    key = tl.where(key < BEGINNING, 0, key)  # to cut off so few is not worth it
    is_end = (key > 0) & (keys - key < BEGINNING)
    tile = found * HEAD_GROUPS + head_group + is_end.to(tl.int32)
    row = shares + 2 + 2 * worker
    tl.store(row, tl.where(exists, tile, number), mask=worker <= workers)
    tl.store(row + 1, tl.where(exists & ~is_end, key, 0), mask=worker <= workers)
    for consumer in tl.static_range(CONSUMERS):
        tl.store(flags + CONSUMERS * worker + consumer, 0, mask=worker < workers)


def share_tiles(
    tiles: torch.Tensor,
    tokens: int,
    tile: int,
    head_groups: int,
    workers: int,
    consumers: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Equal shares of all tiles of the list, each of `head_groups` groups of heads.

    tiles: as `list_tiles` returns them, of `tokens` tokens; tile: positions of a tile
    of keys.

    Returns the shares, [workers + 2, 2] int32, and [workers, consumers] zeros for the
    flags that say that a part is there. The shares' first number is 1, or 0 if programs
    end sooner with whole tiles. Then follows where each program's share begins, and
    where the last one ends: a tile of queries, counted for each group of heads, and a
    tile of its keys.
    """
    options = {"dtype": torch.int32, "device": tiles.device}
    shares = torch.empty(workers + 2, 2, **options)
    flags = torch.empty(workers, consumers, **options)
    _shares_kernel[1,](
        shares, flags, tiles, workers,
        HEAD_GROUPS=head_groups,
        TOKENS=tokens,
        TILE=tile,
        BEGINNING=BEGINNING,
        LEAST=LEAST,
        MOST_PARTS=MOST_PARTS,
        CONSUMERS=consumers,
        COLUMNS=COLUMNS,
        TILES=_TILES,
        WORKERS=padded(workers + 1),
        num_warps=8,
    )  # fmt: skip
    return shares, flags
