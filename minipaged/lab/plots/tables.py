"""Lab: block tables side by side: who shares which block (paper, figure 9)."""

from collections.abc import Mapping
from itertools import groupby

from minipaged.draw.letters import PART, width_of
from minipaged.draw.palette import HATCHING
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free, held, shared, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

ROW, TOP, GAP = 40.0, 22.0, 4.0  # pixels of a table, above the first, between boxes
WIDEST = 116.0  # pixels from box to box, at most
FREE = 150.0  # pixels beside the tables, for free blocks


def plot_shared_tables(
    tables: Mapping[str, BlockTable], title: str, pool: BlockPool | None = None
) -> Figure:
    """Each table a row, each entry a box with its block; neighbours share one box.

    A box has its holders' colours, each in its row, and is hatched if they are several.
    pool: if given, its free blocks stand on the right.
    """
    sheet, names = Sheet(title), list(tables)
    columns = max(len(table.block_ids) for table in tables.values())
    left = 34 + max(width_of(name, PART) for name in names)
    step = min(WIDEST, (SPAN - left - FREE * (pool is not None)) / columns)
    words = "block {}" if step > width_of("block 10") + 20 else "{}"
    for row, name in enumerate(names):
        sheet.box(0, TOP + row * ROW + 10, 12, ROW - 20, strong(name))
        sheet.write(20, TOP + (row + 0.5) * ROW, name, PART)
    for column in range(columns):
        x = left + column * step
        said = f"entry {column}" if step > width_of("entry 10") + 4 else str(column)
        quiet = {"ha": "center", "color": sheet.look.quiet}
        sheet.write(x + (step - GAP) / 2, TOP - 12, said, **quiet)
        entries = [tables[name].block_ids[column : column + 1] for name in names]
        row = 0
        for block_ids, group in groupby(entries):
            holders = names[row : row + len(list(group))]
            if block_ids:
                is_shared = tables[holders[0]].pool.refcount(block_ids[0]) > 1
                area = x, TOP + row * ROW + GAP / 2, step - GAP
                said = words.format(block_ids[0])
                _draw_block(sheet, *area, said, holders, is_shared)
            row += len(holders)
    bottom = TOP + ROW * len(names)
    if pool is not None:
        _draw_free(sheet, pool, left + columns * step + 30, len(names))
    told = "a box is a block; if several hold it, it is hatched, in all their colours"
    sheet.write(0, bottom + 16, told, color=sheet.look.quiet)
    return render(sheet.finish(bottom + 24))


def _draw_free(sheet: Sheet, pool: BlockPool, x: float, num_rows: int) -> None:
    """The pool's free blocks, by id: one below the other, as many as there are rows."""
    blocks = [block for block in range(pool.num_blocks) if not pool.refcount(block)]
    wide = min(50.0, (SPAN - x) / max(1, -(-len(blocks) // num_rows)))
    sheet.write(x, TOP - 12, f"{len(blocks)} free blocks", color=sheet.look.quiet)
    for at, block in enumerate(blocks):
        column, row = divmod(at, num_rows)
        area = x + column * wide, TOP + row * ROW + GAP / 2, wide - GAP, ROW - GAP
        sheet.box(*area, free(), sheet.look.rim)
        sheet.word(*area, str(block), free())


def _draw_block(
    sheet: Sheet,
    x: float,
    y: float,
    width: float,
    said: str,
    holders: list,
    is_shared: bool,
) -> None:
    """One block, over the rows of all neighbours that hold it, in their colours."""
    area, (first, *others) = (x, y, width, ROW * len(holders) - GAP), holders
    tone = shared(strong(first), first) if is_shared else strong(first)
    if others:
        sheet.box(*area, held(holders, HATCHING, is_new=True))
        # No ink suits the colours of several holders: the word has a white plate.
        wide, tone = min(width - 4, width_of(said) + 10), Tone("#FFFFFF")
        area = x + (width - wide) / 2, y + area[3] / 2 - 11, wide, 22
    sheet.cells(*area[:2], [area[2]], area[3], [tone], [said])
