"""Lab: blocks that leave the pool, lie elsewhere, and come back to other places."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import (
    NOTHING,
    Tone,
    behind_words,
    free,
    soft,
    strong,
)
from minipaged.lab.plots.render import render

HEIGHT, ROW, LEFT = 30.0, 92.0, 118.0  # pixels of a block, from row to row, beside
Held = Mapping[str, Sequence[int]]  # block ids by name


def plot_swap(
    num_blocks: int,
    before: Held,
    rows: Sequence[int],
    after: Held,
    name: str,
    title: str,
    arrive: Sequence[int] = (),
) -> Figure:
    """The pool when `name` is preempted, the swap space, the pool when it is back.

    before, after: the block ids of each table. rows: where the blocks of `name` lie in
    the swap space, in the order of its table. Its blocks are strong, numbered as in its
    table, and followed by arrows; those of the others are soft. arrive: the blocks to
    which K and V are copied, if not to those of its table; they have an orange rim.
    """
    sheet = Sheet(title)
    width = (SPAN - LEFT) / num_blocks
    tops = 22.0, 22.0 + ROW, 22.0 + 2 * ROW
    _draw_pool(sheet, before, num_blocks, tops[0], width, name)
    sheet.label(tops[0], HEIGHT, "pool", f"{name} must go")
    sheet.label(tops[1], HEIGHT, "CPU memory", f"{name} waits")
    sheet.label(tops[2], HEIGHT, "pool", f"{name} is back")
    for row in range(max(rows) + 1):
        index = rows.index(row) if row in rows else None
        tone: Tone = free() if index is None else strong(name)
        words = [] if index is None else [f"{name}{index}"]
        sheet.cells(LEFT + row * width, tops[1], [width], HEIGHT, [tone], words)
    _draw_pool(sheet, after, num_blocks, tops[2], width, name)
    for block in arrive:
        x = LEFT + block * width
        sheet.box(x + 1.5, tops[2], width - 3, HEIGHT, rim=BAD, linewidth=2.6)
    colour, ends = (BAD, arrive) if arrive else (None, after[name])
    for index, row in enumerate(rows):
        middle = LEFT + (row + 0.5) * width
        start = LEFT + (before[name][index] + 0.5) * width, tops[0] + HEIGHT + 2
        sheet.arrow(start, (middle, tops[1] - 2), is_followed=True, is_upright=True)
        end = LEFT + (ends[index] + 0.5) * width, tops[2] - 14
        start = middle, tops[1] + HEIGHT + 2
        sheet.arrow(start, end, colour, is_followed=True, is_upright=True)
    y = tops[2] + HEIGHT + 26
    other = next((one for one in before if one != name), name)
    signs = [(strong(name), f"{name}'s blocks, {name}0 the first of its table")]
    signs += [(behind_words(soft(other)), "of others"), (free(), "free")]
    x = sheet.legend(0, y, signs)
    if arrive:
        said = [(NOTHING, f"{name}'s K and V arrive here")]
        sheet.legend(x, y, said, rim=BAD, linewidth=2.6)
    return render(sheet.finish(y + 10))


def _draw_pool(
    sheet: Sheet, tables: Held, num_blocks: int, y: float, width: float, name: str
) -> None:
    """A row of all blocks, over each its id; in it whose it is."""
    owners = {
        block: (who, index)
        for who, blocks in tables.items()
        for index, block in enumerate(blocks)
    }
    for block in range(num_blocks):
        x = LEFT + block * width
        style = {"ha": "center", "color": sheet.look.quiet}
        sheet.write(x + width / 2, y - 9, str(block), **style)
        who, index = owners.get(block, ("", 0))
        tone = (strong(who) if who == name else soft(who)) if who else free()
        words = [f"{who}{index}" if who == name else who] if who else []
        sheet.cells(x, y, [width], HEIGHT, [tone], words)
        if not who:
            sheet.box(x + 0.5, y, width - 1, HEIGHT, rim=sheet.look.rim)
