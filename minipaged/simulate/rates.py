"""Appendix F: how many requests a second a server sustains."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log
from typing import NamedTuple

from minipaged.simulate.report import Report


class Point(NamedTuple):
    """A run at one rate: a point of the curves in figure 12."""

    rate: float  # requests a second
    normalized_latency: float  # the mean, in seconds a token
    mean_running: float
    preemptions: int


def point(rate: float, report: Report) -> Point:
    """What a report says of its run at this rate."""
    latency = report.summary("normalized_latency").mean
    return Point(rate, latency, report.mean_running, report.preemptions)


def curve(
    run: Callable[[float], Report], limit: float, start: float = 1.0, halvings: int = 4
) -> list[Point]:
    """Points at rates around the one where the latency passes `limit`.

    From `start` on, the rate is doubled or halved until the limit lies between two
    rates, ten times at most; then the gap is halved, so many times. In the order of
    rates.
    """
    points = [point(start, run(start))]
    factor = 2.0 if points[0].normalized_latency < limit else 0.5
    while (points[-1].normalized_latency < limit) == (factor > 1):
        if len(points) > 10:
            return sorted(points)
        rate = points[-1].rate * factor
        points.append(point(rate, run(rate)))
    low, high = sorted(points[-2:])
    for _ in range(halvings):
        rate = (low.rate * high.rate) ** 0.5
        middle = point(rate, run(rate))
        points.append(middle)
        if middle.normalized_latency < limit:
            low = middle
        else:
            high = middle
    return sorted(points)


def sustained_rate(points: Sequence[Point], limit: float) -> float | None:
    """The rate at which latency passes `limit`, between two points of a curve.

    On logarithmic scales the line between them is straight. None if it never passes.
    """
    for low, high in pairwise(points):
        if low.normalized_latency < limit <= high.normalized_latency:
            a, b = log(low.normalized_latency), log(high.normalized_latency)
            share = (log(limit) - a) / (b - a)
            return exp(log(low.rate) + share * (log(high.rate) - log(low.rate)))
    return None
