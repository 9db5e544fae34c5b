"""Lab: what a server does as its load grows, and where its limits are."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from minipaged.draw.chart import Chart
from minipaged.draw.picture import Picture
from minipaged.lab.plots.charts import chart_of
from minipaged.lab.plots.render import Figure, render


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
    chart = chart_of(x, lines, title, xlabel, ylabel, True, (0, highest))
    for words, value in limits.items():
        chart.mark(x=value, words=words, linestyle=":")
    return render(chart.scene())


def plot_present(
    moments: Sequence[float],
    present: Mapping[str, Sequence[float]],
    title: str,
    places: int,
    arrivals: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """How many requests are in a server at each moment (seconds), by load.

    Those above the level line wait: there are only so many places. arrivals: when
    requests come, by load. Then a panel below counts those between two moments.
    """
    chart = chart_of(moments, present, title, "seconds", "requests in the server")
    chart.mark(y=places, words=f"{places} places", linestyle="-")
    picture = Picture(title)
    picture.add(chart)
    if arrivals:
        ylabel = f"requests that come in {moments[1] - moments[0]:g} seconds"
        below = Chart(ylabel=ylabel, height=80, y_limits=(0, None), below=chart)
        for series, times in enumerate(arrivals.values()):
            spans = pairwise(moments)
            counts = [sum(a <= time < b for time in times) for a, b in spans]
            points = list(zip(moments, [*counts, counts[-1]], strict=True))
            below.line(points, series=series, is_stairs=True)
        picture.add(below)
    return render(picture.scene())
