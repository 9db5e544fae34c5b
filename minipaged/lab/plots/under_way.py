"""Lab: how much launches have under way, how fast they read, and what limits them."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import line_colour
from minipaged.lab.plots.roof import CEILING, DOTTED, Place, Roof, write_axis, written
from minipaged.lab.plots.scales import scale_of
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of

LEFT, HIGH = 56.0, 186.0  # pixels: beside a field; from its ceiling to its axis
HEAD, WORDS = 34.0, 48.0  # above a field: for its batch's name, for what its marks say
COUNTS = 24.0  # inside it, above its axis: for how many are fast
FAULTY = "has another fault"
MOVED = "(moved aside where they would hide others)"
APART, MOST = 4.6, 5  # pixels from sign to sign; so far one is moved aside at most
NEAR = 0.8  # of the best's speed: fast
Point = tuple[float, float, Sequence[str]]  # MB, GB/s, faults


def plot_under_way(
    points: Mapping[str, Sequence[Point]],
    ceiling: float,
    title: str,
    latency: float = 1.0,
    best: tuple[str, float] | None = None,
) -> Figure:
    """A field for each batch, in it all of its launches; both axes are logarithmic.

    The level line is the ceiling. The rising one is Little's law: what is under way,
    over `latency`. Dotted lines are where both meet, and at twice as much; between
    them stands how many of the launches without a fault come near their batch's best.

    points: by batch, for each launch MB, GB/s, and the names of the faults that it has;
    those with any are small and grey. ceiling: GB/s at most. latency: microseconds from
    asking for a byte until it is there. best:
    a place that is marked above each field: what it is, and MB.
    """
    drawing = _UnderWay(points, ceiling, latency, best, Sheet(title))
    return drawing.draw()


class _UnderWay:
    """Fields below each other with the same axes; marks run through all."""

    def __init__(
        self,
        points: Mapping[str, Sequence[Point]],
        ceiling: float,
        latency: float,
        best: tuple[str, float] | None,
        sheet: Sheet,
    ):
        self.points, self.ceiling, self.sheet = points, ceiling, sheet
        self.latency, self.best = latency, best
        found = [point for batch in points.values() for point in batch]
        self.rates = [*(rate for _, rate, _ in found), ceiling]
        enough = ceiling * latency / 1000  # 1 MB in a microsecond is 1,000 GB/s
        self.enough = enough, 2 * enough
        reached = [*(megabytes for megabytes, *_ in found), *self.enough, enough / 2]
        self.across = scale_of(reached, LEFT, SPAN - LEFT, True)
        self.ends = LEFT, *map(self.across.x, self.enough), SPAN  # of the regions

    def draw(self) -> Figure:
        """The signs, the fields, above the first what the marks say, and the axis."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        self._draw_signs(8)
        y = 26.0
        for at, (name, found) in enumerate(self.points.items()):
            said = f"{len(found)} launches"
            sheet.write(LEFT, y + HEAD / 2, name, PART, weight="bold")
            x = LEFT + width_of(name, PART, True) + 12
            sheet.write(x, y + HEAD / 2, said, **quiet)
            y += HEAD
            if at == 0:
                self._say_marks(y)
                y += WORDS
            sheet.write(LEFT - 8, y - 16, "GB/s", ha="right", **quiet)
            self._draw_field(y, found, is_first=at == 0)
            y += HIGH + 8
        write_axis(sheet, self.across, y + 4)
        sheet.finish(y + 36)
        return sheet.figure

    def _draw_signs(self, y: float) -> None:
        """What the marks of the launches mean, and that some are moved aside."""
        sheet, x, said = self.sheet, 0.0, "each sign is a launch:"
        sheet.write(x, y, said, color=sheet.look.quiet)
        x += width_of(said) + 18
        if any(has for batch in self.points.values() for *_, has in batch):
            for is_faulty, words in ((False, "has no other fault"), (True, FAULTY)):
                self._draw_signs_at([(x + 5, y)], is_faulty)
                sheet.write(x + 16, y, words, color=sheet.look.quiet)
                x += 16 + width_of(words) + 22
        sheet.write(x, y, MOVED, color=sheet.look.quiet)

    def _say_marks(self, y: float) -> None:
        """Where the ceiling comes within reach, twice as much, and the best place."""
        enough, twice = self.enough
        said = f"{written(enough)} MB: with less,", "the ceiling is hardly reached"
        self._say(y, self.ends[1], said, is_left=True)
        self._say(y, self.ends[2], (f"{written(twice)} MB:", "twice that"))
        if self.best:
            words, megabytes = self.best
            x = self.across.x(megabytes)
            self._say(y, x, (f"{written(megabytes)} MB:", words))

    def _say(
        self, y: float, x: float, said: Sequence[str], is_left: bool = False
    ) -> None:
        """Two lines beside a mark, and the mark as high as they are."""
        ha = "right" if is_left else "left"
        for row, words in enumerate(said):
            at = x + (-7 if is_left else 7)
            self.sheet.write(at, y + 8 + 17 * row, words, ha=ha)
        style = {"linestyle": DOTTED, "linewidth": 1.6, "zorder": 1}
        self.sheet.line((x, y), (x, y + WORDS), **style)

    def _draw_field(self, level: float, found: Sequence[Point], is_first: bool) -> None:
        """The lines, over them the launches of a batch, and how many are fast."""
        sheet, bottom = self.sheet, level + HIGH
        limits = min(self.rates) / 1.05, self.ceiling
        floor = bottom - COUNTS
        up = scale_of(self.rates, floor, level - floor, True, limits)
        roof = Roof(sheet, self.across, up, self.ceiling, self.latency)
        roof.draw_grid()
        sheet.line((LEFT, bottom), (SPAN, bottom), zorder=1)
        roof.draw()
        for x in map(self.across.x, self.enough):
            style = {"linestyle": DOTTED, "linewidth": 1.6, "zorder": 1}
            sheet.line((x, level), (x, bottom), **style)
        if self.best:
            x, look = self.across.x(self.best[1]), {"color": sheet.look.ink}
            sheet.axes.plot([x], [level - 5], "v", markersize=7, **look)
        if is_first:
            sheet.write(LEFT + 6, level + 13, CEILING, color=sheet.look.quiet)
            roof.name_law()
        self._count_fast(bottom - COUNTS / 2, found)
        places = [(self.across.x(point[0]), up.x(point[1])) for point in found]
        self._draw_launches(_side_by_side(places), [point[2] for point in found])

    def _count_fast(self, y: float, found: Sequence[Point]) -> None:
        """In each region, how many of those without a fault come near the best."""
        sheet, (first, second) = self.sheet, self.enough
        best = max((rate for _, rate, _ in found), default=0.0)
        parts = (0.0, first), (first, second), (second, math.inf)
        regions = list(pairwise(self.ends))
        widest = max(regions, key=lambda region: region[1] - region[0])
        for (low, high), (left, right) in zip(parts, regions, strict=True):
            rates = [rate for x, rate, has in found if low <= x < high and not has]
            near = sum(rate >= NEAR * best for rate in rates)
            words = f"{near} of {len(rates)}"
            if (left, right) == widest:
                words += f" reach {100 * NEAR:.0f} % of the best"
            start = (left + right - width_of(words)) / 2
            self._draw_signs_at([(start - 8, y)], False)
            sheet.write(start, y, words)

    def _draw_launches(
        self, places: Sequence[Place], faults: Sequence[Sequence[str]]
    ) -> None:
        """Those with a fault behind the others."""
        for is_faulty in (True, False):
            both = zip(places, faults, strict=True)
            chosen = [place for place, has in both if bool(has) == is_faulty]
            self._draw_signs_at(chosen, is_faulty)

    def _draw_signs_at(self, places: Sequence[Place], is_faulty: bool) -> None:
        """Strong dots without a fault, small grey crosses with one."""
        style = {"marker": "o", "markersize": 4.0, "markeredgewidth": 0, "zorder": 3}
        style |= {"color": line_colour(0)}
        if is_faulty:
            style |= {"marker": "x", "markersize": 3.2, "zorder": 2}
            style |= {"markeredgewidth": 0.8, "color": self.sheet.look.rim}
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
