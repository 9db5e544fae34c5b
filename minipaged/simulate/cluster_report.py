"""Appendix H: what users of a simulated cluster saw, and how evenly it was loaded."""

from collections.abc import Sequence
from statistics import fmean, median, quantiles
from typing import NamedTuple

from minipaged.simulate.report import Moment, Report, Served


class Answer(NamedTuple):
    """A request that was answered."""

    number: int  # its place in the trace
    replica: int
    tries: int  # how often it was sent
    pause: float  # the longest from one token to the next, in seconds
    served: Served  # its arrival is when the user asked, however often it was sent


class Life(NamedTuple):
    """What a replica did from its start to its death, or to the end."""

    replica: int
    num_sent: int  # requests
    steps: list[Moment]


class Wait(NamedTuple):
    """Of all requests, in seconds."""

    mean: float
    p50: float  # the median
    p99: float


class ClusterReport(NamedTuple):
    """All answers, in the order of their ends, and all lives of all replicas."""

    answers: list[Answer]
    lives: list[Life]
    num_resent: int  # requests that were sent again after a death

    def wait(self, name: str) -> Wait:
        """For example of `time_to_first_token`, as Served names it; or of `pause`."""
        if name == "pause":
            return wait_of([answer.pause for answer in self.answers])
        return wait_of([getattr(answer.served, name) for answer in self.answers])

    @property
    def whole(self) -> Report:
        """All answers and all steps, as if one server had made them."""
        steps = sorted(
            step._replace(replica=life.replica)
            for life in self.lives
            for step in life.steps
        )
        return Report(
            [answer.served for answer in self.answers],
            steps,
            preemptions=sum(step.preemptions for step in steps),
            computed_tokens=sum(step.num_tokens for step in steps),
        )

    @property
    def hit_rate(self) -> float:
        """Of the prompts' tokens, those that were found in a replica's cache."""
        found = sum(answer.served.cached for answer in self.answers)
        return found / sum(answer.served.prompt for answer in self.answers)

    @property
    def seconds(self) -> float:
        """From the first arrival to the last token."""
        first = min(answer.served.arrival for answer in self.answers)
        return self.answers[-1].served.end - first

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all answers, in the mean over all the time."""
        return sum(answer.served.output for answer in self.answers) / self.seconds

    @property
    def loads(self) -> dict[int, float]:
        """How many requests each replica had, in the mean over all the time."""
        seconds = self.seconds
        found = dict.fromkeys(sorted({life.replica for life in self.lives}), 0.0)
        for life in self.lives:
            present = [s.seconds * (s.running + s.waiting) for s in life.steps]
            found[life.replica] += sum(present) / seconds
        return found

    @property
    def balance(self) -> float:
        """The load of the most loaded replica over the mean; 1 is even."""
        loads = self.loads.values()
        return max(loads) / fmean(loads)


def wait_of(values: Sequence[float]) -> Wait:
    """Mean, median, and 99th percentile; of 0 to 9: 4.5, 4.5, 8.91."""
    found = [*values]
    p99 = quantiles(found, n=100, method="inclusive")[98] if found[1:] else found[0]
    return Wait(fmean(found), median(found), p99)
