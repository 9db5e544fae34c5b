"""Lab: the free blocks of a pool in the order in which they are handed out."""

from collections.abc import Mapping, Sequence

from minipaged.draw.palette import theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import FOUND, free, held
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.cached_blocks import CachedBlocks

COLUMNS = 10


def plot_free_list(
    pool: BlockPool,
    title: str,
    words: Mapping[int, str] | None = None,
    owners: Mapping[int, str] | None = None,
    parents: Mapping[int, Sequence[int]] | None = None,
) -> Figure:
    """The free blocks from left to right: the first is handed out next.

    Blocks with nothing to find go first; of the others, the one freed longest ago.
    words: what lies in a block. owners: the letters of those who held it; the block
    has a band in the colour of each of them.
    parents: the blocks that a block's text may follow; arcs lead to those that are
    free, too, and in its row.
    """
    words, owners = words or {}, owners or {}
    plain, findable = pool._free, ()
    if isinstance(plain, CachedBlocks):
        plain, findable = plain.plain, plain.findable
    blocks = [*reversed(plain), *findable]
    queue = Picture(title, widest=160.0)
    said = "↓ handed out next" if blocks else "no block is free"
    queue.text(said, color=theme().ink)
    places, before = {}, None
    for start in range(0, len(blocks), COLUMNS):
        here = blocks[start : start + COLUMNS]
        cells = [
            Cell(
                words.get(block, ""),
                held(owners[block]) if owners.get(block) else free(),
                rim="dashed" if block in findable else "none",
                above=" · ".join(filter(None, (str(block), owners.get(block)))),
            )
            for block in here
        ]
        row = queue.row("", "", cells, gap=10.0, height=42 + 12 * any(words.values()))
        places |= {block: row[at] for at, block in enumerate(here)}
        if before:
            queue.link(before[-1], row[0])
        before = row
    arcs = [
        (places[child], places[parent])
        for child, before in (parents or {}).items()
        for parent in before
        if child in places and parent in places
        if places[child].row is places[parent].row
    ]
    for child, parent in arcs:
        queue.link(child, parent)
    several = [names for names in owners.values() if len(names) > 1]
    signs = [(free(), "nothing to find"), (FOUND, "can still be found")]
    queue.legend(*signs, *[(held(names), "several held it") for names in several[:1]])
    if arcs:
        queue.text("an arrow leads to the block before it in the text")
    return render(queue.scene())
