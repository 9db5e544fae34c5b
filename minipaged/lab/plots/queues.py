"""Lab: who runs and who waits as time passes, in several runs."""

from collections.abc import Mapping

from minipaged.draw.chart import Chart
from minipaged.draw.picture import Picture
from minipaged.lab.plots.render import Figure, render
from minipaged.simulate.pictures import queues_of, thinned
from minipaged.simulate.report import Report


def plot_queues(reports: Mapping[str, Report], title: str) -> Figure:
    """Requests that run, and below those that wait: a line for each run."""
    above = Chart(ylabel="requests that run", height=120, y_limits=(0, None))
    below = Chart(
        ylabel="requests that wait", xlabel="seconds", height=120, below=above,
        y_limits=(0, None),
    )  # fmt: skip
    for name, report in reports.items():
        shown = thinned(queues_of(report.timeline))
        running = [(queue.moment, queue.running) for queue in shown]
        waiting = [(queue.moment, queue.waiting) for queue in shown]
        above.line(running, is_stairs=True)
        below.line(waiting, name, is_stairs=True)
    picture = Picture(title)
    picture.add(above)
    picture.add(below)
    return render(picture.scene())
