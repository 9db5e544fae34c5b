"""Appendix F: the systems that the paper compares, on a server of its table 1."""

from collections.abc import Callable

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.contiguous import (
    Policy,
    reserve_max,
    reserve_oracle,
    reserve_pow2,
)
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.scheduler import Scheduler
from minipaged.simulate.reserving import ReservingScheduler, StaticBatches
from minipaged.simulate.servers import Server
from minipaged.simulate.without_model import Places

# Of a step, for all systems: vLLM's own defaults of 2023.
LIMITS = {"max_tokens": 2560, "max_sequences": 256}

System = Callable[[Server], Scheduler]


def paged(server: Server, *, swaps: bool = False) -> Scheduler:
    """vLLM: blocks, and preemption by recompute, or by swap with a place a block."""
    space = Places(server.num_blocks, server.block_size) if swaps else None
    pool = BlockPool(server.num_blocks, server.block_size)
    return PreemptingScheduler(pool, swap_space=space, **LIMITS)


def paged_with_cache(server: Server) -> Scheduler:
    """The same with a prefix cache."""
    pool = BlockPool(server.num_blocks, server.block_size)
    return PreemptingScheduler(pool, PrefixCache(pool), **LIMITS)


def _reserving(policy: Policy, kind: type[ReservingScheduler]) -> System:
    def make(server: Server) -> Scheduler:
        return kind.over(server.num_slots, server.max_length, policy, **LIMITS)

    return make


orca_max = _reserving(reserve_max, ReservingScheduler)
orca_pow2 = _reserving(reserve_pow2, ReservingScheduler)
orca_oracle = _reserving(reserve_oracle, ReservingScheduler)
faster_transformer = _reserving(reserve_max, StaticBatches)

SYSTEMS: dict[str, System] = {
    "vLLM": paged,
    "Orca (Oracle)": orca_oracle,
    "Orca (Pow2)": orca_pow2,
    "Orca (Max)": orca_max,
    "FasterTransformer": faster_transformer,
}
