"""Lab: measurements over a size, in panels that share both axes."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.marks import Point
from minipaged.draw.palette import line_colour
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import others
from minipaged.lab.plots.dots import draw_series, marker_of
from minipaged.lab.plots.render import render

HIGH, HEAD, LEFT, GAP = 160.0, 26.0, 40.0, 22.0  # of a panel, and around it
NARROW = 4.0  # pixels: so high a band hides behind the line at 1, and is told
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1, 1, 1)))
Curves = Mapping[str, Mapping[float, float | None]]


def plot_paging_cost(
    ratios: Mapping[str, Curves],
    title: str,
    xlabel: str = "tokens in a block",
    ylabel: str = "time, divided by that of contiguous K and V",
    doubt: Mapping[str, float] | None = None,
    band: tuple[float, float, str] | None = None,
    in_row: int = 4,
) -> Figure:
    """A panel for each batch, in it a line for each series; 1 is without a table.

    The axis is as long as these numbers need, so that small differences are seen.

    ratios: by batch, by series, by size. doubt: by batch, what a measurement gave the
    second time, divided by the first; the grey band is as wide, and where it is too
    narrow to be seen, a number tells it. band: from where to
    where numbers lie that somebody else has found, and what they are: too high for the
    axis, they are named above it. Raises ValueError if they are not.
    """
    sheet = Sheet(title)
    series = list(dict.fromkeys(name for curves in ratios.values() for name in curves))
    values = [
        value
        for curves in ratios.values()
        for curve in curves.values()
        for value in curve.values()
        if value is not None
    ]
    sizes = sorted({x for c in ratios.values() for curve in c.values() for x in curve})
    y = draw_series(sheet, series)
    sheet.write(0, y + 12, ylabel)
    y += 30
    if band:
        _draw_above(sheet, y, band, max(values))
        y += 34
    in_row = min(in_row, len(ratios))
    wide = (SPAN - LEFT - GAP * (in_row - 1)) / in_row
    for at, (name, curves) in enumerate(ratios.items()):
        x = LEFT + at % in_row * (wide + GAP)
        top = y + at // in_row * (HIGH + HEAD + 34) + HEAD
        scale = scale_of([*values, 1.0], top + HIGH, -HIGH, False)
        _draw_panel(sheet, x, wide, scale, name, sizes, at % in_row == 0)
        if doubt:
            _draw_doubt(sheet, x, wide, scale, doubt[name])
        lines = {
            curve_name: _points(scale, x, wide, sizes, curve)
            for curve_name, curve in curves.items()
        }
        for curve_name, points in lines.items():
            _draw_curve(sheet, points, series.index(curve_name))
        if doubt and _height(scale, doubt[name]) < NARROW:
            _tell_doubt(sheet, x, wide, scale, doubt[name], [*lines.values()])
    bottom = y + -(-len(ratios) // in_row) * (HIGH + HEAD + 34)
    sheet.write(LEFT, bottom, xlabel)
    if doubt:
        said = "as far as it differed when measured again"
        sheet.write(SPAN, bottom, said, ha="right", color=sheet.look.quiet)
        sheet.box(SPAN - width_of(said) - 26, bottom - 6, 18, 12, others())
    return render(sheet.finish(bottom + 8))


def _draw_above(
    sheet: Sheet, y: float, band: tuple[float, float, str], highest: float
) -> None:
    """Numbers that lie above the axis: an arrow upwards, and what they are."""
    low, high, what = band
    if low <= highest:
        raise ValueError(f"{low} is not above {highest}, which is drawn")
    x, said = LEFT + 6, f"{low:.2f} to {high:.2f}"
    sheet.arrow((x, y + 25), (x, y + 3), sheet.look.ink, is_upright=True)
    sheet.write(x + 14, y + 14, said, PART)
    x += 14 + width_of(said, PART) + 10
    sheet.write(x, y + 14, f"above: {what}", color=sheet.look.quiet)


def _place(sizes: Sequence[float], size: float, x: float, wide: float) -> float:
    """Sizes are equally far apart."""
    return x + wide * (sizes.index(size) + 0.5) / len(sizes)


def _draw_panel(
    sheet: Sheet,
    x: float,
    wide: float,
    scale: Scale,
    name: str,
    sizes: Sequence[float],
    is_first: bool,
) -> None:
    """The heading, lines at round numbers, a line at 1, and the sizes below."""
    quiet = {"color": sheet.look.quiet}
    top, bottom = scale.left + scale.width, scale.left
    sheet.write(x, top - 12, name, PART, weight="bold")
    for tick in scale.ticks:
        height = scale.x(tick)
        sheet.line((x, height), (x + wide, height), alpha=0.35, layer=0)
        if is_first:
            sheet.write(x - 8, height, f"{tick:g}", ha="right", **quiet)
    one = scale.x(1.0)
    style = {"color": sheet.look.ink, "linewidth": 1.6, "layer": 1}
    sheet.line((x, one), (x + wide, one), **style)
    sheet.line((x, bottom), (x + wide, bottom), layer=1)
    step = wide / len(sizes)
    widest = max(width_of(f"{size:g}") for size in sizes) + 6
    every = max(1, -(-int(widest) // max(1, int(step))))
    for index, size in enumerate(sizes):
        if index % every == 0:
            middle = _place(sizes, size, x, wide)
            sheet.write(middle, bottom + 12, f"{size:g}", ha="center", **quiet)


def _off(again: float) -> float:
    """How often the shorter time goes into the longer one."""
    return max(again, 1 / again)


def _height(scale: Scale, again: float) -> float:
    """Pixels of a band that is as wide as a measurement differed."""
    return scale.x(1 / _off(again)) - scale.x(_off(again))


def _draw_doubt(
    sheet: Sheet, x: float, wide: float, scale: Scale, again: float
) -> None:
    """A band around 1, as far as the same measurement differed the second time."""
    off = _off(again)
    low, high = max(1 / off, scale.lowest), min(off, scale.highest)
    sheet.box(x, scale.x(high), wide, scale.x(low) - scale.x(high), others())


def _tell_doubt(
    sheet: Sheet,
    x: float,
    wide: float,
    scale: Scale,
    again: float,
    lines: Sequence[Sequence[Point]],
) -> None:
    """The same in words, above the line at 1 or below it: far from all curves."""
    words, one = f"again: ±{_off(again) - 1:.2%}".replace("%", " %"), scale.x(1.0)
    half = width_of(words) / 2 + 2
    places = [
        (middle, y)
        for y in (one + 11, one - 11)
        for middle in (x + wide - half, x + wide / 2, x + half)
        if scale.x(scale.highest) + 6 < y < scale.left - 6
    ]
    middle, y = max(places, key=lambda place: _distance(place, half, lines))
    sheet.write(middle, y, words, ha="center", color=sheet.look.quiet)


def _distance(place: Point, half: float, lines: Sequence[Sequence[Point]]) -> float:
    """Pixels upright from words, so wide to both sides, to the nearest curve."""
    middle, y = place
    across = np.linspace(middle - half, middle + half, 40)
    heights = [np.interp(across, *zip(*line, strict=True)) for line in lines if line]
    return min((float(abs(each - y).min()) for each in heights), default=0.0)


def _points(
    scale: Scale,
    x: float,
    wide: float,
    sizes: Sequence[float],
    curve: Mapping[float, float | None],
) -> list[Point]:
    """Where the numbers of a curve lie, from left to right."""
    return [
        (_place(sizes, size, x, wide), scale.x(value))
        for size, value in sorted(curve.items())
        if value is not None
    ]


def _draw_curve(sheet: Sheet, points: Sequence[Point], series: int) -> None:
    style = {"color": line_colour(series), "linewidth": 1.6}
    dashes = DASHES[series % len(DASHES)]
    sheet.path(points, linestyle=dashes, **style)
    sheet.dots(points, layer=3, **marker_of(series))
