"""Lab: the more bytes are under way, the more of them come in a second."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.dots import draw_series, marker_of
from minipaged.lab.plots.scales import Scale, scale_of
from minipaged.lab.plots.signs import SPAN, Sheet, width_of

LEFT, HIGH = 56.0, 280.0  # pixels beside the field, and its height
STEPS = 3  # within twice as much: so many of a series are marked
MANY = 4  # kernels that have nearly as much under way
Point = tuple[float, float]


def plot_under_way(
    points: Mapping[str, Sequence[Point]],
    ceiling: float,
    title: str,
    latency: float | None = None,
    enough: tuple[str, float] | None = None,
    xlabel: str = "MB of K and V under way at a time, on the whole GPU",
    ylabel: str = "GB/s of K and V",
) -> Figure:
    """How much kernels have under way, and how fast they read.

    The rising line is Little's law: in a latency, no more can arrive than is under way.
    The level one is the ceiling. Both axes are logarithmic. Of the kernels of a series
    that have nearly as much under way, only the fastest is drawn.

    points: (MB, GB/s) by series. ceiling: GB/s at most. latency: microseconds
    from asking for a byte until it is there; without it, as long as the dots allow.
    enough: words, and how many MB that is.
    """
    sheet = Sheet(title)
    y = draw_series(sheet, list(points))
    sheet.write(0, y + 12, ylabel)
    remark = "each: the quickest of those with about as much under way"
    sheet.write(SPAN, y + 12, remark, ha="right", color=sheet.look.quiet)
    top = y + 34
    both = [point for series in points.values() for point in series]
    latency = latency or min(1000 * megabytes / rate for megabytes, rate in both)
    across = scale_of((x for x, _ in both), LEFT, SPAN - LEFT, True)
    up = scale_of([*(y for _, y in both), ceiling], top + HIGH, -HIGH, True)
    quiet = {"color": sheet.look.quiet}
    for tick in across.ticks:
        x = across.x(tick)
        sheet.line((x, top), (x, top + HIGH), alpha=0.35, zorder=0)
        end = SPAN - width_of(f"{tick:,g}") / 2
        sheet.write(min(x, end), top + HIGH + 12, f"{tick:,g}", ha="center", **quiet)
    for tick in (tick for tick in up.ticks if tick < ceiling):
        height = up.x(tick)
        sheet.line((LEFT, height), (SPAN, height), alpha=0.35, zorder=0)
        sheet.write(LEFT - 8, height, f"{tick:,g}", ha="right", **quiet)
    sheet.line((LEFT, top + HIGH), (SPAN, top + HIGH), zorder=1)
    if enough is not None:
        words, x = enough[0], across.x(enough[1])
        sheet.line((x, top), (x, top + HIGH), linestyle=(0, (1, 2)), linewidth=1.4)
        sheet.write(x + 8, top + HIGH - 16, words)
    _draw_law(sheet, across, up, ceiling, latency)
    for index, series in enumerate(points.values()):
        places = _places(_fastest(series), across, up)
        sheet.axes.plot(*places, zorder=3, **marker_of(index))
    sheet.write(LEFT, top + HIGH + 34, xlabel)
    sheet.finish(top + HIGH + 44)
    return sheet.figure


def _fastest(series: Sequence[Point]) -> list[Point]:
    """Of those that have nearly as much under way, the one that reads fastest.

    A few say little: among others there might be a faster one.
    """
    groups: dict[int, list[Point]] = {}
    for point in series:
        groups.setdefault(round(STEPS * math.log2(point[0])), []).append(point)
    many = [group for group in groups.values() if len(group) >= MANY]
    return sorted(max(group, key=lambda point: point[1]) for group in many)


def _places(
    points: Sequence[Point], across: Scale, up: Scale
) -> tuple[list[float], list[float]]:
    return [across.x(x) for x, _ in points], [up.x(y) for _, y in points]


def _draw_law(
    sheet: Sheet, across: Scale, up: Scale, ceiling: float, latency: float
) -> None:
    """The line of the law as far as the ceiling, and the ceiling."""
    style = {"color": sheet.look.ink, "linewidth": 1.6, "zorder": 1}
    quiet = {"color": sheet.look.quiet}
    level = up.x(ceiling)
    sheet.line((LEFT, level), (SPAN, level), **style)
    said = f"the read ceiling: {ceiling:,.0f} GB/s"
    sheet.write(LEFT + 6, level - 10, said)
    # 1 MB in a microsecond is 1,000 GB/s.
    start = max(across.lowest, up.lowest * latency / 1000)
    end = min(across.highest, ceiling * latency / 1000)
    if start < end:
        ends = [(across.x(x), up.x(1000 * x / latency)) for x in (start, end)]
        sheet.line(*ends, linestyle=(0, (5, 2)), **style)
        said = (
            "Little's law: on this line",
            f"a byte comes in {latency:.2g} µs,",
            "the least that was seen",
        )
        for number, words in enumerate(said):
            sheet.write(LEFT + 6, level + 16 + 17 * number, words, **quiet)
