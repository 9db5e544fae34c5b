"""Lab: K of a head in two layouts, and the stretches in which memory gives it."""

from collections.abc import Sequence
from typing import NamedTuple

from minipaged.draw.bands import Drawn
from minipaged.draw.letters import counted, width_of
from minipaged.draw.palette import BAD, GOOD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import NOTHING, free, soft, strong
from minipaged.lab.measure.stretches import (
    DIM,
    STRETCH,
    TILE,
    runs_of_k,
    stretches_for_k,
)
from minipaged.lab.plots.render import Figure, render

HIGH = 30.0  # pixels of a strip; as many stretches are drawn as there are names
NUMBER, HAIR = 3.0, 1.0  # pixels: of a number, and to the next one
NAMES = "first", "second", "third", "fourth", "fifth"
LAYOUTS = {  # is K transposed? its shape, and what lies side by side
    False: (
        "[slots, heads, DIM]",
        "all numbers of a slot side by side, head after head",
    ),
    True: (
        "[heads, DIM, slots]",
        "of a head: the first numbers of all slots, then the second ones",
    ),
}


def plot_layouts(title: str, block_sizes: Sequence[int] = (16, 1)) -> Figure:
    """A strip of memory for each layout: where K of a head lies, of one block.

    Memory gives whole stretches. What is needed of them is strong, the rest comes in
    vain; one of them is framed and measured. Below, for each block size, how many come
    for a tile.

    block_sizes: a block of the first is drawn.
    """
    picture = Picture(title)
    for is_turned, (shape, remark) in LAYOUTS.items():
        layouts = [_Layout(n, is_turned) for n in block_sizes]
        verdict, colour = layouts[0].verdict
        picture.headline(shape, remark, "addresses →")
        beside, quiet = layouts[0].side_by_side, theme().quiet
        one = (f"one stretch, {2 * STRETCH} bytes:", quiet), (verdict, colour)
        _add_words(picture, *one, (f"(side by side lie {beside})", quiet))
        _add_strip(picture, layouts[0])
        for layout in layouts:
            what = f"a tile of {TILE} in blocks of {layout.block_size}:"
            said = layout.total, layout.verdict[1]
            _add_words(picture, (what, quiet), said)
    signs = [(strong(0), f"K of a head, of a block of {block_sizes[0]}")]
    if block_sizes[0] < STRETCH:
        signs.append((soft(0), "of other slots: comes in vain"))
    picture.legend(*signs, (free(), "not asked for"))
    return render(picture.scene())


class _Layout(NamedTuple):
    """How K of a head lies; what is needed of it lies in runs of numbers."""

    block_size: int
    is_turned: bool

    @property
    def run(self) -> int:
        """Numbers of a run."""
        return runs_of_k(*self)[1]

    @property
    def num_runs(self) -> int:
        """Of a block: its slots, or the numbers that a slot has."""
        return DIM if self.is_turned else min(self.block_size, TILE)

    @property
    def num_stretches(self) -> int:
        """Of a run."""
        return -(-self.run // STRETCH)

    @property
    def verdict(self) -> tuple[str, str]:
        """How much of a stretch is used, and the colour for it."""
        if self.run < STRETCH:
            return f"{self.run} of {STRETCH} numbers used", BAD
        return f"all {STRETCH} numbers used", GOOD

    @property
    def total(self) -> str:
        """How many stretches come for a tile, and what of each is used."""
        total, blocks = stretches_for_k(*self), -(-TILE // self.block_size)
        things = (blocks, "block") if self.is_turned else (TILE, "slot")
        each = total // things[0]
        said = f"{counted(*things)} × {each:,} stretch{'es' * (each != 1)} = {total:,}"
        return f"{said}; {self.verdict[0]}"

    @property
    def side_by_side(self) -> str:
        """What a run consists of."""
        slots = f"a number each of {counted(self.run, 'slot')}"
        return slots if self.is_turned else f"a head's {self.run} numbers of a slot"


def _add_words(picture: Picture, *parts: tuple[str, str]) -> None:
    """A line of words, each part in its colour."""

    def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
        for words, colour in parts:
            sheet.write(x, y + 9, words, color=colour)
            x += width_of(words + " ")

    picture.add(Drawn(18.0, draw))


def _add_strip(picture: Picture, layout: _Layout) -> None:
    """Memory from left to right: a block's runs, and what lies between them."""
    cells, runs, left = list[Cell](), list[tuple[int, int]](), len(NAMES)
    while left and len(runs) < layout.num_runs:
        count = min(left, layout.num_stretches)
        needed = min(layout.run, STRETCH)
        one = [strong(0)] * needed + [soft(0)] * (STRETCH - needed)
        start = len(cells)
        for at in range(count):
            cells += [Cell(wide=1.0)] * bool(at) + [Cell("", tone) for tone in one]
        runs.append((start, len(cells)))
        is_whole = count == layout.num_stretches
        cells.append(Cell("…", free() if is_whole else NOTHING, 6.0))
        left -= count
    row = picture.lane(cells=cells, height=HIGH, gap=HAIR, unit=NUMBER)
    picture.frame(row[:STRETCH], theme().ink)
    for name, (start, stop) in zip(NAMES, runs, strict=False):
        things = "number" + "s" * (layout.run > 1) if layout.is_turned else "slot"
        picture.under(row[start:stop], f"{name} {things}")
