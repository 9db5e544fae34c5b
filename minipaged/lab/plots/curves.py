"""Lab: measurements over a size, in panels that share both axes."""

from collections.abc import Mapping

from minipaged.draw.chart import Chart
from minipaged.draw.letters import listed
from minipaged.draw.picture import Picture
from minipaged.draw.tones import others, sign_of
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
    second time, divided by the first; the grey band is as wide, and the legend says how
    wide. band: from where to where numbers lie that somebody else has found, and what
    they are: too high for the axis, they are named above it. Raises ValueError if they
    are not.
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
    offs = {name: max(again, 1 / again) for name, again in (doubt or {}).items()}
    panels = []
    for name, batch in ratios.items():
        chart = Chart(
            height=160.0,
            xlabel="tokens in a block",
            x_is_logarithmic=True,
            x_ticks=sizes[:: 1 + (len(sizes) * len(ratios) > 16)],
            y_limits=(limits[0] - air, limits[1] + air),
        )
        if offs:
            chart.band(1 / offs[name], offs[name])
        for curve in batch.values():
            chart.line([one for one in sorted(curve.items()) if one[1] is not None])
        chart.mark(y=1.0, linestyle="-")
        panels.append(Picture(name))
        panels[-1].add(chart)
    picture.beside(*panels, gap=10.0)
    series = dict.fromkeys(name for batch in ratios.values() for name in batch)
    signs = [(sign_of(number), name) for number, name in enumerate(series)]
    if offs:
        said = listed([f"{100 * (offs[name] - 1):.2f}" for name in ratios])
        said = f"as far as it differed when measured again: ±{said} %"
        signs.append((others(), said))
    picture.legend(*signs)
    return render(picture.scene())
