"""Lab: two ways to read a sequence's blocks: gather them all, or one after another."""

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, fit, width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import (
    NOTHING,
    Tone,
    behind_words,
    free,
    others,
    soft,
    strong,
)
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable

BLOCK, HEIGHT = 66.0, 26.0  # pixels of a block
POOL = 64.0  # the upper edge of the pool's blocks
ASIDE = 40.0  # pixels to the left of the copy
ROW = 78.0  # from one row of blocks to the next
BOX = POOL + 2 * ROW - 24  # the upper edge of the box that says "attention"
WIDE, SUMMARY = 112.0, 94.0  # pixels of this box, and of the summary beside it
MOST = 16  # blocks in a row; of a larger pool, only the sequence's own are drawn


def plot_two_ways(table: BlockTable, at: int, title: str, name: str = "A") -> Figure:
    """Left, a copy of the whole context; right, entry `at` of the table is being read.

    Strong is what moves in this step: the copy, or the block that is read in place.

    The pool and its blocks are those of the table.
    """
    sheet = Sheet(title)
    half = SPAN / 2 - 26
    right = SPAN / 2 + 26
    sheet.line((SPAN / 2, 0), (SPAN / 2, BOX + HEIGHT + 26), alpha=0.5)
    num_blocks = len(table.block_ids)
    for x, part, remark, colour in (
        (0.0, "Gathered", f"a copy of {num_blocks} blocks", BAD),
        (right, "Streamed", "one block at a time", GOOD),
    ):
        sheet.write(x, 8, part, PART)
        sheet.write(x + half, 8, remark, PART, ha="right", color=colour)
    _draw_gathered(sheet, table, 0.0, half, name)
    _draw_streamed(sheet, table, at, right, half, name)
    y = BOX + HEIGHT + 52
    signs = [(soft(name), f"{name}'s K and V in the pool")]
    if table.pool.num_free + len(table.block_ids) < table.pool.num_blocks:
        signs.append((others(), "of others"))
    if table.pool.num_free and table.pool.num_blocks <= MOST:
        signs.append((free(), "free"))
    signs += [(strong(name), "left: the copy; right: what is read now")]
    sheet.legend(0, y, signs)
    return render(sheet.finish(y + 10))


def _draw_pool(
    sheet: Sheet,
    table: BlockTable,
    x: float,
    width: float,
    name: str,
    now: int | None = None,
) -> dict[int, float]:
    """The pool's blocks in a row; returns the middle of each of the table's.

    now: the block that is read. Their ids stand above them.
    """
    pool = table.pool
    shown = list(range(pool.num_blocks))
    if pool.num_blocks > MOST:
        shown = sorted(table.block_ids)
    gap = 5.0 if len(shown) <= 8 else 3.0
    cell = min(BLOCK, (width + gap) / len(shown) - gap)
    middles = {}
    quiet = {"color": sheet.look.quiet}
    sheet.write(x, 34, "the pool", **quiet)
    for place, block_id in enumerate(shown):
        left = x + place * (cell + gap)
        if block_id in table.block_ids:
            tone = strong(name) if block_id == now else soft(name)
            middles[block_id] = left + cell / 2
            sheet.box(left, POOL, cell, HEIGHT, tone, tone.line or "none")
            bold = {"weight": "bold"} if block_id == now else quiet
            said, size = fit(str(block_id), cell)
            sheet.write(middles[block_id], POOL - 10, said, size, ha="center", **bold)
        else:
            tone = others() if pool.refcount(block_id) else free()
            sheet.box(left, POOL, cell, HEIGHT, tone, sheet.look.rim)
    return middles


def _draw_gathered(
    sheet: Sheet, table: BlockTable, x: float, width: float, name: str
) -> None:
    """All blocks go into one piece, and attention reads the piece."""
    middles = _draw_pool(sheet, table, x, width, name)
    y, tone = POOL + ROW, strong(name)
    cell = min(BLOCK, (width - 2 * ASIDE) / len(table.block_ids))
    left = x + (width - cell * len(table.block_ids)) / 2
    for entry, block_id in enumerate(table.block_ids):
        start = middles[block_id], POOL + HEIGHT + 2
        sheet.arrow(start, (left + (entry + 0.5) * cell, y - 2), is_upright=True)
    count = len(table.block_ids)
    words = [str(block_id) for block_id in table.block_ids]
    sheet.cells(left, y, [cell] * count, HEIGHT, [tone] * count, words)
    quiet = {"color": sheet.look.quiet}  # words beside the first arrow's ends
    start, end = middles[table.block_ids[0]], left + cell / 2
    for place, height, word in (
        (start, POOL + HEIGHT + 12, "read"),
        (min(start, end), y - 12, "write"),
    ):
        has_room = place - x > width_of(word) + 8
        side = {"ha": "right" if has_room else "left"}
        sheet.write(place - 8 if has_room else place + 8, height, word, **side, **quiet)
    middle = x + width / 2
    sheet.write(middle + 10, y + HEIGHT + 11, "read again", **quiet)
    _draw_attention(sheet, (middle, y + HEIGHT), x, width)


def _draw_streamed(
    sheet: Sheet, table: BlockTable, at: int, x: float, width: float, name: str
) -> None:
    """Attention reads one block in place; of those before, it has a summary."""
    block_id = table.block_ids[at]
    middles = _draw_pool(sheet, table, x, width, name, block_id)
    start = middles[block_id], POOL + HEIGHT
    _draw_attention(sheet, start, x, width, is_followed=True)
    quiet = {"color": sheet.look.quiet}
    half, low, middle = width / 2, BOX + HEIGHT + 20, BOX + HEIGHT / 2 + 2
    side = 10 if start[0] < x + half else -10  # of the arrow, where it does not bend
    place = x + half + side, BOX - 18
    sheet.write(*place, "read", ha="left" if side > 0 else "right", **quiet)
    if done := ", ".join(map(str, table.block_ids[:at])):
        said, size = fit(f"read before: {done}; kept: a summary", 1.4 * half)
        sheet.write(x, low, said, size, **quiet)
        _draw_summary(sheet, x, "summary", behind_words(soft(name)))
        sheet.arrow((x + SUMMARY + 2, middle), (x + half - WIDE / 2 - 2, middle))
    _draw_summary(sheet, x + width - SUMMARY, "new summary", behind_words(soft(name)))
    start = x + half + WIDE / 2 + 2, middle
    sheet.arrow(start, (x + width - SUMMARY - 2, middle))
    if rest := ", ".join(map(str, table.block_ids[at + 1 :])):
        said, size = fit(f"to come: {rest}", 0.55 * half)
        sheet.write(x + width, low, said, size, ha="right", **quiet)


def _draw_summary(sheet: Sheet, x: float, said: str, tone: Tone) -> None:
    sheet.box(x, BOX, SUMMARY, HEIGHT + 4, tone)
    sheet.word(x, BOX, SUMMARY, HEIGHT + 4, said, tone)


def _draw_attention(
    sheet: Sheet,
    start: tuple[float, float],
    x: float,
    width: float,
    is_followed: bool = False,
) -> None:
    middle = x + width / 2
    end, style = (middle, BOX - 2), {"is_upright": True, "is_followed": is_followed}
    sheet.arrow((start[0], start[1] + 2), end, **style)
    sheet.box(middle - WIDE / 2, BOX, WIDE, HEIGHT + 4, NOTHING, sheet.look.rim)
    sheet.write(middle, BOX + HEIGHT / 2 + 2, "attention", PART, ha="center")
