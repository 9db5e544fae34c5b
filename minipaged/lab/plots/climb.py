"""Lab: a launch tuned step by step: its climb under the roof of Little's law."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from minipaged.draw.letters import PART, width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT
from minipaged.lab.measure.launches import Launch
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.plots.roof import (
    CEILING,
    DOTTED,
    Ends,
    Place,
    Roof,
    parts,
    write_axis,
    written,
)

LEFT, SKY, HIGH = 56.0, 34.0, 262.0  # pixels: beside the field; above its roof; below
HEAD = 10.0  # of what is hatched, above the ceiling
SHARE, GAP = 12.0, 7.0  # points of a share; pixels to its name
NEAR, APART = 11.0, 30.0  # pixels from a launch to its arrows; from number to number
RIGHT, LOWER, ABOVE = 14.0, 26.0, -20.0  # pixels from a launch to its name
BESIDE, HALF = 10.0, 10.0  # from the mark to a name; from its middle to its edge
NEAR_MARK = 32.0  # pixels: a launch so near may have its name beyond the mark
HATCH, FAINT = "\\\\", "59"  # of what is hardly reached; how opaque


def plot_climb(launches: Mapping[str, Launch], ceiling: float, title: str) -> Figure:
    """From launch to launch: what was changed, how much is under way, and how fast.

    The level line is the ceiling. The rising one is Little's law: what is under way,
    over the microsecond in which it comes. What is above them, and hardly reached, is
    hatched; where they meet is marked.

    launches: by what was changed; each is faster than the one before, and has more
    under way. ceiling: GB/s at most.
    """
    sheet, floor = Sheet(title), SKY + HIGH
    ways = [one.under_way for one in launches.values()]
    rates = [ceiling * one.percent / 100 for one in launches.values()]
    enough = ceiling / 1000  # 1 MB in a microsecond is 1,000 GB/s
    found = [*ways, enough]
    limits = _rounded(min(found) / 1.5, False), _rounded(1.2 * max(found), True)
    across = _with_few_ticks(scale_of(found, LEFT, SPAN - LEFT, True, limits))
    limits = min(rates) / 1.5, ceiling
    up = _with_few_ticks(scale_of(rates, floor, -HIGH, True, limits))
    roof = Roof(sheet, across, up, ceiling)
    sheet.write(LEFT - 8, SKY - 16, "GB/s", ha="right", color=sheet.look.quiet)
    both = zip(ways, rates, strict=True)
    places = [(across.x(megabytes), up.x(rate)) for megabytes, rate in both]
    areas = _name_launches(roof, places, launches, across.x(enough))
    _draw_roof(roof, enough, areas)
    for ends in pairwise(places):
        _draw_step(sheet, *ends)
    for place in places:
        sheet.dots([place], "o", color=line_colour(0), size=9.0, linewidth=0, layer=3)
    return render(sheet.finish(floor + 46))


def _draw_roof(roof: Roof, enough: float, areas: list[tuple[Ends, Ends]]) -> None:
    """Its lines, all above them hatched, and on the axis where they meet.

    areas: of words; thin lines and the mark leave them out.
    """
    sheet, across, floor = roof.sheet, roof.across, roof.up.left
    x, said = across.x(enough), f"{written(enough)} MB"
    far = (tick for tick in across.ticks if abs(across.x(tick) - x) > APART)
    roof = roof._replace(across=across._replace(ticks=tuple(far)))
    y = roof.level + 13
    sheet.write(SPAN, y, CEILING, ha="right", color=sheet.look.quiet)
    areas = [*areas, ((SPAN - width_of(CEILING) - 4, SPAN + 1), (y - HALF, y + HALF))]
    roof.draw_grid(areas)
    sheet.line((LEFT, floor), (SPAN, floor), layer=1)
    corners = [
        (LEFT, SKY - HEAD),
        (SPAN, SKY - HEAD),
        (SPAN, roof.level),
        *reversed(roof.law),
    ]
    corners.append((LEFT, roof.law[0][1]))
    lines = {"pattern": HATCH, "hatching": sheet.look.rim + FAINT}
    sheet.area(*corners, layer=0, **lines)
    sheet.legend(LEFT, 8, [(KEPT, "hardly reached")])
    roof.draw()
    roof.name_law(0.75, is_below=True)  # between thin lines, and not on the hatching
    style = {"linestyle": DOTTED, "linewidth": 1.6, "layer": 1}
    for top, bottom in parts(x, (roof.level, floor), areas):
        sheet.line((x, top), (x, bottom), **style)
    sheet.write(x, floor + 12, said, ha="center", weight="bold")
    write_axis(sheet, roof.across, floor + 12)


def _draw_step(sheet: Sheet, start: Place, end: Place) -> None:
    """An arrow from launch to launch."""
    (x0, y0), (x1, y1) = start, end
    long = math.dist(start, end)
    if long < 3 * NEAR:
        return
    dx, dy = NEAR * (x1 - x0) / long, NEAR * (y1 - y0) / long
    style = {"color": line_colour(0), "linewidth": 2.2, "head": 15}
    sheet.line((x0 + dx, y0 + dy), (x1 - dx, y1 - dy), **style)


def _name_launches(
    roof: Roof, places: Sequence[Place], launches: Mapping[str, Launch], mark: float
) -> list[tuple[Ends, Ends]]:
    """Its share of the ceiling and what was changed, at the lower right of each.

    There no arrow of a climb leads; above the last one none does either, and there its
    name stands if it has room below the ceiling. The areas of the names are returned.
    """
    areas, sheet = [], roof.sheet
    for (x, y), (name, launch) in zip(places, launches.items(), strict=True):
        share = f"{launch.percent:.0f} %"
        first = width_of(share, SHARE, True) + GAP
        wide = first + width_of(name, PART)
        left, middle = x + RIGHT, y + LOWER
        if (x, y) == places[-1] and y + ABOVE - HALF > roof.level:
            left, middle = x - wide / 2, y + ABOVE
        if left - BESIDE < mark < left + wide + BESIDE:
            if abs(mark - x) < NEAR_MARK:
                left = mark + BESIDE
            elif (x, y) == places[0]:  # no arrow leads to it from the lower left
                before = mark - BESIDE - wide
                is_free = roof.height_of_law(before - BESIDE) < middle - HALF
                left = before if is_free else left
        sheet.write(left, middle, share, SHARE, weight="bold")
        sheet.write(left + first, middle, name, PART)
        areas.append(((left - 4, left + wide + 4), (middle - HALF, middle + HALF)))
    return areas


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
