"""Lab: a real engine's run, reported as a simulation is, and each of its steps."""

from collections import deque
from collections.abc import Iterable
from statistics import fmean

from minipaged.engine.engine import Engine
from minipaged.engine.stream import Stream
from minipaged.scheduling.plan import Plan
from minipaged.simulate.costs import StepLoad, load_of
from minipaged.simulate.fit import Measured
from minipaged.simulate.report import Moment, Report, Served


class EngineReport(Report):
    """Watches an engine without a request; `tell` completes it after the run.

    Attributes, beside a Report's: steps (what each did, and the seconds that it took,
    up to the next one if that follows at once).
    """

    def __init__(self, engine: Engine):
        """Nothing has happened yet; it becomes an observer of this engine."""
        super().__init__()
        self.steps: list[Measured] = []
        self._engine = engine
        self._planned: deque[tuple[float, StepLoad, int, int]] = deque()
        self._num_told = 0  # preemptions of the steps so far
        self._follows = False  # does a step follow at once?
        engine.scheduler.observers.append(self)

    def planned(self, plan: Plan) -> None:
        """Called by the scheduler: this is computed next."""
        super().planned(plan)
        scheduler = self._engine.scheduler
        used = scheduler.pool.num_blocks - scheduler.pool.num_free
        now = self._engine.clock.now()
        self._planned.append((now, load_of(plan), len(scheduler.running), used))

    def committed(self, plan: Plan) -> None:
        """Called by the scheduler: a step is over."""
        began, load, running, used = self._planned.popleft()
        start = self.timeline[-1].end if self._follows else began
        end = self._engine.clock.now()
        scheduler = self._engine.scheduler
        self._follows = bool(scheduler.running or scheduler.waiting)
        self.steps.append(Measured(load, end - start))
        self.timeline.append(
            Moment(
                end=end,
                seconds=end - start,
                running=running,
                waiting=len(scheduler.waiting),
                used_blocks=used,
                num_tokens=plan.num_tokens,
                preemptions=self.preemptions - self._num_told,
            )
        )
        self._num_told = self.preemptions

    def means(self, size: int = 8) -> list[Measured]:
        """Means of `size` steps in a row, because one may have been held up."""
        found = []
        for at in range(0, len(self.steps), size):
            loads, seconds = zip(*self.steps[at : at + size], strict=True)
            mean = StepLoad(*map(fmean, zip(*loads, strict=True)))
            found.append(Measured(mean, fmean(seconds)))
        return found

    def tell(self, streams: Iterable[Stream]) -> "EngineReport":
        """What the users of these streams, all answered, have seen; returns itself."""
        self.served = [
            Served(
                arrival=stream.arrival,
                first_token=stream.first_token_at,
                end=stream.finished_at,
                prompt=len(stream.request.prompt),
                output=max(map(len, stream.output.sequences)),
                cached=stream.num_cached_tokens,
                preemptions=stream.num_preemptions,
            )
            for stream in streams
        ]
        return self
