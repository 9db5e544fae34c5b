"""Appendix A: an engine's steps, one after the other; each is made as a whole."""

from minipaged.engine.loop import step
from minipaged.errors import OutOfBlocks, is_out_of_memory
from minipaged.model.runner import Runner
from minipaged.scheduling.interruption import collect_lost
from minipaged.scheduling.scheduler import Scheduler


class Steps:
    """Makes an engine's steps, each as a whole: see `loop.step`."""

    def __init__(self, runner: Runner, scheduler: Scheduler):
        """No step is made yet."""
        self._runner = runner
        self._scheduler = scheduler

    def step(self) -> None:
        """Make a step; if anything is raised, Ctrl-C included, it is undone.

        Raises MemoryError if the device has no room for what a step computes.
        """
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
