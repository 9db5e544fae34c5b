"""Lab: who runs and who waits as time passes, in several runs."""

from collections.abc import Mapping

from minipaged.draw.chart import Chart
from minipaged.draw.picture import Picture
from minipaged.lab.plots.render import Figure, render
from minipaged.simulate.pictures import queues_of, thinned
from minipaged.simulate.report import Report


def plot_queues(reports: Mapping[str, Report], title: str) -> Figure:
    """Requests that run, and below those that wait, if any do: a line for each run."""
    shown = {
        name: thinned(queues_of(report.timeline)) for name, report in reports.items()
    }
    picture, chart = Picture(title), None
    for what in ("running", "waiting"):
        lines = {
            name: [(queue.moment, getattr(queue, what)) for queue in queues]
            for name, queues in shown.items()
        }
        if not any(number for points in lines.values() for _, number in points):
            continue
        kind = {"height": 120, "y_limits": (0, None), "below": chart}
        chart = Chart(ylabel=f"requests {what}", xlabel="seconds", **kind)
        for name, points in lines.items():
            chart.line(points, name, is_stairs=True)
        picture.add(chart)
    return render(picture.scene())
