"""Lab: how fast a kernel is, by how many of its programs each multiprocessor has."""

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.curves import DASHES
from minipaged.lab.plots.dots import draw_series, marker_of
from minipaged.lab.plots.palette import line_colour
from minipaged.lab.plots.scales import scale_of
from minipaged.lab.plots.signs import SPAN, Sheet, width_of

LEFT, HIGH = 40.0, 240.0  # pixels beside the field, and its height
LIMITS = 0.25, 64.0  # programs: where the axis ends


def plot_on_each(
    lines: Mapping[str, Mapping[float, float]],
    title: str,
    room: int,
    said: str,
    xlabel: str = "programs on each multiprocessor",
    ylabel: str = "GB/s of K and V, in % of the read ceiling",
    limits: tuple[float, float] = LIMITS,
) -> Figure:
    """A line for each batch: its splits give each multiprocessor so many programs.

    The axis below doubles from tick to tick.

    lines: by batch, by programs on each multiprocessor, the share in %. room: so many
    run at a time; there stands a line, and `said` above it. limits: the ends of
    the axis; what lies outside is left out.
    """
    sheet = Sheet(title)
    y = draw_series(sheet, list(lines))
    sheet.write(0, y + 12, ylabel)
    top = y + 44
    across = scale_of([*limits], LEFT, SPAN - LEFT, True, limits)
    up = scale_of([0, 100], top + HIGH, -HIGH, False, (0, 100))
    quiet = {"color": sheet.look.quiet}
    for tick in up.ticks:
        height = up.x(tick)
        sheet.line((LEFT, height), (SPAN, height), alpha=0.35, zorder=0)
        sheet.write(LEFT - 8, height, f"{tick:g}", ha="right", **quiet)
    low, high = (math.log2(limit) for limit in limits)
    for power in range(math.ceil(low), math.floor(high) + 1):
        x, words = across.x(2.0**power), f"{2.0**power:g}"
        sheet.line((x, top), (x, top + HIGH), alpha=0.35, zorder=0)
        middle = min(x, SPAN - width_of(words) / 2)
        sheet.write(middle, top + HIGH + 12, words, ha="center", **quiet)
    sheet.line((LEFT, top + HIGH), (SPAN, top + HIGH), zorder=1)
    x, style = across.x(room), {"color": sheet.look.ink, "linewidth": 1.6, "zorder": 1}
    sheet.line((x, top), (x, top + HIGH), **style)
    sheet.write(x, top - 10, said, ha="center")
    for index, line in enumerate(lines.values()):
        points = [
            (across.x(programs), up.x(share))
            for programs, share in sorted(line.items())
            if limits[0] <= programs <= limits[1]
        ]
        columns = list(zip(*points, strict=True))
        style = {"color": line_colour(index), "linewidth": 1.6, "zorder": 2}
        sheet.axes.plot(*columns, linestyle=DASHES[index % len(DASHES)], **style)
        sheet.axes.plot(*columns, zorder=3, **marker_of(index))
    sheet.write(LEFT, top + HIGH + 34, xlabel)
    sheet.finish(top + HIGH + 44)
    return sheet.figure
