"""Lab: K of a head in two layouts, and the stretches in which memory gives it."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted, width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.measure.stretches import runs_of_k, stretches_for_k
from minipaged.lab.plots.render import render

WIDE, BETWEEN, HIGH = 128.0, 20.0, 30.0  # pixels: of a stretch; between runs; of both
ABOVE, BELOW = 60.0, 54.0  # from a layout's top to its strip; from there to its sums
LINE, NEXT = 21.0, 20.0  # from sum to sum; and on to the next layout
GAP, HAIR, FRAME = 4.0, 1.0, 1.4  # between stretches, numbers; from one to its frame
NAMES = "first", "second", "third", "fourth", "fifth"
LAYOUTS = {  # is K turned round? its shape, and what lies side by side
    False: (
        "[slots, heads, DIM]",
        "all numbers of a slot side by side, head after head",
    ),
    True: (
        "[heads, DIM, slots]",
        "of a head: the first numbers of all slots, then the second ones",
    ),
}


def plot_layouts(
    title: str,
    block_sizes: Sequence[int] = (16, 1),
    tile: int = 64,
    dim: int = 128,
    stretch: int = 32,
) -> Figure:
    """A strip of memory for each layout: where K of a head lies, of one block.

    Memory gives whole stretches. What is needed of them is strong, the rest comes in
    vain; one of them is framed and measured. Below, for each block size, how many come
    for a tile.

    block_sizes: a block of the first is drawn. tile: positions. dim: numbers of a slot.
    stretch: numbers of two bytes that memory gives at least.
    """
    sheet, y, in_vain = Sheet(title), 0.0, list[str]()
    for is_turned in LAYOUTS:
        layouts = [_Layout(n, is_turned, tile, dim, stretch) for n in block_sizes]
        _draw_head(sheet, y, is_turned)
        y += ABOVE
        _draw_strip(sheet, y, layouts[0])
        _measure(sheet, y, layouts[0])
        y += HIGH + BELOW
        for layout in layouts:
            _write_sum(sheet, y, layout)
            y += LINE
        y += NEXT
        if layouts[0].run < stretch:
            in_vain.append("slots" if is_turned else "heads")
    signs = [(strong(0), f"K of a head, of a block of {block_sizes[0]}")]
    if in_vain:
        said = f"of other {' and '.join(in_vain)}: comes in vain"
        signs.append((soft(0), said))
    sheet.legend(0, y, [*signs, (free(), "not asked for")])
    return render(sheet.finish(y + 8))


class _Layout(NamedTuple):
    """How K of a head lies; what is needed of it lies in runs of numbers."""

    block_size: int
    is_turned: bool
    tile: int
    dim: int
    stretch: int

    @property
    def run(self) -> int:
        """Numbers of a run."""
        return runs_of_k(self.block_size, self.is_turned, self.tile, self.dim)[1]

    @property
    def num_runs(self) -> int:
        """Of a block: its slots, or the numbers that a slot has."""
        return self.dim if self.is_turned else min(self.block_size, self.tile)

    @property
    def num_stretches(self) -> int:
        """Of a run."""
        return -(-self.run // self.stretch)

    @property
    def verdict(self) -> tuple[str, str]:
        """How much of a stretch is used, and the colour for it."""
        if self.run < self.stretch:
            return f"{self.run} of {self.stretch} numbers used", BAD
        return f"all {self.stretch} numbers used", GOOD


def _draw_head(sheet: Sheet, y: float, is_turned: bool) -> None:
    """A layout's shape, and what lies side by side."""
    shape, remark = LAYOUTS[is_turned]
    sheet.write(0, y + 8, shape, PART, weight="bold", family="monospace")
    sheet.write(SPAN / 4, y + 8, remark, PART)
    sheet.write(SPAN, y + 8, "addresses →", ha="right", color=sheet.look.quiet)


def _measure(sheet: Sheet, y: float, layout: _Layout) -> None:
    """A frame around the first stretch; above it how long it is, and what is used."""
    said = f"one stretch, {2 * layout.stretch} bytes:"
    verdict, colour = layout.verdict
    sheet.write(0, y - 22, said, PART)
    sheet.write(width_of(said, PART) + 6, y - 22, verdict, PART, color=colour)
    sheet.line((0, y - 8), (WIDE, y - 8))
    for x in (0.0, WIDE):
        sheet.line((x, y - 12), (x, y - 4))
    area = -FRAME, y - FRAME, WIDE + 2 * FRAME, HIGH + 2 * FRAME
    sheet.box(*area, rim=sheet.look.ink, linewidth=1.6)


def _draw_strip(sheet: Sheet, y: float, layout: _Layout) -> None:
    """Memory from left to right: a block's runs, and what lies between them."""
    for name, (x, count) in zip(NAMES, _in_sight(layout), strict=False):
        for line, said in enumerate(_captions(layout, name)):
            sheet.write(x, y + HIGH + 13 + 15 * line, said, color=sheet.look.quiet)
        for at in range(count):
            _draw_stretch(sheet, x + at * (WIDE + GAP), y, layout)
        end = x + count * (WIDE + GAP) - GAP
        if count == layout.num_stretches:
            sheet.box(end, y, BETWEEN, HIGH, free(), sheet.look.rim)
        sheet.write(end + BETWEEN / 2, y + HIGH / 2, "…", PART, ha="center")


def _captions(layout: _Layout, name: str) -> tuple[str, str]:
    """Of a run: which it is, and what is needed of it."""
    if layout.is_turned:
        numbers = "numbers" if layout.run > 1 else "number"
        return f"{name} {numbers}", f"of {counted(layout.run, 'slot')}"
    return f"{name} slot:", f"a head's {layout.run} numbers"


def _in_sight(layout: _Layout) -> list[tuple[float, int]]:
    """Where runs begin, and how many of their stretches there is room for."""
    x, found = 0.0, list[tuple[float, int]]()
    while len(found) < min(layout.num_runs, len(NAMES)):
        room = int((SPAN - BETWEEN - x + GAP) / (WIDE + GAP))
        if room < 1:
            break
        found.append((x, min(room, layout.num_stretches)))
        x += found[-1][1] * (WIDE + GAP) - GAP + BETWEEN
    return found


def _draw_stretch(sheet: Sheet, x: float, y: float, layout: _Layout) -> None:
    """A box for each of its numbers; of a run that is shorter, the first are needed."""
    each = WIDE / layout.stretch
    for at in range(layout.stretch):
        tone = strong(0) if at < layout.run else soft(0)
        sheet.box(x + at * each, y, each - HAIR, HIGH, tone)


def _write_sum(sheet: Sheet, y: float, layout: _Layout) -> None:
    """How many stretches come for a tile, and what of each is used."""
    total, (verdict, colour) = stretches_for_k(*layout), layout.verdict
    blocks = -(-layout.tile // layout.block_size)
    things = (blocks, "block") if layout.is_turned else (layout.tile, "slot")
    each = total // things[0]
    said = f"{counted(*things)} × {each:,} stretch{'es' * (each != 1)} = {total:,}; "
    what = f"a tile of {layout.tile} in blocks of {layout.block_size}:"
    sheet.write(0, y, what, PART)
    sheet.write(SPAN / 4 + 20, y, said + verdict, PART, color=colour)
