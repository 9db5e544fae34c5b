"""Lab: the more bytes are under way, the more of them come in a second."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.dots import draw_series, marker_of
from minipaged.lab.plots.scales import Scale, scale_of
from minipaged.lab.plots.signs import SPAN, Sheet, width_of

LEFT, HIGH = 56.0, 280.0  # pixels beside the field, and its height
SMALL_MARKER = {"markersize": 4.5, "alpha": 0.75}


def plot_under_way(
    points: Mapping[str, Sequence[tuple[float, float]]],
    ceiling: float,
    latency: float,
    title: str,
    xlabel: str = "MB of K and V under way at a time, on the whole GPU",
    ylabel: str = "GB/s of K and V",
) -> Figure:
    """A dot for each kernel: how much it has under way, and how fast it reads.

    The rising line is Little's law: what is under way arrives once in a latency. The
    level one is the ceiling. Both axes are logarithmic.

    points: (MB, GB/s) by series. ceiling: GB/s of reading alone. latency: microseconds
    from asking for a byte until it is there.
    """
    sheet = Sheet(title)
    y = draw_series(sheet, list(points))
    sheet.write(0, y + 12, ylabel)
    top = y + 34
    both = [point for series in points.values() for point in series]
    across = scale_of((x for x, _ in both), LEFT, SPAN - LEFT, True)
    up = scale_of([*(y for _, y in both), ceiling], top + HIGH, -HIGH, True)
    quiet = {"color": sheet.look.quiet}
    for tick in across.ticks:
        x = across.x(tick)
        sheet.line((x, top), (x, top + HIGH), alpha=0.35, zorder=0)
        end = SPAN - width_of(f"{tick:,g}") / 2
        sheet.write(min(x, end), top + HIGH + 12, f"{tick:,g}", ha="center", **quiet)
    for tick in up.ticks:
        height = up.x(tick)
        sheet.line((LEFT, height), (SPAN, height), alpha=0.35, zorder=0)
        sheet.write(LEFT - 8, height, f"{tick:,g}", ha="right", **quiet)
    sheet.line((LEFT, top + HIGH), (SPAN, top + HIGH), zorder=1)
    _draw_law(sheet, across, up, ceiling, latency)
    for index, series in enumerate(points.values()):
        places = [across.x(x) for x, _ in series], [up.x(y) for _, y in series]
        sheet.axes.plot(*places, zorder=3, **(marker_of(index) | SMALL_MARKER))
    sheet.write(LEFT, top + HIGH + 34, xlabel)
    sheet.finish(top + HIGH + 44)
    return sheet.figure


def _draw_law(
    sheet: Sheet, across: Scale, up: Scale, ceiling: float, latency: float
) -> None:
    """The line of the law as far as the ceiling, and the ceiling."""
    style = {"color": sheet.look.ink, "linewidth": 1.6, "zorder": 1}
    level = up.x(ceiling)
    sheet.line((LEFT, level), (SPAN, level), **style)
    said = f"reading alone: {ceiling:,.0f} GB/s"
    sheet.write(LEFT + 6, level - 10, said)
    # 1 MB in a microsecond is 1,000 GB/s.
    start = max(across.lowest, up.lowest * latency / 1000)
    end = min(across.highest, ceiling * latency / 1000)
    if start < end:
        ends = [(across.x(x), up.x(1000 * x / latency)) for x in (start, end)]
        sheet.line(*ends, linestyle=(0, (5, 2)), **style)
