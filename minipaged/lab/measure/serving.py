"""Lab: what preemption costs a server, by the scheduler alone, without a model."""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from minipaged.lab.measure.step_clock import StepClock
from minipaged.lab.measure.without_model import Places, steps
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.contiguous import RequestLengths
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.observer import Observers
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.request import Request


class Served(NamedTuple):
    """What it took until all were answered."""

    seconds: float  # on the clock; transfers of blocks take none
    preemptions: int
    recomputed_tokens: int
    moved_blocks: int  # to the swap space; as many come back
    computed_tokens: int  # in all


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
    pool, places = BlockPool(num_blocks, block_size), Places(num_blocks, block_size)
    scheduler = PreemptingScheduler(
        pool,
        PrefixCache(pool) if cached else None,
        max_tokens=2048,
        swap_space=places if swaps else None,
        observers=Observers([clock]),
    )
    requests = [
        Request([number] + [0] * (chat.prompt - 1), max_new_tokens=chat.output)
        for number, chat in enumerate(chats)
    ]
    for request in requests:
        scheduler.add(request)
    recomputed = computed = 0
    for plan in takewhile(lambda plan: plan.works, steps(scheduler)):
        recomputed += sum(work.num_recomputed for work in plan.works)
        computed += plan.num_tokens
    preemptions = sum(request.num_restarts for request in requests)
    return Served(clock.moment, preemptions, recomputed, places.num_stored, computed)
