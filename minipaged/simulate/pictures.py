"""Lab: what a run of `python -m minipaged.simulate` looks like, as a page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minipaged.draw.chart import Chart
from minipaged.draw.html import to_page

if TYPE_CHECKING:
    from minipaged.simulate.command import Run

MOST_POINTS = 300  # of a line over time


def load_page(runs: "Sequence[Run]") -> str:
    """Latency over the rate, as in figure 12; then queues at each system's last rate.

    Latencies above ten times the lowest are cut off: there, a queue grows all the time.
    """
    systems = {run.system: [other for other in runs if other.system == run.system]
               for run in runs}  # fmt: skip
    charts = []
    if len({run.rate for run in runs}) > 1:
        charts.append(latency_chart(systems))
    charts += [queue_chart(own[-1]) for own in systems.values()]
    return to_page([chart.scene() for chart in charts])


def latency_chart(systems: "dict[str, list[Run]]") -> Chart:
    """Mean normalized latency of each system over the rate."""
    lines = {
        name: [(run.rate, run.report.summary("normalized_latency").mean) for run in own]
        for name, own in systems.items()
    }
    numbers = [number for points in lines.values() for _, number in points]
    highest = min(max(numbers), 10 * min(numbers))
    chart = Chart(
        "Up to some rate latency hardly grows; then it explodes",
        xlabel="requests a second",
        ylabel="normalized latency (seconds a token)",
        x_limits=(0, None),
        y_limits=(0, highest),
    )
    for name, points in lines.items():
        chart.line(points, name)
    return chart


def queue_chart(run: "Run") -> Chart:
    """Requests that run and wait, step by step."""
    timeline = run.report.timeline
    every = max(1, len(timeline) // MOST_POINTS)
    chart = Chart(
        f"{run.system}: who runs and who waits, {run.rate:g} requests a second",
        xlabel="seconds",
        ylabel="requests",
        height=160,
    )
    for name in ("running", "waiting"):
        points = [(moment.end, getattr(moment, name)) for moment in timeline[::every]]
        chart.line(points, name, is_stairs=True)
    return chart
