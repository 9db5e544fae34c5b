"""Lab: latency over the rate of requests, as in the paper's figure 12."""

from collections.abc import Mapping
from typing import Any

from minipaged.draw.chart import Chart
from minipaged.draw.picture import Picture
from minipaged.draw.tones import sign_of
from minipaged.lab.plots.render import Figure, render
from minipaged.simulate.systems import SYSTEMS, VARIANTS

ACROSS = 3  # panels in a row
ORDER = [*SYSTEMS, *VARIANTS]  # a system has the same colour in all figures

Curves = Mapping[str, Mapping[str, Any]]  # by system: its `points`, as of `Point`


def plot_latencies(
    panels: Mapping[str, Curves], title: str, limit: float, highest: float = 0.5
) -> Figure:
    """A panel for each load, a line for each system; all panels have the same systems.

    panels: by load, and by system, which is one of SYSTEMS or VARIANTS. limit: seconds
    a token, a dotted line. What is above `highest` is cut off: there, a queue grows all
    the time.
    """
    picture = Picture(title)
    picture.text("mean normalized latency (seconds a token), over requests a second")
    made = [_panel(name, curves, limit, highest) for name, curves in panels.items()]
    for at in range(0, len(made), ACROSS):
        picture.beside(*made[at : at + ACROSS], gap=14.0)
    names = next(iter(panels.values()))
    picture.legend(*[(sign_of(ORDER.index(name)), name) for name in names])
    return render(picture.scene())


def _panel(name: str, curves: Curves, limit: float, highest: float) -> Picture:
    chart = Chart(height=150.0, x_limits=(0, None), y_limits=(0, highest))
    for system, curve in curves.items():
        points = [(one["rate"], one["normalized_latency"]) for one in curve["points"]]
        chart.line(points, series=ORDER.index(system))
    chart.mark(y=limit, linestyle=":")
    panel = Picture(name)
    panel.add(chart)
    return panel
