"""Appendix A: stands in for a model where only the scheduler is looked at."""

from collections.abc import Iterator, Sequence

from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.scheduler import Scheduler


def answer_all(plan: Plan) -> None:
    """Whoever asks for logits gets a token, and ends after as many as it may have."""
    for work in plan.works:
        if work.num_logits:
            work.sequence.append(0)
            if work.sequence.num_new == work.request.max_new_tokens:
                work.sequence.end("length")


def steps(scheduler: Scheduler) -> Iterator[Plan]:
    """The scheduler's plans without end; those without works say that nobody is there.

    A step is over, and its tokens are chosen, when the next plan is asked for. Requests
    can be added until then.
    """
    while True:
        plan = scheduler.schedule()
        yield plan
        answer_all(plan)
        scheduler.commit(plan)


class Places:
    """A SwapSpace that counts places and keeps no K and V: here there are none."""

    def __init__(self, num_blocks: int, block_size: int):
        """All places are free."""
        self.pool = BlockPool(num_blocks, block_size)
        self.num_stored = 0  # blocks so far
        self.num_moved = 0  # of these, and of those that were brought back

    def store(self, block_ids: Sequence[int]) -> list[int]:
        """Take a place for each; the scheduler has asked whether there are so many."""
        self.num_stored += len(block_ids)
        self.num_moved += len(block_ids)
        return [self.pool.allocate() for _ in block_ids]

    def load(self, places: Sequence[int], block_ids: Sequence[int]) -> None:
        """Bring nothing back; the places stay taken, as those of a SwapSpace do."""
        self.num_moved += len(block_ids)
