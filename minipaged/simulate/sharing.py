"""Appendix F: how much memory is saved because sequences share blocks (figure 15)."""

from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.scheduler import Scheduler


class SharingMeter(Observer):
    """Counts blocks in each step: those held, and those that tables name.

    A block that three tables name would be three blocks without sharing.
    """

    def __init__(self, scheduler: Scheduler):
        """Nothing is counted yet; it becomes an observer of this scheduler."""
        self._scheduler = scheduler
        self.held = self.named = 0  # added up over all steps
        scheduler.observers.append(self)

    def planned(self, plan: Plan) -> None:
        """Called by the scheduler: tables have grown for this plan."""
        pool = self._scheduler.pool
        self.held += pool.num_blocks - pool.num_free
        for request in self._scheduler.running:
            for sequence in request.sequences:
                if sequence.table is not None:
                    self.named += len(sequence.table.block_ids)

    @property
    def saved(self) -> float:
        """Blocks saved by sharing, divided by all blocks without sharing."""
        return 1 - self.held / self.named if self.named else 0.0
