"""Lab: how fast kernels read, against what the memory can do."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.charts import canvas
from minipaged.lab.plots.palette import HATCHING, sequence_colour, theme

HATCHES = ("", "//", "..")


def plot_rates(
    rates: Mapping[str, Mapping[str, float]], ceiling: float, title: str, where: str
) -> Figure:
    """GB/s as bars, and the read ceiling as a line.

    rates: for each series, which has a colour and a hatch, the GB/s by name. where:
    what it was measured on, in words. A number that would touch the line stands
    behind it.
    """
    names = list(next(iter(rates.values())))
    figure, axes = canvas(title, height=1.5 + 0.62 * len(names))
    look, height = theme(), 0.8 / len(rates)
    for series, (label, values) in enumerate(rates.items()):
        rows = [
            row + (series - (len(rates) - 1) / 2) * height for row in range(len(names))
        ]
        hatch = HATCHES[series % len(HATCHES)]
        bars = {"color": sequence_colour(series), "hatch": hatch, "label": label}
        bars |= {"edgecolor": HATCHING, "linewidth": 0}
        axes.barh(rows, list(values.values()), height * 0.94, **bars)
        for row, value in zip(rows, values.values(), strict=True):
            text = {"va": "center", "fontsize": 9, "color": look.ink}
            end = ceiling if 0.88 * ceiling < value < ceiling else value
            axes.text(end + 0.01 * ceiling, row, f"{value:,.0f}", **text)
    axes.axvline(ceiling, color=look.ink, linestyle="--", linewidth=1)
    side = {"ha": "right", "va": "center", "fontsize": 9, "color": look.ink}
    axes.text(0.99 * ceiling, -0.75, f"reading alone: {ceiling:,}", **side)
    axes.set_yticks(range(len(names)), names)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlim=(0, 1.12 * ceiling), xlabel=f"GB/s of K and V ({where})")
    axes.set_ylim(len(names) - 0.5, -1.0)
    style = {"frameon": False, "fontsize": 10, "labelcolor": look.ink}
    figure.legend(loc="outside lower center", ncols=len(rates), **style)
    return figure
