"""Appendix A: an engine's steps, one after the other; each is made as a whole."""

import gc

from minipaged.engine.loop import step
from minipaged.errors import OutOfBlocks, is_out_of_memory
from minipaged.model.runner import Runner
from minipaged.scheduling.interruption import collect_lost
from minipaged.scheduling.scheduler import Scheduler


class Steps:
    """Makes an engine's steps, each as a whole: see `loop.step`.

    Python's garbage collector runs between the steps, not in them. A step makes
    thousands of small objects and drops nearly all of them, without a cycle. The
    collector would look for cycles whenever it has counted 700 more objects: several
    times in a step, and now and then among all objects of the engine, which takes as
    long as two or three steps.
    """

    def __init__(self, runner: Runner, scheduler: Scheduler):
        """No step is made yet."""
        self._runner = runner
        self._scheduler = scheduler
        self._must_enable = False  # the collector, when the step ends

    def step(self) -> None:
        """Make a step; if anything is raised, Ctrl-C included, it is undone.

        Raises MemoryError if the device has no room for what a step computes.
        """
        # If Ctrl-C comes before `gc.enable`, the next step enables it, or `close`.
        self._must_enable |= gc.isenabled()
        try:
            gc.disable()
            self._make_or_explain()
        finally:
            if self._must_enable:
                gc.enable()
                self._must_enable = False

    def close(self) -> None:
        """Leave the collector as it was; a second call changes nothing."""
        if self._must_enable:
            gc.enable()
            self._must_enable = False

    def _make_or_explain(self) -> None:
        try:
            try:
                self._make()
            except OutOfBlocks:
                if not collect_lost(self._scheduler.pool):
                    raise
                self._make()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise MemoryError(
                f"a step of up to {self._scheduler.max_tokens:,} tokens has no room on "
                f"{self._runner.paged.device}; lower max_tokens of the Engine, or "
                "num_blocks of the PagedModel"
            ) from error

    def _make(self) -> None:
        step(self._runner, self._scheduler)

    def land(self) -> None:
        """End the steps in flight: there are none."""


def make_steps(runner: Runner, scheduler: Scheduler) -> Steps:
    """Steps that run one ahead, if this runner can; else the steps of lesson 2."""
    if not runner.runs_ahead:
        return Steps(runner, scheduler)
    from minipaged.engine.ahead import StepsAhead  # appendix D

    return StepsAhead(runner, scheduler)
