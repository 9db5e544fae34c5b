"""Lab: what a server does as its load grows, and where its limits are."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.charts import plot_lines
from minipaged.lab.plots.palette import theme


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
) -> Figure:
    """How many requests are in a server at each moment (seconds), by load.

    Those above the thick line wait: there are only so many places.
    """
    words = "seconds", "requests in the server"
    figure = plot_lines(moments, present, title, *words, logarithmic=False)
    (axes,) = figure.axes
    look = theme()
    axes.axhline(places, color=look.ink, linewidth=1.6)
    beside = {"transform": axes.get_yaxis_transform(), "va": "center"}
    axes.text(1.01, places, f"{places} places", color=look.ink, fontsize=9, **beside)
    return figure
