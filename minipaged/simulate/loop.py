"""Appendix F: requests, the real scheduler, and a clock that jumps from step to step.

The scheduler, its pool, tables, prefix cache and preemptions are those that serve. Only
the forward is left out: a cost model says how long it would take, and a script what it
would say. Real code under jumping time is the idea of Revati (2026), for vLLM.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler
from minipaged.simulate.costs import CostModel
from minipaged.simulate.report import Moment, Report, Served


class Arrival(NamedTuple):
    """A request whose strategy is a Script, and when it comes (seconds)."""

    moment: float
    request: Request


class Replica:
    """A scheduler whose steps take the seconds that `costs` says.

    An engine that runs one step ahead plans a step when the step before it begins. So
    requests that arrive in between wait for a step more.

    Attributes: scheduler; now (when the next step begins); report.
    """

    def __init__(
        self, scheduler: Scheduler, costs: CostModel, runs_ahead: bool = False
    ):
        """Nothing has arrived yet; it is moment 0."""
        self.scheduler = scheduler
        self.costs = costs
        self.runs_ahead = runs_ahead
        self.now = 0.0
        self._plans_at = 0.0  # when the next step is planned
        self.report = Report()
        scheduler.observers.append(self.report)
        self._arrived: dict[Request, float] = {}
        self._started: dict[Request, float] = {}  # when its first token came
        self._space = getattr(scheduler, "swap_space", None)  # None, or Places

    def add(self, arrival: Arrival) -> None:
        """Let it wait. Call `run_until` its moment before."""
        moment, request = arrival
        if not self.is_busy:
            self.now = self._plans_at = max(self.now, moment)
        self._arrived[request] = moment
        self.scheduler.add(request)

    @property
    def is_busy(self) -> bool:
        """Does any request wait or run?"""
        return bool(self.scheduler.running or self.scheduler.waiting)

    @property
    def num_requests(self) -> int:
        """How many requests wait and run."""
        return len(self.scheduler.running) + len(self.scheduler.waiting)

    def run_until(self, moment: float = inf) -> None:
        """Make all steps that are planned before `moment`; they may end after it."""
        while self._plans_at < moment and self.is_busy:
            self._step()

    def _step(self) -> None:
        """Schedule, let time pass, say tokens, commit: `loop.step` without a model."""
        scheduler = self.scheduler
        report = self.report
        preempted = report.preemptions
        plan = scheduler.schedule()
        moved = 0
        if self._space is not None:
            moved = self._space.num_moved - report.moved_blocks
            report.moved_blocks += moved
        seconds = self.costs.step_seconds(plan, moved)
        begin, self.now = self.now, self.now + seconds
        self._plans_at = begin if self.runs_ahead else self.now
        running = len(scheduler.running)
        used = scheduler.pool.num_blocks - scheduler.pool.num_free
        for request in dict.fromkeys([w.request for w in plan.works if w.num_logits]):
            script = request.strategy
            is_over = script.say(request)
            if script.num_said == 1:
                self._started[request] = self.now
            if is_over:
                report.served.append(self._served(request))
        scheduler.commit(plan)
        waiting = len(scheduler.waiting)
        report.timeline.append(
            Moment(
                end=self.now,
                seconds=seconds,
                running=running,
                waiting=waiting,
                used_blocks=used,
                num_tokens=plan.num_tokens,
                preemptions=report.preemptions - preempted,
            )
        )

    def _served(self, request: Request) -> Served:
        return Served(
            arrival=self._arrived.pop(request),
            first_token=self._started.pop(request),
            end=self.now,
            prompt=len(request.prompt),
            output=request.strategy.num_said,
            cached=request.num_cached_tokens,
            preemptions=request.num_restarts,
        )


def simulate(
    scheduler: Scheduler,
    arrivals: Iterable[Arrival],
    costs: CostModel,
    runs_ahead: bool = False,
) -> Report:
    """Serve these requests, in the order of their arrivals, until all have ended.

    Requests that arrive during a step wait for the next, or, if the engine
    `runs_ahead`, for the one after it; tokens come at a step's end. Raises OutOfBlocks
    for a request that does not fit even alone.
    """
    replica = Replica(scheduler, costs, runs_ahead)
    for arrival in arrivals:
        replica.run_until(arrival.moment)
        replica.add(arrival)
    replica.run_until()
    return replica.report
