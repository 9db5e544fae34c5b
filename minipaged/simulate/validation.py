"""Appendix F: traces that a real engine served, and the simulator beside it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.simulate.costs import CostModel
from minipaged.simulate.loop import simulate
from minipaged.simulate.report import Moment, Report, Served, Summary
from minipaged.simulate.traces import LENGTHS, Asked, arrivals, poisson_trace

WAITS = ("time_to_first_token", "time_per_token", "latency")


class Load(NamedTuple):
    """A made-up trace, by its numbers."""

    lengths: str  # a name in `traces.LENGTHS`
    count: int  # requests
    rate: float  # requests a second
    prefix: int = 0  # tokens that all prompts share; if any, there is a prefix cache
    seed: int = 0

    def trace(self) -> list[Asked]:
        """The requests; the same numbers give the same requests."""
        lengths = LENGTHS[self.lengths](self.count, self.seed)
        return poisson_trace(lengths, self.rate, self.seed, self.prefix)


class Limits(NamedTuple):
    """Of the engine that served."""

    num_blocks: int
    block_size: int
    max_tokens: int
    max_sequences: int

    def scheduler(self, with_cache: bool) -> PreemptingScheduler:
        """As the engine's own, over an empty pool."""
        num_blocks, block_size, max_tokens, max_sequences = self
        pool = BlockPool(num_blocks, block_size)
        return PreemptingScheduler(
            pool,
            PrefixCache(pool) if with_cache else None,
            max_tokens=max_tokens,
            max_sequences=max_sequences,
        )


@dataclass(frozen=True)
class Validation:
    """A load that an engine served in true time.

    Attributes: load; limits; runs_ahead, as in `Replica`; report, of what was measured.
    """

    load: Load
    limits: Limits
    runs_ahead: bool
    report: Report

    def simulated(self, costs: CostModel) -> Report:
        """The same load and limits, with these costs and a clock that jumps."""
        scheduler = self.limits.scheduler(with_cache=self.load.prefix > 0)
        trace = arrivals(self.load.trace())
        return simulate(scheduler, trace, costs, runs_ahead=self.runs_ahead)


class Beside(NamedTuple):
    """One of WAITS, in seconds, and how far the simulator is off."""

    name: str
    measured: Summary
    simulated: Summary

    @property
    def off(self) -> Summary:
        """Relative: 0.05 is 5 % more than measured."""
        pairs = zip(self.simulated, self.measured, strict=True)
        return Summary(*[ours / theirs - 1 for ours, theirs in pairs])


def beside(measured: Report, simulated: Report) -> Iterator[Beside]:
    """Mean and P99 of each of WAITS, of both."""
    for name in WAITS:
        yield Beside(name, measured.summary(name), simulated.summary(name))


def stored(validation: Validation, keep: int = 10**9) -> dict[str, Any]:
    """For a JSON file; of the timeline, about `keep` steps, evenly."""
    report = validation.report
    every = max(1, len(report.timeline) // keep)
    return {
        "load": validation.load._asdict(),
        "limits": validation.limits._asdict(),
        "runs_ahead": validation.runs_ahead,
        "served": [_rounded(one) for one in report.served],
        "timeline": [_rounded(moment) for moment in report.timeline[::every]],
    }


def read_validations(path: str | Path) -> list[Validation]:
    """What benchmarks.gpu.simulated has stored."""
    found = json.loads(Path(path).read_text("utf-8"))
    return [
        Validation(
            Load(**one["load"]),
            Limits(**one["limits"]),
            one["runs_ahead"],
            Report(
                [Served(*numbers) for numbers in one["served"]],
                [Moment(*numbers) for numbers in one["timeline"]],
            ),
        )
        for one in found["validations"]
    ]


def _rounded(numbers: tuple[float, ...]) -> list[float]:
    return [round(number, 5) for number in numbers]
