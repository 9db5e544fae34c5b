"""Appendix F: what users of a simulated server would have seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean, quantiles
from typing import NamedTuple

from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request


class Served(NamedTuple):
    """A request that was answered; all times in seconds."""

    arrival: float
    first_token: float  # when it came
    end: float  # when the last token came
    prompt: int  # tokens
    output: int  # tokens, of the longest of its answers
    cached: int  # tokens of the prompt that it found in the cache
    preemptions: int

    @property
    def time_to_first_token(self) -> float:
        """From the arrival."""
        return self.first_token - self.arrival

    @property
    def time_per_token(self) -> float:
        """Of those after the first; 0 if there are none."""
        return (self.end - self.first_token) / max(1, self.output - 1)

    @property
    def latency(self) -> float:
        """From the arrival to the last token."""
        return self.end - self.arrival

    @property
    def normalized_latency(self) -> float:
        """Latency for each token of the answer, as in section 6.1 of the paper."""
        return self.latency / self.output


class Moment(NamedTuple):
    """A step, as it ended."""

    end: float
    seconds: float  # that it took
    running: int  # requests that hold blocks
    waiting: int
    used_blocks: int
    num_tokens: int  # computed
    preemptions: int  # that made room for it
    replica: int = 0  # whose step it is


class Summary(NamedTuple):
    """Of all requests, in seconds."""

    mean: float
    p99: float  # the 99th percentile


@dataclass
class Report(Observer):
    """Who was served, and step by step what was there."""

    served: list[Served] = field(default_factory=list, repr=False)  # as they ended
    timeline: list[Moment] = field(default_factory=list, repr=False)
    preemptions: int = 0
    moved_blocks: int = 0  # out to the swap space, and back
    computed_tokens: int = 0
    recomputed_tokens: int = 0  # of these, because of a preemption

    def preempted(self, request: Request) -> None:
        """Called by the scheduler: the blocks of a request were taken."""
        self.preemptions += 1

    def planned(self, plan: Plan) -> None:
        """Called by the scheduler: this is computed next."""
        self.computed_tokens += plan.num_tokens
        if self.preemptions:
            self.recomputed_tokens += sum(work.num_recomputed for work in plan.works)

    @property
    def seconds(self) -> float:
        """When the last step ended."""
        return self.timeline[-1].end if self.timeline else 0.0

    def summary(self, name: str) -> Summary:
        """Mean and P99; for example of `time_to_first_token`, as Served names it."""
        values = [getattr(one, name) for one in self.served]
        return Summary(fmean(values), _p99(values))

    @property
    def mean_running(self) -> float:
        """How many requests ran at one time, averaged over busy time."""
        busy = sum(moment.seconds for moment in self.timeline)
        return sum(moment.seconds * moment.running for moment in self.timeline) / busy

    @property
    def share_cached(self) -> float:
        """Of the prompts' tokens, those that were found in a prefix cache."""
        found = sum(one.cached for one in self.served)
        return found / sum(one.prompt for one in self.served)


def merged(reports: Sequence[Report]) -> Report:
    """Of several replicas: all requests in the order of their ends, and all steps."""
    steps = [
        moment._replace(replica=number)
        for number, report in enumerate(reports)
        for moment in report.timeline
    ]
    served = chain.from_iterable(report.served for report in reports)
    return Report(
        sorted(served, key=lambda one: one.end),
        sorted(steps),
        *[
            sum(getattr(report, name) for report in reports)
            for name in (
                "preemptions",
                "moved_blocks",
                "computed_tokens",
                "recomputed_tokens",
            )
        ],
    )


def _p99(values: list[float]) -> float:
    """The 99th percentile, between two values if need be: of 0 to 9 it is 8.91."""
    return quantiles(values, n=100, method="inclusive")[98] if values[1:] else values[0]
