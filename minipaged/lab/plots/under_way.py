"""Lab: how much launches have under way, how fast they read, and what limits them."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import line_colour
from minipaged.lab.plots.scales import Scale, scale_of
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import free

LEFT, HIGH = 56.0, 170.0  # pixels: beside a field; from its ceiling to its axis
HEAD, SPARE = 36.0, 24.0  # above a field: for its batch's name, for its ceiling's
STRIP = 22.0  # of the row that says what limits
REGIONS = "latency limits", "either", "other causes"
XLABEL = "MB of K and V under way at a time, on the whole GPU"
MARKERS = "v", "s"  # of faults
DOTTED, DASHED = (0, (1, 2)), (0, (5, 2))
APART, MOST = 4.6, 5  # pixels from sign to sign; so far one is moved aside at most
NEAR = 0.8  # of the ceiling: fast
Place = tuple[float, float]
Point = tuple[float, float, Sequence[str]]  # MB, GB/s, faults


def plot_under_way(
    points: Mapping[str, Sequence[Point]],
    ceiling: float,
    title: str,
    latency: float = 1.0,
    remarks: Mapping[str, str] | None = None,
) -> Figure:
    """A field for each batch, in it all of its launches; both axes are logarithmic.

    The level line is the ceiling. The rising one is Little's law, with the least
    latency that any of these launches has. Dotted lines are where the ceiling would be
    reached in `latency`, and at twice that; above them stands what limits.

    points: by batch, for each launch MB, GB/s, and the names of the faults that it has;
    at most two are told apart. ceiling: GB/s at most. latency: microseconds from asking
    for a byte until it is there. remarks: by batch, words beside its name.
    """
    drawing = _UnderWay(points, ceiling, latency, Sheet(title))
    return drawing.draw(remarks or {})


class _UnderWay:
    """Fields below each other with the same axes; marks run through all."""

    def __init__(
        self,
        points: Mapping[str, Sequence[Point]],
        ceiling: float,
        latency: float,
        sheet: Sheet,
    ):
        self.points, self.ceiling, self.sheet = points, ceiling, sheet
        found = [point for batch in points.values() for point in batch]
        self.faults = list(dict.fromkeys(name for *_, has in found for name in has))
        self.latency = latency
        # 1 MB in a microsecond is 1,000 GB/s.
        self.least = min(1000 * megabytes / rate for megabytes, rate, _ in found)
        self.rates = [*(rate for _, rate, _ in found), ceiling]
        enough = ceiling * latency / 1000
        self.enough = enough, 2 * enough
        reached = [*(megabytes for megabytes, *_ in found), *self.enough]
        self.across = scale_of(reached, LEFT, SPAN - LEFT, True)
        self.ends = LEFT, *map(self.across.x, self.enough), SPAN  # of the regions

    def draw(self, remarks: Mapping[str, str]) -> Figure:
        """The signs, what limits, the fields, and their axis."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        self._draw_signs(8)
        y = self._draw_regions(36)
        for at, (name, found) in enumerate(self.points.items()):
            said = f"{len(found)} launches"
            if name in remarks:
                said += f": {remarks[name]}"
            sheet.write(LEFT, y + HEAD / 2, name, PART, weight="bold")
            x = LEFT + width_of(name, PART, True) + 12
            sheet.write(x, y + HEAD / 2, said, **quiet)
            sheet.write(LEFT - 8, y + HEAD / 2, "GB/s", ha="right", **quiet)
            y += HEAD
            self._draw_field(y, found, is_first=at == 0)
            y += SPARE + HIGH
        for tick in self.across.ticks:
            x = min(self.across.x(tick), SPAN - width_of(f"{tick:,g}") / 2)
            sheet.write(x, y + 12, f"{tick:,g}", ha="center", **quiet)
        sheet.write(LEFT, y + 34, XLABEL)
        sheet.finish(y + 44)
        return sheet.figure

    def _draw_signs(self, y: float) -> None:
        """What the marks of the launches mean."""
        sheet, x, said = self.sheet, 0.0, "each sign is a launch:"
        sheet.write(x, y, said, color=sheet.look.quiet)
        x += width_of(said) + 18
        for fault in (None, *self.faults) if self.faults else ():
            words = fault or "without these faults:"
            self._draw_signs_at([(x + 5, y)], fault)
            sheet.write(x + 16, y, words, color=sheet.look.quiet)
            x += 16 + width_of(words) + 22

    def _draw_regions(self, y: float) -> float:
        """How much is enough, and what limits with less and with more; where it ends.

        With the latency, and with twice as much, as a tile that waits is counted, too.
        """
        sheet = self.sheet
        _, first, second, _ = self.ends
        said = f"ceiling × {self.latency:g} µs = {self.enough[0]:.1f} MB"
        sheet.write(first + 1, y, said, ha="right")
        said = f"twice that: {self.enough[1]:.1f} MB"
        sheet.write(min(second - 1, SPAN - width_of(said)), y, said)
        y += 14
        for (left, right), words in zip(pairwise(self.ends), REGIONS, strict=True):
            sheet.box(left, y, right - left, STRIP, free(), sheet.look.rim)
            if width_of(words) < right - left - 4:
                sheet.write((left + right) / 2, y + STRIP / 2, words, ha="center")
        return y + STRIP

    def _draw_field(self, top: float, found: Sequence[Point], is_first: bool) -> None:
        """The lines, over them the launches of a batch, and how many are fast."""
        sheet, level, bottom = self.sheet, top + SPARE, top + SPARE + HIGH
        limits = min(self.rates) / 1.2, self.ceiling
        up = scale_of(self.rates, bottom, -HIGH, True, limits)
        self._draw_grid(up, level, bottom)
        ink = {"color": sheet.look.ink, "linewidth": 1.6, "zorder": 1}
        sheet.line((LEFT, level), (SPAN, level), **ink)
        sheet.write(LEFT - 8, level, f"{self.ceiling:,.0f}", ha="right")
        start = max(self.across.lowest, up.lowest * self.least / 1000)
        ends = start, self.ceiling * self.least / 1000
        law = [(self.across.x(x), up.x(1000 * x / self.least)) for x in ends]
        sheet.line(*law, linestyle=DASHED, **ink)
        for x in map(self.across.x, self.enough):
            sheet.line((x, top), (x, bottom), linestyle=DOTTED, linewidth=1.6, zorder=1)
        if is_first:
            said = "no launch is here: a byte", f"takes {self.least:.2g} µs or more"
            for row, words in enumerate(said):
                y = level + 18 + 17 * row
                sheet.write(LEFT + 6, y, words, color=sheet.look.quiet)
        self._count_fast(level - 12, found)
        places = [(self.across.x(point[0]), up.x(point[1])) for point in found]
        self._draw_launches(_side_by_side(places), [point[2] for point in found])

    def _draw_grid(self, up: Scale, top: float, bottom: float) -> None:
        """Thin lines at round numbers; those of GB/s at the left."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        for x in map(self.across.x, self.across.ticks):
            sheet.line((x, top), (x, bottom), alpha=0.35, zorder=0)
        for tick in (tick for tick in up.ticks if tick < NEAR * self.ceiling):
            sheet.line((LEFT, up.x(tick)), (SPAN, up.x(tick)), alpha=0.35, zorder=0)
            sheet.write(LEFT - 8, up.x(tick), f"{tick:,g}", ha="right", **quiet)
        sheet.line((LEFT, bottom), (SPAN, bottom), zorder=1)

    def _count_fast(self, y: float, found: Sequence[Point]) -> None:
        """In each region, how many of those without a fault come near the ceiling."""
        sheet, (first, second) = self.sheet, self.enough
        sheet.write(LEFT + 6, y, "the read ceiling")
        parts = (0.0, first), (first, second), (second, math.inf)
        for (low, high), (left, right) in zip(parts, pairwise(self.ends), strict=True):
            rates = [rate for x, rate, has in found if low <= x < high and not has]
            near = sum(rate >= NEAR * self.ceiling for rate in rates)
            words, middle = f"{near} of {len(rates)}", (left + right) / 2
            if left == LEFT:
                words = f"reach {100 * NEAR:.0f} % of it: {words}"
                middle = right - 8 - width_of(words) / 2
            start = middle - width_of(words) / 2
            self._draw_signs_at([(start - 8, y)], None)
            sheet.write(start, y, words)

    def _draw_launches(
        self, places: Sequence[Place], faults: Sequence[Sequence[str]]
    ) -> None:
        """Each with the signs of its faults; with none, a dot."""
        both = list(zip(places, faults, strict=True))
        for fault in self.faults:
            self._draw_signs_at([place for place, has in both if fault in has], fault)
        self._draw_signs_at([place for place, has in both if not has], None)

    def _draw_signs_at(self, places: Sequence[Place], fault: str | None) -> None:
        """Strong dots without a fault, pale outlines with one."""
        style = {"marker": "o", "markersize": 4.0, "markeredgewidth": 0, "zorder": 3}
        style |= {"color": line_colour(0)}
        if fault is not None:
            style |= {"marker": MARKERS[self.faults.index(fault)], "zorder": 2}
            style |= {"markerfacecolor": "none", "markeredgewidth": 0.9}
            style |= {"color": line_colour(1), "markersize": 4.4}
        xs, ys = ([place[n] for place in places] for n in (0, 1))
        self.sheet.axes.plot(xs, ys, linestyle="none", **style)


def _side_by_side(places: Sequence[Place]) -> list[Place]:
    """Moved aside, as little as needed, where they would hide others.

    The highest ones stay where they are. Where all is full, some are hidden.
    """
    steps = sorted(range(-MOST, MOST + 1), key=lambda step: (abs(step), -step))
    moved: dict[int, Place] = {}
    for index in sorted(range(len(places)), key=lambda index: places[index][1]):
        x, y = places[index]
        near = [place for place in moved.values() if y - place[1] < APART]
        tried = [(x + step, y) for step in steps]
        free = (one for one in tried if all(math.dist(one, n) >= APART for n in near))
        moved[index] = next(free, tried[index % len(tried)])
    return [moved[index] for index in range(len(places))]
