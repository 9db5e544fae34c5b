"""Lab: a sequence's tiles, its blocks, and where these lie in the pool."""

import math
from itertools import pairwise

from minipaged.draw.letters import counted, from_to
from minipaged.draw.palette import line_colour
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import KEPT, Tone, free, others, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable

MANY = 96  # blocks of a pool: of more, only those of the sequence are drawn


def plot_tile_and_blocks(
    table: BlockTable,
    tile: int,
    title: str,
    name: str = "A",
    now: int = 0,
) -> Figure:
    """The positions in tiles, the same positions in blocks, and the blocks in the pool.

    Marked is one tile: the blocks that it reads, and where they lie.

    tile: positions. now: the tile that is marked, counted from 0.
    """
    context, size = table.num_tokens, table.pool.block_size
    marked = range(now * tile, min((now + 1) * tile, context))
    read = {table.block_ids[position // size] for position in marked}

    def tone(block: int) -> Tone:
        if block in table.block_ids:
            return strong(name) if block in read else soft(name)
        return others() if table.pool.refcount(block) else free()

    picture = Picture(title, widest=64.0)
    picture.headline(f"{name}'s {counted(context, 'position')}")
    cells = [
        Cell(
            f"tile {at}",
            (strong if at == now else soft)(name),
            min(tile, left),
            short=str(at),
        )
        for at, left in enumerate(range(context, 0, -tile))
    ]
    hidden = -context % tile
    cells += [Cell("masked", KEPT, hidden)] * bool(hidden)
    picture.row(f"tiles of {tile}", "for the hardware", cells)
    cells, above = [], []
    for at, block in enumerate(table.block_ids):
        held = range(at * size, min((at + 1) * size, context))
        above.append(Cell(wide=len(held), below=from_to(held[0], held[-1])))
        cells.append(Cell(f"block {block}", tone(block), size, short=str(block)))
    picture.row("", "", above, height=0.0, apart=0.0)
    blocks = picture.row(f"blocks of {size}", "for the allocator", cells)
    shown = sorted(table.block_ids)
    if table.pool.num_blocks <= MANY:
        shown = list(range(table.pool.num_blocks))
    cells, places = [], {}
    for before, block in pairwise([shown[0] - 1, *shown]):
        cells += [Cell("…")] * (block != before + 1)
        places[block] = len(cells)
        cells.append(Cell("", tone(block), below=str(block)))
    options = {"fills": True, "gap": 6.0 if len(shown) <= 20 else 2.0}
    pool = picture.row("the pool", "in memory", cells, **options)
    for at, block in enumerate(table.block_ids):
        if block in read:
            picture.link(blocks[at], pool[places[block]], line_colour(name))
    signs = [(strong(name), f"tile {now} reads it"), (soft(name), f"more of {name}")]
    tones = list(map(tone, shown))
    signs += [(free(), "free")] * (free() in tones)
    signs += [(others(), "others")] * (others() in tones)
    picture.legend(*signs)
    return render(picture.scene())


def split_shares(context: int, num_splits: int, tile: int) -> list[range]:
    """The positions of each split, as the decode kernel deals them out.

    Equal shares in whole tiles: the last one may be shorter, or empty.
    """
    share = math.ceil(math.ceil(context / num_splits) / tile) * tile
    starts = (min(split * share, context) for split in range(num_splits))
    return [range(start, min(start + share, context)) for start in starts]
