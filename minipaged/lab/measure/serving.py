"""Lab: what preemption costs a server, by the scheduler alone, without a model."""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from minipaged.lab.measure.step_clock import StepClock
from minipaged.lab.measure.without_model import Places, steps
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.contiguous import RequestLengths
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.observer import Observer, Observers
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.request import Request


class Served(NamedTuple):
    """What it took until all were answered."""

    seconds: float  # on the clock; transfers of blocks take none
    preemptions: int
    recomputed_tokens: int
    moved_blocks: int  # to the swap space; as many come back
    computed_tokens: int  # in all


class _Count(Observer):
    """Adds up what preemptions cost."""

    def __init__(self) -> None:
        self.preemptions = self.tokens = self.blocks = self.computed = 0

    def preempted(self, request: Request) -> None:
        """Shared blocks move once."""
        self.preemptions += 1
        places = request.swapped.places if request.swapped else ()
        self.blocks += len({row for own in places for row in own})

    def planned(self, plan: Plan) -> None:
        """Some of it was computed before."""
        self.tokens += sum(work.num_recomputed for work in plan.works)
        self.computed += plan.num_tokens


def serve_lengths(
    chats: Sequence[RequestLengths],
    num_blocks: int,
    clock: StepClock,
    *,
    cached: bool = False,
    swaps: bool = False,
    block_size: int = 16,
) -> Served:
    """Serve chats of these lengths, all there at once; no token is really computed.

    cached: with a prefix cache; no two prompts are alike, so it only serves those that
    come back. swaps: with a swap space as large as the pool.
    """
    pool, count = BlockPool(num_blocks, block_size), _Count()
    scheduler = PreemptingScheduler(
        pool,
        PrefixCache(pool) if cached else None,
        max_tokens=2048,
        swap_space=Places(num_blocks, block_size) if swaps else None,
        observers=Observers([clock, count]),
    )
    for number, chat in enumerate(chats):
        prompt = [number] + [0] * (chat.prompt - 1)
        scheduler.add(Request(prompt, max_new_tokens=chat.output))
    for _ in takewhile(lambda plan: plan.works, steps(scheduler)):
        pass
    counts = count.preemptions, count.tokens, count.blocks, count.computed
    return Served(clock.moment, *counts)
