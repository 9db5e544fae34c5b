"""Lab: the roof over launches: how fast each can be, by what it has under way."""

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from minipaged.draw.letters import width_of
from minipaged.draw.scales import Scale
from minipaged.draw.sheet import SPAN, Sheet

NEAR = 0.8  # of the ceiling: above it, no number has room below the ceiling's
DOTTED, DASHED = (0, (1, 2)), (0, (5, 2))
XLABEL = "MB of K and V under way at a time, on the whole GPU"
CEILING = "the read ceiling"
BOTH = "both axes are logarithmic"
Place = tuple[float, float]
Ends = tuple[float, float]


class Roof(NamedTuple):
    """A rising line, Little's law, up to a level one, the ceiling; both axes."""

    sheet: Sheet
    across: Scale  # of MB under way
    up: Scale  # of GB/s, up to the ceiling
    ceiling: float  # GB/s

    @property
    def level(self) -> float:
        """Where the ceiling is, in pixels."""
        return self.up.x(self.ceiling)

    @property
    def law(self) -> tuple[Place, Place]:
        """The ends of the rising line; 1 MB in a microsecond is 1,000 GB/s."""
        start = max(self.across.lowest, self.up.lowest / 1000)
        ends = start, self.ceiling / 1000
        low, high = ((self.across.x(x), self.up.x(1000 * x)) for x in ends)
        return low, high

    def height_of_law(self, x: float) -> float:
        """Where the rising line, or what goes on from it, is above a place."""
        (x0, y0), (x1, y1) = self.law
        return y0 + (x - x0) * (y1 - y0) / (x1 - x0)

    def draw_grid(self, words: Sequence[tuple[Ends, Ends]] = ()) -> None:
        """Thin lines at round numbers; those of GB/s at the left.

        words: areas that no line runs through, from x to x and from y to y.
        """
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        left, right = self.across.left, self.across.left + self.across.width
        thin = {"alpha": 0.35, "layer": 0}
        for x in map(self.across.x, self.across.ticks):
            for top, bottom in parts(x, (self.level, self.up.left), words):
                sheet.line((x, top), (x, bottom), **thin)
        turned = [(ys, xs) for xs, ys in words]
        for tick in (tick for tick in self.up.ticks if tick < NEAR * self.ceiling):
            y = self.up.x(tick)
            for start, end in parts(y, (left, right), turned):
                sheet.line((start, y), (end, y), **thin)
            sheet.write(left - 8, y, f"{tick:,g}", ha="right", **quiet)

    def draw(self) -> None:
        """Both lines; beside the level one, how many GB/s it is."""
        sheet, level = self.sheet, self.level
        left, right = self.across.left, self.across.left + self.across.width
        ink = {"color": sheet.look.ink, "linewidth": 1.6, "layer": 1}
        sheet.line((left, level), (right, level), **ink)
        sheet.write(left - 8, level, f"{self.ceiling:,.0f}", ha="right")
        sheet.line(*self.law, linestyle=DASHED, **ink)

    def name_law(self, share: float = 0.5, is_below: bool = False) -> None:
        """What the rising line is, beside a point at this share of it."""
        (x0, y0), (x1, y1) = self.law
        angle = math.degrees(math.atan2(y0 - y1, x1 - x0))
        style = {"rotation": angle, "ha": "center"}
        style |= {"va": "top" if is_below else "bottom", "color": self.sheet.look.quiet}
        x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
        y += 6 if is_below else -5
        self.sheet.write(x, y, "under way / 1 µs", **style)


def parts(at: float, ends: Ends, areas: Iterable[tuple[Ends, Ends]]) -> list[Ends]:
    """From where to where a line is drawn that leaves out the areas in its way."""
    cuts = sorted(along for (low, high), along in areas if low < at < high)
    places = [ends[0], *chain.from_iterable(cuts), ends[1]]
    pairs = zip(places[::2], places[1::2], strict=True)
    return [(start, end) for start, end in pairs if start < end]


def write_axis(sheet: Sheet, across: Scale, y: float) -> None:
    """The ticks' numbers, and below them what the axis is."""
    quiet = {"color": sheet.look.quiet}
    for tick in across.ticks:
        x = min(across.x(tick), SPAN - width_of(f"{tick:,g}") / 2)
        sheet.write(x, y, f"{tick:,g}", ha="center", **quiet)
    sheet.write(across.left, y + 22, XLABEL)
    sheet.write(SPAN, y + 22, BOTH, ha="right", **quiet)


def written(megabytes: float) -> str:
    """With as many digits as a reader needs."""
    return f"{megabytes:.1f}" if megabytes < 10 else f"{megabytes:,.0f}"
