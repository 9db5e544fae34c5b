"""Lab: K of a head in two layouts, and the stretches in which memory gives it."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.lab.measure.stretches import runs_of_k, stretches_for_k
from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import PART, SPAN, Sheet, counted, width_of
from minipaged.lab.plots.tones import free, soft, strong

LEFT, BETWEEN = 124.0, 34.0  # pixels beside the panels, and between the two layouts
PANEL = (SPAN - LEFT - BETWEEN) / 2
MORE = 22.0  # of a panel, for the sign that it goes on
FRAME = 1.4  # pixels from a stretch to its frame
MEASURE = 14.0  # from a panel to what says how long its stretches are
HEAD, ABOVE, HIGH, BELOW = 46.0, 22.0, 160.0, 44.0  # above all; of a panel, and around
LAYOUTS = {  # is K turned round? its shape, and what lies side by side
    False: ("[slots, heads, DIM]", "side by side →: a slot's numbers"),
    True: ("[heads, DIM, slots]", "side by side ↓: all first numbers, then second"),
}


def plot_layouts(
    title: str,
    block_sizes: Sequence[int] = (16, 1),
    tile: int = 64,
    dim: int = 128,
    stretch: int = 32,
) -> Figure:
    """A row for each block size, a panel for each layout of K of a head.

    A panel has a slot in each line and a number in each column: as many slots as a
    stretch has numbers, of which the first are a block's, and as many numbers. It is
    cut into stretches along the lines, or along the columns if K is turned round. What
    comes for a whole tile is counted.

    tile: positions. dim: numbers of a slot. stretch: numbers of two bytes that memory
    gives at least.
    """
    sheet, y = Sheet(title), HEAD
    _draw_head(sheet)
    _measure(sheet, _left_of(True) - MEASURE, y + ABOVE, stretch)
    for block_size in block_sizes:
        _draw_slots(sheet, y + ABOVE, block_size, stretch)
        for is_turned in LAYOUTS:
            x = _left_of(is_turned)
            _draw_words(sheet, x, y, block_size, is_turned, (tile, dim, stretch))
            _draw_panel(sheet, x, y + ABOVE, block_size, is_turned, stretch)
            if dim > stretch:
                middle = x + PANEL - MORE / 2 + 4, y + ABOVE + HIGH / 2
                sheet.write(*middle, "…", PART, ha="center")
        y += ABOVE + HIGH + BELOW
    signs = [(strong(0), "K of the block"), (soft(0), "comes with it, in vain")]
    signs += [(free(), "a stretch that stays")]
    x = sheet.legend(0, y, signs)
    sheet.box(x, y - 6, 18, 12, rim=sheet.look.ink, linewidth=1.6)
    said = f"one stretch: {2 * stretch} bytes"
    sheet.write(x + 24, y, said, color=sheet.look.quiet)
    sheet.finish(y + 8)
    return sheet.figure


def _left_of(is_turned: bool) -> float:
    return LEFT + (PANEL + BETWEEN) * is_turned


def _draw_head(sheet: Sheet) -> None:
    """What lines and columns are; above each layout, what lies side by side."""
    quiet = {"color": sheet.look.quiet}
    sheet.write(0, 27, "→ numbers", PART)
    for is_turned, (shape, remark) in LAYOUTS.items():
        x = _left_of(is_turned)
        sheet.write(x, 8, shape, PART, weight="bold", family="monospace")
        sheet.write(x, 27, remark, **quiet)


def _measure(sheet: Sheet, x: float, y: float, stretch: int) -> None:
    """How long a stretch is, beside one that has a number of each slot."""
    said = f"{stretch} numbers"
    middle, half = y + HIGH / 2, width_of(said) / 2 + 6
    for end, inner in ((y, middle - half), (y + HIGH, middle + half)):
        sheet.line((x - 5, end), (x + 5, end))
        sheet.arrow((x, inner), (x, end), is_upright=True)
    sheet.write(x, middle, said, ha="center", rotation=90.0)


def _draw_slots(sheet: Sheet, y: float, block_size: int, stretch: int) -> None:
    """Beside the panels: which slots are the block's, and whose all are."""
    style = {"ha": "center", "rotation": 90.0, "color": sheet.look.quiet}
    sheet.write(LEFT - 12, y + HIGH / 2, "← slots of the pool", **style)
    inside, slot = min(block_size, stretch), HIGH / stretch
    said = counted(block_size, "slot")
    if inside < block_size:
        said = f"{inside} of {said}"
    sheet.label(y, inside * slot, "a block", said)
    if inside < stretch:
        rest = stretch - inside
        said = counted(rest, "slot")
        sheet.label(y + inside * slot, rest * slot, "other blocks", said)


def _draw_words(
    sheet: Sheet,
    x: float,
    y: float,
    block_size: int,
    is_turned: bool,
    sizes: tuple[int, int, int],
) -> None:
    """What comes for a tile, why, and how much of a stretch is used."""
    tile, dim, stretch = sizes
    runs, length = runs_of_k(block_size, is_turned, tile, dim)
    total = stretches_for_k(block_size, is_turned, *sizes)
    used = min(length, stretch)
    colour = GOOD if used == stretch else BAD
    sheet.write(x, y + 8, f"{total:,} stretches", PART, color=colour)
    said = f"all {used} used" if used == stretch else f"{used} of {stretch} used"
    sheet.write(x + PANEL - MORE, y + 8, said, PART, ha="right", color=colour)
    parts = runs // dim if is_turned else tile
    things = counted(parts, "block" if is_turned else "slot")
    said = f"a tile of {tile}: {things} × {total // parts:,} stretches"
    sheet.write(x, y + ABOVE + HIGH + 13, said, color=sheet.look.quiet)


def _draw_panel(
    sheet: Sheet, x: float, y: float, block_size: int, is_turned: bool, stretch: int
) -> None:
    """The stretches, each with what of it is used; a frame around the first."""
    inside = min(block_size, stretch)
    number, slot = (PANEL - MORE) / stretch, HIGH / stretch
    wide, high = stretch * number, inside * slot
    if inside < stretch and not is_turned:
        sheet.box(x, y + high, wide, HIGH - high, free(), sheet.look.rim)
    for at in range(stretch):
        left, top = x + at * number, y + at * slot
        if is_turned:
            sheet.box(left + 0.5, y, number - 1, high, strong(0))
            if inside < stretch:
                sheet.box(left + 0.5, y + high, number - 1, HIGH - high, soft(0))
        elif at < inside:
            sheet.box(x, top + 0.5, wide, slot - 1, strong(0))
        else:
            sheet.line((x, top), (x + wide, top), linewidth=0.5)
    first = (number, HIGH) if is_turned else (wide, slot)
    area = x - FRAME, y - FRAME, first[0] + 2 * FRAME, first[1] + 2 * FRAME
    sheet.box(*area, rim=sheet.look.ink, linewidth=1.6)
