"""Lab: what preemption costs a server, by the scheduler alone, without a model."""

from collections.abc import Sequence
from typing import NamedTuple

from minipaged.lab.measure.step_clock import StepClock
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.contiguous import RequestLengths
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.simulate.loop import Arrival, simulate
from minipaged.simulate.script import Script
from minipaged.simulate.without_model import Places


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
    )
    arrivals = [
        Arrival(0.0, Script([chat.output]).request([number] * chat.prompt))
        for number, chat in enumerate(chats)
    ]
    report = simulate(scheduler, arrivals, clock)
    return Served(
        report.seconds,
        report.preemptions,
        report.recomputed_tokens,
        places.num_stored,
        report.computed_tokens,
    )
