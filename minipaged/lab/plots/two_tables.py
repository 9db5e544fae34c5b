"""Lab: two tables over one pool, each entry with its block (paper, figure 8)."""

from collections.abc import Mapping, Sequence

from minipaged.draw.palette import line_colour, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, others, shared, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable


def plot_two_tables(
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    title: str,
    words: Mapping[str, Sequence[str]],
) -> Figure:
    """Draw the pool between two tables; an arrow leads from each entry to its block.

    A block has the colour of the first table that holds it, and is hatched if several
    hold it; a block held by somebody else is grey, a free one pale. words: those of
    each sequence, written into the slots.
    """
    size, drawing, middle = pool.block_size, Picture(title), Picture("the pool", 90.0)
    slots = {}  # the first table's, and what the second one has besides
    for name, table in reversed(tables.items()):
        for entry, block in enumerate(table.block_ids):
            tone = strong(name)
            if pool.refcount(block) > 1:
                tone = shared(tone, name)
            here = words[name][entry * size : (entry + 1) * size]
            slots[block] = [Cell(word, tone) for word in here]
    blocks = []
    for block in range(pool.num_blocks):
        cells = slots.get(block, [])
        is_free = block in slots or not pool.refcount(block)
        rest = Cell("", free() if is_free else others(), size - len(cells))
        cells = cells + [rest] * bool(rest.wide)
        style = {"height": 22.0, "rim": theme().rim}
        blocks.append(middle.row(f"block {block}", "", cells, **style))
    sides = {name: Picture(f"{name}'s table") for name in tables}
    for name, table in tables.items():
        for entry, block in enumerate(table.block_ids):
            cell = Cell(str(block), soft(name))
            from_right = name != next(iter(tables))
            said = f"entry {entry}"
            where = {"aside": said} if from_right else {"label": said}
            row = sides[name].row(cells=[cell], **where)
            end = blocks[block][-1 if from_right else 0]
            drawing.link(row[0], end, line_colour(name))
    left, right = sides.values()
    drawing.beside(left, middle, right, gap=80.0, shares=(1, 3, 1))
    signs = [(others(), "held by others"), (free(), "empty")]
    if any(pool.refcount(block) > 1 for block in slots):
        first = next(iter(tables))
        signs.insert(0, (shared(strong(first), first), "several holders"))
    drawing.legend(*signs)
    return render(drawing.scene())
