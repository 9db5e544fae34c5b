"""Appendix F: how much of a server's memory holds tokens (figure 2)."""

from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.scheduler import Scheduler


class MemoryMeter(Observer):
    """Counts the slots that hold a token, in each step in which a request waits.

    Only then is an empty slot a loss. For requests that share nothing: a shared token
    would count once for each sequence.
    """

    def __init__(self, scheduler: Scheduler, num_slots: int):
        """Nothing is counted yet; it becomes an observer of this scheduler."""
        self._scheduler = scheduler
        self._num_slots = num_slots
        self.num_tokens = self.num_steps = 0  # added up over these steps
        scheduler.observers.append(self)

    def planned(self, plan: Plan) -> None:
        """Called by the scheduler: tables have grown for this plan."""
        if self._scheduler.waiting:
            self.num_steps += 1
            for request in self._scheduler.running:
                for sequence in request.sequences:
                    if sequence.table is not None:
                        self.num_tokens += sequence.table.num_tokens

    @property
    def filled(self) -> float:
        """The share of all slots that holds tokens; 0 if nobody ever waits."""
        return self.num_tokens / max(1, self.num_steps * self._num_slots)
