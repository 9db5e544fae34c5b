"""Lab: how fast a kernel is, by how many of its programs each multiprocessor has."""

import math
from collections.abc import Mapping

from minipaged.draw.chart import Chart
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.plots.roof import written

LIMITS = 0.25, 64.0  # programs: where the axis ends


def plot_on_each(
    lines: Mapping[str, Mapping[float, float]],
    title: str,
    room: int,
    said: str,
    megabytes: float | None = None,
    aim: tuple[float, str] | None = None,
) -> Figure:
    """A line for each batch: its splits give each multiprocessor so many programs.

    The axis doubles from tick to tick.

    lines: by batch, by programs on each multiprocessor, the share in %. room: so many
    run at a time; there stands a line, above it `said`. What lies outside of LIMITS is
    left out. megabytes: of a program on each multiprocessor, on
    the whole GPU; with it, words say how much is under way. aim: so many programs are
    best; there stands a dotted line, above it what it says.
    """
    low, high = (math.log2(limit) for limit in LIMITS)
    ticks = [2.0**power for power in range(math.ceil(low), math.floor(high) + 1)]
    each = f"; {written(megabytes)} MB under way for one on each" if megabytes else ""
    chart = Chart(
        title,
        xlabel="programs on each multiprocessor" + each,
        ylabel="GB/s of K and V, in % of the read ceiling",
        x_limits=LIMITS,
        y_limits=(0, 100),
        x_is_logarithmic=True,
        x_ticks=ticks,
    )
    for name, line in lines.items():
        shown = [
            one for one in sorted(line.items()) if LIMITS[0] <= one[0] <= LIMITS[1]
        ]
        chart.line(shown, name, has_markers=True)
    if megabytes:
        said += f": {written(room * megabytes)} MB; the others wait"
    if aim:
        under_way = f": {written(aim[0] * megabytes)} MB" if megabytes else ""
        chart.mark(x=aim[0], words=aim[1] + under_way, linestyle=":")
    chart.mark(x=room, words=said, linestyle="-")
    return render(chart.scene())
