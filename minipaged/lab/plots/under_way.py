"""Lab: how much launches have under way, how fast they read, and what limits them."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from minipaged.draw.letters import PART, width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.scales import scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.lab.measure.launches import NEAR
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.plots.roof import CEILING, DOTTED, Place, Roof, write_axis, written

LEFT, HIGH = 56.0, 186.0  # pixels: beside a field; from its ceiling to its axis
HEAD, WORDS = 34.0, 48.0  # above a field: for its batch's name, for what its marks say
COUNTS = 24.0  # inside it, above its axis: for how many are near the best
SIGNS = {"plain": "has no other fault", "faulty": "has another fault"}
MOVED = "each sign is a launch; moved aside where it would hide others:"
APART = {"near": 5.0, "plain": 4.6, "faulty": 4.6}  # pixels from sign to sign
MOST = {"near": 10, "plain": 5, "faulty": 5}  # so far one is moved aside at most
Point = tuple[float, float, Sequence[str]]  # MB, GB/s, faults


def plot_under_way(
    points: Mapping[str, Sequence[Point]],
    ceiling: float,
    title: str,
    best: tuple[str, float] | None = None,
) -> Figure:
    """A field for each batch, in it all of its launches; both axes are logarithmic.

    The level line is the ceiling. The rising one is Little's law: what is under way,
    over a microsecond. Dotted lines are where both meet, and at twice as much; between
    them stands how many of the launches are near their batch's best: large, with a rim.

    points: by batch, for each launch MB, GB/s, and the names of the faults that it has;
    those with any are small and grey. ceiling: GB/s at most. best: a place that is
    marked above each field: what it is, and MB.
    """
    drawing = _UnderWay(points, ceiling, best, Sheet(title))
    return drawing.draw()


class _UnderWay:
    """Fields below each other with the same axes; marks run through all."""

    def __init__(
        self,
        points: Mapping[str, Sequence[Point]],
        ceiling: float,
        best: tuple[str, float] | None,
        sheet: Sheet,
    ):
        self.points, self.ceiling, self.best, self.sheet = points, ceiling, best, sheet
        found = [point for batch in points.values() for point in batch]
        self.rates = [*(rate for _, rate, _ in found), ceiling]
        enough = ceiling / 1000  # 1 MB in a microsecond is 1,000 GB/s
        self.enough = enough, 2 * enough
        reached = [*(megabytes for megabytes, *_ in found), *self.enough, enough / 2]
        self.across = scale_of(reached, LEFT, SPAN - LEFT, True)
        self.ends = LEFT, *map(self.across.x, self.enough), SPAN  # of the regions

    def draw(self) -> Figure:
        """The signs, the fields, above the first what the marks say, and the axis."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        self._draw_signs(8)
        y = 46.0
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
        return render(sheet.finish(y + 36))

    def _draw_signs(self, y: float) -> None:
        """What the marks of the launches mean, and that some are moved aside."""
        sheet, x = self.sheet, 5.0
        sheet.write(0, y, MOVED, color=sheet.look.quiet)
        more = f"{100 * (NEAR - 1):.3g} %"
        signs = {"near": f"near the best: at most {more} more time"}
        if any(has for batch in self.points.values() for *_, has in batch):
            signs |= SIGNS
        for kind, words in signs.items():
            self._draw_signs_at([(x, y + 20)], kind)
            sheet.write(x + 11, y + 20, words, color=sheet.look.quiet)
            x += 16 + width_of(words) + 22

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
        style = {"linestyle": DOTTED, "linewidth": 1.6, "layer": 1}
        self.sheet.line((x, y), (x, y + WORDS), **style)

    def _draw_field(self, level: float, found: Sequence[Point], is_first: bool) -> None:
        """Lines, over them the launches of a batch, and how many are near its best."""
        sheet, bottom = self.sheet, level + HIGH
        limits = min(self.rates) / 1.05, self.ceiling
        floor = bottom - COUNTS
        up = scale_of(self.rates, floor, level - floor, True, limits)
        roof = Roof(sheet, self.across, up, self.ceiling)
        roof.draw_grid()
        sheet.line((LEFT, bottom), (SPAN, bottom), layer=1)
        roof.draw()
        for x in map(self.across.x, self.enough):
            style = {"linestyle": DOTTED, "linewidth": 1.6, "layer": 1}
            sheet.line((x, level), (x, bottom), **style)
        if self.best:
            sheet.dots([(self.across.x(self.best[1]), level - 5)], "v", size=7)
        if is_first:
            sheet.write(LEFT + 6, level + 13, CEILING, color=sheet.look.quiet)
            roof.name_law()
        kinds = self._kinds(found)
        self._count_near(bottom - COUNTS / 2, found, kinds)
        places = [(self.across.x(point[0]), up.x(point[1])) for point in found]
        places = _side_by_side(places, kinds)
        for kind in APART:
            both = zip(places, kinds, strict=True)
            self._draw_signs_at([place for place, one in both if one == kind], kind)

    def _kinds(self, found: Sequence[Point]) -> list[str]:
        """Of each launch of a batch, as in APART."""
        best = max((rate for _, rate, _ in found), default=0.0)
        return [
            "near" if rate * NEAR >= best else "faulty" if has else "plain"
            for _, rate, has in found
        ]

    def _count_near(
        self, y: float, found: Sequence[Point], kinds: Sequence[str]
    ) -> None:
        """In each region, how many of its launches are near the best."""
        first, second = self.enough
        parts = (0.0, first), (first, second), (second, math.inf)
        regions = list(pairwise(self.ends))
        widest = max(regions, key=lambda region: region[1] - region[0])
        for (low, high), (left, right) in zip(parts, regions, strict=True):
            both = zip(found, kinds, strict=True)
            here = [kind for (x, *_), kind in both if low <= x < high]
            words = f"{here.count('near')} of {len(here)}"
            if (left, right) == widest:
                words += " are near the best"
            self.sheet.write((left + right) / 2, y, words, ha="center")

    def _draw_signs_at(self, places: Sequence[Place], kind: str) -> None:
        """Large dots with a rim near the best; else dots, small crosses with a fault.

        What is nearer to the best lies in front.
        """
        look = self.sheet.look
        style = {"color": line_colour(0), "size": 4.0, "linewidth": 0, "layer": 3}
        if kind == "near":
            style |= {"color": line_colour(2), "size": 5.2, "layer": 4}
            style |= {"linewidth": 0.9, "rim": look.ink}
        if kind == "faulty":
            style = {"color": look.rim, "size": 3.2, "linewidth": 0.8}
        self.sheet.dots(places, "x" if kind == "faulty" else "o", **style)


def _side_by_side(places: Sequence[Place], kinds: Sequence[str]) -> list[Place]:
    """Moved aside, as little as needed, where they would hide others.

    The highest ones stay where they are. Where all is full, some are hidden.
    """
    moved: dict[int, Place] = {}
    for index in sorted(range(len(places)), key=lambda index: places[index][1]):
        (x, y), most = places[index], MOST[kinds[index]]
        steps = sorted(range(-most, most + 1), key=lambda step: (abs(step), -step))
        tried, apart = [(x + step, y) for step in steps], APART[kinds[index]]
        near = [place for place in moved.values() if y - place[1] < apart]
        free = (one for one in tried if all(math.dist(one, n) >= apart for n in near))
        moved[index] = next(free, tried[index % len(tried)])
    return [moved[index] for index in range(len(places))]
