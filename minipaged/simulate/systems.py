"""Appendix F: the systems that the paper compares, on a server of its table 1."""

from collections.abc import Callable
from typing import Protocol

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.contiguous import (
    Policy,
    reserve_max,
    reserve_oracle,
    reserve_pow2,
)
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler
from minipaged.simulate.reserving import ReservingScheduler, StaticBatches
from minipaged.simulate.without_model import Places

# Of a step, for all systems: vLLM's own defaults of 2023.
LIMITS = {"max_tokens": 2560, "max_sequences": 256}


class Room(Protocol):
    """What a system must know of a server: a Server, or a FittedServer."""

    num_slots: int  # token positions whose K and V fit
    max_length: int  # positions of the model
    block_size: int


System = Callable[[Room], Scheduler]


def paged(server: Room) -> Scheduler:
    """vLLM: blocks, and preemption by recompute."""
    return PreemptingScheduler(_pool(server), **LIMITS)


def paged_with_cache(server: Room) -> Scheduler:
    """The same with a prefix cache."""
    pool = _pool(server)
    return PreemptingScheduler(pool, PrefixCache(pool), **LIMITS)


def paged_with_swap(server: Room) -> Scheduler:
    """The same, but preemption by swap, with as many places as blocks."""
    pool = _pool(server)
    space = Places(pool.num_blocks, pool.block_size)
    return PreemptingScheduler(pool, swap_space=space, **LIMITS)


def fits(scheduler: Scheduler, request: Request) -> bool:
    """Can this scheduler, which is idle, serve the request, whatever beams share?"""
    if isinstance(scheduler, ReservingScheduler):
        return scheduler.fits(request)
    most = request.blocks_at_most(scheduler.pool.block_size)
    return (
        request.num_parallel <= scheduler.max_tokens
        and most <= scheduler.pool.num_blocks
    )


def _pool(server: Room) -> BlockPool:
    return BlockPool(server.num_slots // server.block_size, server.block_size)


def _reserving(policy: Policy, kind: type[ReservingScheduler]) -> System:
    def make(server: Room) -> Scheduler:
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
VARIANTS: dict[str, System] = {
    "vLLM, prefix cache": paged_with_cache,
    "vLLM, swap": paged_with_swap,
}
