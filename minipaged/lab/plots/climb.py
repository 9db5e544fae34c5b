"""Lab: a launch tuned step by step: its climb under the roof of Little's law."""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from minipaged.lab.measure.launches import FAULTS, Launch
from minipaged.lab.plots.palette import BAD, line_colour
from minipaged.lab.plots.roof import DASHED, DOTTED, Place, Roof, write_axis
from minipaged.lab.plots.scales import scale_of
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of

LEFT, SKY, HIGH = 56.0, 24.0, 262.0  # pixels: beside the field; above its roof; below
SHARE, GAP, LINE = 12.0, 7.0, 9.0  # points of a share; pixels to what was changed; half
NEAR = 10.0  # pixels from a launch to its arrows
HATCH, FAINT = "//", "59"  # of what is out of reach; how opaque
CEILING, BEYOND = "the read ceiling", "out of reach"
Box = tuple[float, float, float, float]  # left, top, right, bottom


def plot_climb(
    launches: Mapping[str, Launch], ceiling: float, title: str, latency: float = 1.0
) -> Figure:
    """From launch to launch: what was changed, how much is under way, and how fast.

    The level line is the ceiling. The rising one is Little's law: what is under way,
    over `latency`. What is above them is hatched; where they meet is marked. A launch
    that another fault than too little under way makes slower than the one before is a
    cross, and a dashed arrow leads to it.

    launches: by what was changed, in order. ceiling: GB/s at most. latency:
    microseconds from asking for a byte until it is there.
    """
    return _Climb(launches, ceiling, latency, Sheet(title)).draw()


class _Climb:
    """Launches in one field, each beside what it is called; arrows between them."""

    def __init__(
        self,
        launches: Mapping[str, Launch],
        ceiling: float,
        latency: float,
        sheet: Sheet,
    ):
        self.launches, self.sheet, self.floor = launches, sheet, SKY + HIGH
        rates = [ceiling * one.percent / 100 for one in launches.values()]
        self.enough = ceiling * latency / 1000  # 1 MB in a microsecond is 1,000 GB/s
        found = [*(one.under_way for one in launches.values()), self.enough]
        limits = _round_below(min(found) / 1.5), -1 / _round_below(-1.2 * max(found))
        across = scale_of(found, LEFT, SPAN - LEFT, True, limits)
        limits = min(rates) / 1.5, ceiling
        up = scale_of(rates, self.floor, -HIGH, True, limits)
        self.roof = Roof(sheet, across, up, ceiling, latency)
        both = zip(found, rates, strict=False)
        self.places = [(across.x(megabytes), up.x(rate)) for megabytes, rate in both]
        steps = pairwise(launches.values())
        self.falls = [False, *(_is_fall(*step) for step in steps)]
        self.taken: list[Path] = []  # where no name may stand

    def draw(self) -> Figure:
        """The roof, the arrows, the launches, and where there is room, their names."""
        sheet, roof = self.sheet, self.roof
        sheet.write(LEFT - 8, SKY - 18, "GB/s", ha="right", color=sheet.look.quiet)
        roof.draw_grid()
        sheet.line((LEFT, self.floor), (SPAN, self.floor), zorder=1)
        self._hatch_beyond()
        roof.draw()
        roof.name_law()
        self._name_ceiling()
        self._mark_enough()
        self._draw_steps()
        for place, is_fall in zip(self.places, self.falls, strict=True):
            self._draw_launch(place, is_fall)
        for number, (name, launch) in enumerate(self.launches.items()):
            self._name(number, name, f"{launch.percent:.0f} %")
        sheet.finish(self.floor + 46)
        return sheet.figure

    def _hatch_beyond(self) -> None:
        """All above the roof, but not behind its name."""
        (x0, y0), knee = self.roof.law
        level = knee[1]
        above = [(LEFT, 0.0), (SPAN, 0.0), (SPAN, level), knee, (x0, y0), (LEFT, y0)]
        paths = [Path([*above, above[0]], closed=True)]
        half = width_of(BEYOND) / 2 + 8
        x, y = LEFT + (knee[0] - LEFT) / 3, (level + (y0 - level) / 4)
        ...
