"""Lab: what a server does as its load grows, and where its limits are."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.palette import theme
from minipaged.lab.plots.charts import plot_lines, style_axes


def plot_load(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    title: str,
    xlabel: str,
    ylabel: str,
    limits: Mapping[str, float],
    highest: float | None = None,
) -> Figure:
    """A line for each server over the load; dotted and named, how much each can bear.

    limits: values of x, by their words. highest: where the y axis ends, as what is
    above a limit grows without end.
    """
    figure = plot_lines(x, lines, title, xlabel, ylabel)
    (axes,) = figure.axes
    axes.set_ylim(0, highest)
    look = theme()
    for words, value in limits.items():
        axes.axvline(value, color=look.ink, linestyle=":")
        above = {"transform": axes.get_xaxis_transform(), "ha": "center"}
        axes.text(value, 1.02, words, color=look.ink, fontsize=9, **above)
    return figure


def plot_present(
    moments: Sequence[float],
    present: Mapping[str, Sequence[float]],
    title: str,
    places: int,
    arrivals: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """How many requests are in a server at each moment (seconds), by load.

    Those above the thick line wait: there are only so many places. arrivals: when
    requests come, by load. Then a panel below counts those between two moments.
    """
    words = "seconds", "requests in the server"
    figure = plot_lines(moments, present, title, *words, logarithmic=False)
    (axes,) = figure.axes
    look = theme()
    axes.axhline(places, color=look.ink, linewidth=1.6)
    beside = {"transform": axes.get_yaxis_transform(), "va": "center"}
    axes.text(1.01, places, f"{places} places", color=look.ink, fontsize=9, **beside)
    if arrivals:
        _draw_arrivals(figure, moments, arrivals)
    return figure


def _draw_arrivals(
    figure: Figure, moments: Sequence[float], arrivals: Mapping[str, Sequence[float]]
) -> None:
    """A panel below: how many come between two moments, in the colours from above."""
    (above,) = figure.axes
    figure.set_figheight(figure.get_figheight() + 1.3)
    grid = figure.add_gridspec(2, 1, height_ratios=(2.6, 1))
    above.set_subplotspec(grid[0])
    below = figure.add_subplot(grid[1], sharex=above)
    spans = list(pairwise(moments))
    for curve, times in zip(above.lines, arrivals.values(), strict=False):
        counts = [sum(start <= time < end for time in times) for start, end in spans]
        style = {"color": curve.get_color(), "linestyle": curve.get_linestyle()}
        below.stairs(counts, moments, baseline=None, linewidth=1.5, **style)
    below.set(xlabel=above.get_xlabel(), ylim=(0, None))
    below.set_ylabel(f"come in\n{moments[1] - moments[0]:g} seconds")
    above.set_xlabel("")
    style_axes(below)
    below.grid(axis="y", color=theme().rim, alpha=0.35)
