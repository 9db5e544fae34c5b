"""Lab: what a run of `python -m minipaged.simulate` looks like, as a page."""

from bisect import bisect
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from minipaged.draw.chart import Chart
from minipaged.draw.html import to_page
from minipaged.simulate.report import Moment

if TYPE_CHECKING:
    from minipaged.simulate.command import Run

MOST_POINTS = 300  # of a line over time
ROUNDING = 1e-9  # seconds: a step that begins so soon after another follows it


def load_page(runs: "Sequence[Run]", unit: str = "requests a second") -> str:
    """Latency over the rate, as in figure 12; then queues at each system's last rate.

    Latencies above ten times the lowest are cut off: there, a queue grows all the time.
    With several routers, each is a system of its own. Of several replicas, a chart
    shows how even their loads are. unit: of the rates.
    """
    systems: dict[str, list[Run]] = {}
    for run in runs:
        systems.setdefault(_label(run, runs), []).append(run)
    charts = []
    if len({run.rate for run in runs}) > 1:
        charts.append(latency_chart(systems, unit))
    last = {name: own[-1] for name, own in systems.items()}
    charts += [queue_chart(name, run, unit) for name, run in last.items()]
    if any(len(run.cluster.loads) > 1 for run in runs):
        charts.append(loads_chart(last))
    return to_page([chart.scene() for chart in charts])


def _label(run: "Run", runs: "Sequence[Run]") -> str:
    """Its system; with its router, if there are several routers."""
    several = len({other.router for other in runs}) > 1
    return f"{run.system}, {run.router}" if several else run.system


def loads_chart(runs: "dict[str, Run]") -> Chart:
    """How many requests each replica had in the mean, the most loaded first."""
    chart = Chart(
        "The flatter a line, the more even is the load of the replicas",
        xlabel="replicas, the most loaded first",
        ylabel="requests of a replica, in the mean over time",
        y_limits=(0, None),
        height=160,
    )
    for name, run in runs.items():
        loads = sorted(run.cluster.loads.values(), reverse=True)
        chart.line([*enumerate(loads, start=1)], name, is_stairs=True)
    return chart


def latency_chart(systems: "dict[str, list[Run]]", unit: str) -> Chart:
    """Mean normalized latency of each system over the rate."""
    lines = {
        name: [(run.rate, run.report.summary("normalized_latency").mean) for run in own]
        for name, own in systems.items()
    }
    numbers = [number for points in lines.values() for _, number in points]
    highest = min(max(numbers), 10 * min(numbers))
    chart = Chart(
        "Up to some rate latency hardly grows; then it explodes",
        xlabel=unit,
        ylabel="normalized latency (seconds a token)",
        x_limits=(0, None),
        y_limits=(0, highest),
    )
    for name, points in lines.items():
        chart.line(points, name)
    return chart


def queue_chart(name: str, run: "Run", unit: str) -> Chart:
    """Requests that run and wait, on all replicas together."""
    shown = thinned(queues_of(run.report.timeline))
    chart = Chart(
        f"{name}: who runs and who waits, {run.rate:g} {unit}",
        xlabel="seconds",
        ylabel="requests",
        height=160,
    )
    for name in ("running", "waiting"):
        points = [(queue.moment, getattr(queue, name)) for queue in shown]
        chart.line(points, name, is_stairs=True)
    return chart


class Queue(NamedTuple):
    """How many requests run and wait from a moment on."""

    moment: float
    running: int
    waiting: int


def thinned(queues: Sequence[Queue], most: int = MOST_POINTS) -> Sequence[Queue]:
    """As they are at `most` moments, evenly apart; all of them, if they are fewer.

    Every nth would not do: where one request comes at a time, 0 and 1 take turns.
    """
    if len(queues) <= most:
        return queues
    start, end = queues[0].moment, queues[-1].moment
    moments = [start + (end - start) * at / (most - 1) for at in range(most)]
    begins = [queue.moment for queue in queues]
    return [
        queues[bisect(begins, moment) - 1]._replace(moment=moment) for moment in moments
    ]


def queues_of(timeline: Sequence[Moment]) -> list[Queue]:
    """The sums over all replicas, from each moment at which they change.

    A replica that makes no step has nobody who runs or waits.
    """
    changes = []
    begins: dict[int, float] = {}  # when each replica's next step begins
    for step in reversed(timeline):
        start = step.end - step.seconds
        if begins.get(step.replica, inf) > step.end + ROUNDING:
            changes.append((step.end, step.replica, 0, 0))
        changes.append((start, step.replica, step.running, step.waiting))
        begins[step.replica] = start
    latest: dict[int, tuple[int, int]] = {}
    queues = []
    for moment, replica, *counts in sorted(changes):
        latest[replica] = tuple(counts)
        running, waiting = map(sum, zip(*latest.values(), strict=True))
        if not queues or queues[-1][1:] != (running, waiting):
            queues.append(Queue(moment, running, waiting))
    return queues
