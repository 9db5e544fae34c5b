"""Lab: two tables over one pool, each entry with its block (paper, figure 8)."""

from collections.abc import Collection, Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, others, shared, soft, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

TOP, ROW, BLOCK = 26.0, 30.0, 24.0  # pixels above the blocks, of a row, of a block
LEFT, WIDTH = 232.0, 320.0  # where the blocks begin, and how wide they are
ENTRY, STEP = 34.0, 44.0  # pixels of an entry, and from one to the next, downwards


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
    sheet = Sheet(title)
    (left, one), (right, two) = tables.items()
    sheet.write(LEFT, 8, "the pool", PART, weight="bold")
    for block_id in range(pool.num_blocks):
        y = _top(block_id)
        sheet.write(LEFT - 8, y + BLOCK / 2, f"block {block_id}", ha="right")
        is_known = block_id in (*one.block_ids, *two.block_ids)
        is_free = is_known or not pool.refcount(block_id)
        sheet.box(LEFT, y, WIDTH, BLOCK, free() if is_free else others())
    drawn: set[int] = set()
    for name, table in tables.items():
        _draw_words(sheet, pool, name, table, words[name], drawn)
        drawn |= {*table.block_ids}
    for block_id in range(pool.num_blocks):
        sheet.box(LEFT, _top(block_id), WIDTH, BLOCK, rim=sheet.look.rim)
    bottom = _top(pool.num_blocks)
    start = LEFT - 8 - width_of(f"block {pool.num_blocks - 1}") - 5
    _draw_table(sheet, left, one, bottom, 0, start)
    _draw_table(sheet, right, two, bottom, SPAN, LEFT + WIDTH + 3)
    signs = [(others(), "held by others"), (free(), "empty")]
    if any(pool.refcount(block_id) > 1 for block_id in one.block_ids):
        signs.insert(0, (shared(strong(left), left), "several holders"))
    sheet.legend(LEFT, bottom + 14, signs)
    return render(sheet.finish(bottom + 22))


def _top(block_id: int) -> float:
    return TOP + block_id * ROW


def _draw_words(
    sheet: Sheet,
    pool: BlockPool,
    name: str,
    table: BlockTable,
    words: Sequence[str],
    drawn: Collection[int],
) -> None:
    """The slots that a table has filled, but for blocks that are drawn already."""
    size = pool.block_size
    for entry, block_id in enumerate(table.block_ids):
        if block_id in drawn:
            continue
        here = list(words[entry * size : (entry + 1) * size])
        tone = strong(name)
        if pool.refcount(block_id) > 1:
            tone = shared(tone, name)
        widths, tones = [WIDTH / size] * len(here), [tone] * len(here)
        sheet.cells(LEFT, _top(block_id), widths, BLOCK, tones, here)


def _draw_table(
    sheet: Sheet, name: str, table: BlockTable, bottom: float, edge: float, end: float
) -> None:
    """A table at the left or right edge, and arrows that end at the pool."""
    side = 1 if edge == 0 else -1  # away from the edge of the sheet
    align = {"ha": "left" if side > 0 else "right"}
    y = (TOP + bottom - STEP * len(table.block_ids)) / 2
    sheet.write(edge, y - 16, f"{name}'s table", PART, weight="bold", **align)
    inner = edge + side * (52 + ENTRY)
    for entry, block_id in enumerate(table.block_ids):
        middle = y + BLOCK / 2
        remark = {"color": sheet.look.quiet, **align}
        sheet.write(edge, middle, f"entry {entry}", **remark)
        sheet.cells(
            min(inner, inner - side * ENTRY),
            y,
            [ENTRY],
            BLOCK,
            [soft(name)],
            [str(block_id)],
        )
        to = end, _top(block_id) + BLOCK / 2
        sheet.arrow((inner + side * 2, middle), to, line_colour(name))
        y += STEP
