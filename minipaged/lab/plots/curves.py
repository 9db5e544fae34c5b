"""Lab: measurements over a size, in panels that share both axes."""

from collections.abc import Mapping

from minipaged.draw.chart import Chart
from minipaged.draw.picture import Picture
from minipaged.lab.plots.render import Figure, render

Curves = Mapping[str, Mapping[float, float | None]]


def plot_paging_cost(
    ratios: Mapping[str, Curves],
    title: str,
    doubt: Mapping[str, float] | None = None,
    band: tuple[float, float, str] | None = None,
) -> Figure:
    """A panel for each batch, in it a line for each series; 1 is without a table.

    The axis is as long as these numbers need, so that small differences are seen.

    ratios: by batch, by series, by size. doubt: by batch, what a measurement gave the
    second time, divided by the first; dotted lines are as far away from 1, and below
    the panel a number tells it. band: from where to where numbers lie that somebody
    else has found, and what they are: too high for the axis, they are named above it.
    Raises ValueError if they are not.
    """
    curves = [curve for batch in ratios.values() for curve in batch.values()]
    values = [
        value for curve in curves for value in curve.values() if value is not None
    ]
    sizes = sorted({size for curve in curves for size in curve})
    picture = Picture(title)
    picture.text("time, divided by that of contiguous K and V")
    if band:
        low, high, what = band
        if low <= max(values):
            raise ValueError(f"{low} is not above {max(values)}, which is drawn")
        picture.text(f"↑ {low:.2f} to {high:.2f} above: {what}")
    limits = min(*values, 1.0), max(*values, 1.0)
    air = 0.06 * (limits[1] - limits[0])
    panels = []
    for name, batch in ratios.items():
        off = max(doubt[name], 1 / doubt[name]) if doubt else 1.0
        chart = Chart(
            height=160.0,
            xlabel=f"again: ±{off - 1:.2%}".replace("%", " %") if doubt else "",
            x_is_logarithmic=True,
            x_ticks=sizes[:: 1 + (len(sizes) * len(ratios) > 16)],
            y_limits=(limits[0] - air, limits[1] + air),
        )
        for series, curve in batch.items():
            points = [one for one in sorted(curve.items()) if one[1] is not None]
            chart.line(points, "" if panels else series)
        chart.mark(y=1.0, linestyle="-")
        for edge in (off, 1 / off) if doubt else ():
            if limits[0] < edge < limits[1]:
                chart.mark(y=edge, linestyle=":")
        panels.append(Picture(name))
        panels[-1].add(chart)
    picture.beside(*panels, gap=10.0)
    again = "; dotted: as far as it differed when measured again" if doubt else ""
    picture.text("tokens in a block" + again)
    return render(picture.scene())
