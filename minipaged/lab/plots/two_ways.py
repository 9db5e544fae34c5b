"""Lab: two ways to read a sequence's blocks: gather them all, or one after another."""

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import PART, SPAN, Sheet, fit
from minipaged.lab.plots.tones import Tone, free, others, strong, tint
from minipaged.memory.block_table import BlockTable

BLOCK, HEIGHT = 66.0, 26.0  # pixels of a block
ASIDE = 40.0  # pixels to the left of the copy
ROW = 78.0  # from one row of blocks to the next
MOST = 16  # blocks in a row; of a larger pool, only the sequence's own are drawn


def plot_two_ways(table: BlockTable, at: int, title: str, name: str = "A") -> Figure:
    """Left, a copy of the whole context; right, entry `at` of the table is being read.

    The pool and its blocks are those of the table.
    """
    sheet = Sheet(title)
    half = SPAN / 2 - 26
    right = SPAN / 2 + 26
    sheet.line((SPAN / 2, 0), (SPAN / 2, 2 * ROW + 80), alpha=0.5)
    num_blocks = len(table.block_ids)
    for x, part, remark, colour in (
        (0.0, "Gathered", f"a copy of {num_blocks} blocks", BAD),
        (right, "Streamed", "one block at a time", GOOD),
    ):
        sheet.write(x, 8, part, PART)
        sheet.write(x + half, 8, remark, PART, ha="right", color=colour)
    _draw_gathered(sheet, table, 0.0, half, name)
    _draw_streamed(sheet, table, at, right, half, name)
    y = 2 * ROW + 104
    signs = [(tint(name), f"{name}'s K and V in the pool")]
    if table.pool.num_free + len(table.block_ids) < table.pool.num_blocks:
        signs.append((others(), "of others"))
    signs += [(strong(name), "the same numbers, a second time")]
    sheet.legend(0, y, signs)
    sheet.finish(y + 10)
    return sheet.figure


def _draw_pool(
    sheet: Sheet, table: BlockTable, x: float, width: float, name: str
) -> dict[int, float]:
    """The pool's blocks in a row; returns the middle of each of the table's."""
    pool = table.pool
    shown = list(range(pool.num_blocks))
    if pool.num_blocks > MOST:
        shown = sorted(table.block_ids)
    gap = 5.0 if len(shown) <= 8 else 3.0
    cell = min(BLOCK, (width + gap) / len(shown) - gap)
    middles = {}
    sheet.write(x, 38, "the pool", color=sheet.look.quiet)
    for place, block_id in enumerate(shown):
        left, tone = x + place * (cell + gap), free()
        if block_id in table.block_ids:
            tone, middles[block_id] = tint(name), left + cell / 2
        elif pool.refcount(block_id):
            tone = others()
        if block_id in middles:
            sheet.cells(left, 50, [cell], HEIGHT, [tone], [str(block_id)])
        else:
            sheet.box(left, 50, cell, HEIGHT, tone, sheet.look.rim)
    return middles


def _draw_gathered(
    sheet: Sheet, table: BlockTable, x: float, width: float, name: str
) -> None:
    """All blocks go into one piece, and attention reads the piece."""
    middles = _draw_pool(sheet, table, x, width, name)
    y, tone = 50 + ROW, strong(name)
    cell = min(BLOCK, (width - 2 * ASIDE) / len(table.block_ids))
    left = x + (width - cell * len(table.block_ids)) / 2
    for entry, block_id in enumerate(table.block_ids):
        start = middles[block_id], 50 + HEIGHT + 2
        sheet.arrow(start, (left + (entry + 0.5) * cell, y - 2), is_upright=True)
    count = len(table.block_ids)
    words = [str(block_id) for block_id in table.block_ids]
    sheet.cells(left, y, [cell] * count, HEIGHT, [tone] * count, words)
    sheet.write(x, y - 12, "read", color=sheet.look.quiet)
    sheet.write(x, y + HEIGHT / 2, "write", color=sheet.look.quiet)
    sheet.write(x, y + HEIGHT + 24, "read again", color=sheet.look.quiet)
    _draw_attention(sheet, (left + cell * count / 2, y + HEIGHT), x, width)


def _draw_streamed(
    sheet: Sheet, table: BlockTable, at: int, x: float, width: float, name: str
) -> None:
    """One block goes to attention, which keeps three numbers of those before."""
    middles = _draw_pool(sheet, table, x, width, name)
    block_id, y = table.block_ids[at], 50 + ROW
    left, tone = x + width / 2 - BLOCK / 2, strong(name)
    start = middles[block_id], 50 + HEIGHT + 2
    sheet.arrow(start, (x + width / 2, y - 2), is_upright=True, is_followed=True)
    sheet.cells(left, y, [BLOCK], HEIGHT, [tone], [str(block_id)])
    done = ", ".join(map(str, table.block_ids[:at]))
    if done:
        said, size = fit(f"done: {done}", (width - BLOCK) / 2 - 8)
        sheet.write(x, y + HEIGHT / 2, said, size, color=sheet.look.quiet)
    if rest := ", ".join(map(str, table.block_ids[at + 1 :])):
        place = {"ha": "right", "color": sheet.look.quiet}
        said, size = fit(f"to come: {rest}", (width - BLOCK) / 2 - 8)
        sheet.write(x + width, y + HEIGHT / 2, said, size, **place)
    _draw_attention(sheet, (x + width / 2, y + HEIGHT), x, width, "attention: m, s, o")


def _draw_attention(
    sheet: Sheet,
    start: tuple[float, float],
    x: float,
    width: float,
    said: str = "attention",
) -> None:
    y, middle = 50 + 2 * ROW - 8, x + width / 2
    sheet.arrow((start[0], start[1] + 2), (middle, y - 2), is_upright=True)
    tone = Tone("none")
    sheet.box(middle - 90, y, 180, HEIGHT + 4, tone, sheet.look.rim)
    sheet.write(middle, y + HEIGHT / 2 + 2, said, PART, ha="center")
