"""Lab: a launch tuned step by step: its climb under the roof of Little's law."""

import math
from collections.abc import Mapping
from itertools import pairwise

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, PathPatch
from matplotlib.path import Path

from minipaged.lab.measure.launches import FAULTS, Launch
from minipaged.lab.plots.palette import BAD, line_colour
from minipaged.lab.plots.roof import CEILING, DOTTED, Place, Roof, write_axis, written
from minipaged.lab.plots.room import Box, Room, around, line_of_words
from minipaged.lab.plots.scales import Scale, scale_of
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of

LEFT, SKY, HIGH = 56.0, 24.0, 262.0  # pixels: beside the field; above its roof; below
SHARE, GAP, SIGN = 12.0, 7.0, 6.0  # points of a share; pixels to its name; half a sign
NEAR, APART = 11.0, 30.0  # pixels from a launch to its arrows; from number to number
HATCH, FAINT = "//", "59"  # of what is hardly reached; how opaque
BEYOND = "hardly reached"


def plot_climb(
    launches: Mapping[str, Launch], ceiling: float, title: str, latency: float = 1.0
) -> Figure:
    """From launch to launch: what was changed, how much is under way, and how fast.

    The level line is the ceiling. The rising one is Little's law: what is under way,
    over `latency`. What is above them is hatched; where they meet is marked. A launch
    that another fault than too little under way makes slower than the one before is a
    cross.

    launches: by what was changed, in order. ceiling: GB/s at most. latency:
    microseconds from asking for a byte until it is there.
    """
    return _Climb(launches, ceiling, latency, Sheet(title)).draw()


class _Climb:
    """Launches in one field, each beside its name; arrows between them."""

    def __init__(
        self,
        launches: Mapping[str, Launch],
        ceiling: float,
        latency: float,
        sheet: Sheet,
    ):
        self.launches, self.sheet, self.floor = launches, sheet, SKY + HIGH
        ways = [one.under_way for one in launches.values()]
        rates = [ceiling * one.percent / 100 for one in launches.values()]
        self.enough = ceiling * latency / 1000  # 1 MB in a microsecond is 1,000 GB/s
        found = [*ways, self.enough]
        limits = _rounded(min(found) / 1.5, False), _rounded(1.2 * max(found), True)
        across = _with_few_ticks(scale_of(found, LEFT, SPAN - LEFT, True, limits))
        x = across.x(self.enough)
        far = (tick for tick in across.ticks if abs(across.x(tick) - x) > APART)
        across = across._replace(ticks=tuple(far))
        limits = min(rates) / 1.5, ceiling
        up = _with_few_ticks(scale_of(rates, self.floor, -HIGH, True, limits))
        self.roof = Roof(sheet, across, up, ceiling, latency)
        both = zip(ways, rates, strict=True)
        self.places = [(across.x(megabytes), up.x(rate)) for megabytes, rate in both]
        steps = pairwise(launches.values())
        self.falls = [False, *(_is_fall(*step) for step in steps)]
        field = Box(LEFT + 6, SKY, SPAN, self.floor)
        self.room = Room(field, [up.x(tick) for tick in up.ticks])

    def draw(self) -> Figure:
        """The roof, the arrows, the launches; where there is room then, their names."""
        sheet, roof = self.sheet, self.roof
        sheet.write(LEFT - 8, SKY - 18, "GB/s", ha="right", color=sheet.look.quiet)
        roof.draw_grid()
        sheet.line((LEFT, self.floor), (SPAN, self.floor), zorder=1)
        self._hatch_beyond()
        roof.draw()
        self._name_roof()
        self._mark_enough()
        steps = zip(pairwise(self.places), self.falls[1:], strict=True)
        for ends, is_fall in steps:
            self._draw_step(*ends, is_fall)
        for place, is_fall in zip(self.places, self.falls, strict=True):
            self._draw_launch(place, is_fall)
        for number, (name, launch) in enumerate(self.launches.items()):
            self._name_launch(number, f"{launch.percent:.0f} %", name)
        sheet.finish(self.floor + 46)
        return sheet.figure

    def _hatch_beyond(self) -> None:
        """All above the roof, but not behind the words that say so."""
        (x0, y0), (x1, level) = self.roof.law
        corners = [(SPAN, 0.0), (SPAN, level), (x1, level), (x0, y0), (LEFT, y0)]
        paths = [Path([(LEFT, 0.0), *corners, (LEFT, 0.0)], closed=True)]
        x, y = LEFT + (x1 - LEFT) / 3, level + (y0 - level) / 4
        hole = line_of_words(x, y, width_of(BEYOND) + 16)
        across, down = (hole.right - x0) / (x1 - x0), (hole.bottom - level)
        if across + down / (y0 - level) < 1:  # left of the rising line
            paths.append(Path([*hole.corners, hole.corners[0]], closed=True))
            self.sheet.write(x, y, BEYOND, ha="center", color=self.sheet.look.quiet)
        style = {"hatch": HATCH, "edgecolor": self.sheet.look.rim + FAINT}
        whole = Path.make_compound_path(*paths)
        patch = PathPatch(whole, fill=False, linewidth=0, zorder=0, **style)
        self.sheet.axes.add_artist(patch)

    def _name_roof(self) -> None:
        """Below both of its lines; no other name stands there."""
        sheet, y = self.sheet, self.roof.level + 13
        self.roof.name_law(7)
        sheet.write(SPAN, y, CEILING, ha="right", color=sheet.look.quiet)
        wide = width_of(CEILING)
        self.room.take_box(line_of_words(SPAN - wide / 2, y, wide))
        for below in (0, 14):  # the rising line, and its name
            self.room.take(*((x, y + below) for x, y in self.roof.law))

    def _mark_enough(self) -> None:
        """Where both lines meet, and beside it the round numbers of the axis."""
        sheet, across = self.sheet, self.roof.across
        x = across.x(self.enough)
        ends = (x, self.roof.level), (x, self.floor)
        sheet.line(*ends, linestyle=DOTTED, linewidth=1.6, zorder=1)
        self.room.take(*ends)
        said, y = written(self.enough), self.floor + 12
        sheet.write(x, y, said, ha="center", weight="bold")
        write_axis(sheet, across, y)

    def _draw_step(self, start: Place, end: Place, is_fall: bool) -> None:
        """An arrow from launch to launch."""
        (x0, y0), (x1, y1) = start, end
        long = math.dist(start, end)
        if long < 3 * NEAR:
            return
        dx, dy = NEAR * (x1 - x0) / long, NEAR * (y1 - y0) / long
        style = {"color": BAD if is_fall else line_colour(0), "linewidth": 2.2}
        inner = (x0 + dx, y0 + dy), (x1 - dx, y1 - dy)
        self.room.take(*inner)
        style |= {"arrowstyle": "-|>", "mutation_scale": 15, "zorder": 2}
        arrow = FancyArrowPatch(*inner, shrinkA=0, shrinkB=0, **style)
        self.sheet.axes.add_artist(arrow)

    def _draw_launch(self, place: Place, is_fall: bool) -> None:
        """A dot; a cross after a fall."""
        x, y = place
        style = {"marker": "o", "markersize": 9.0, "color": line_colour(0)}
        if is_fall:
            style |= {"marker": "X", "markersize": 11.0, "color": BAD}
        self.sheet.axes.plot([x], [y], markeredgewidth=0, zorder=3, **style)
        self.room.take_box(around(place, SIGN))

    def _name_launch(self, number: int, share: str, name: str) -> None:
        """Its share of the ceiling and what was changed, where most is free."""
        sheet, colour = self.sheet, BAD if self.falls[number] else self.sheet.look.ink
        first = width_of(share, SHARE, True) + GAP
        wide = first + width_of(name, PART)
        levels = [self.floor, *(y for _, y in self.places), self.floor]
        before, now, after = levels[number : number + 3]
        is_top = now <= min(before, after)
        box = self.room.take_beside(self.places[number], wide, is_top)
        y = (box.top + box.bottom) / 2
        sheet.write(box.left, y, share, SHARE, weight="bold", color=colour)
        sheet.write(box.left + first, y, name, PART)


def _is_fall(before: Launch, now: Launch) -> bool:
    """Slower, and another fault is to blame."""
    return now.percent < before.percent and bool({*now.faults} - {FAULTS[0]})


def _with_few_ticks(scale: Scale) -> Scale:
    """Those that are 1, 2, or 5 times a power of ten, if there are some."""
    few = tuple(tick for tick in scale.ticks if _rounded(tick, True) == tick)
    return scale._replace(ticks=few or scale.ticks)


def _rounded(number: float, is_up: bool) -> float:
    """To 1, 2, or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(number))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    if is_up:
        return min(step for step in steps if step >= number)
    return max(step for step in steps if step <= number)
