"""Lesson 2: who may start: certain to finish, in order; lesson 3: cached prefixes."""

from collections import deque
from typing import TYPE_CHECKING

from minipaged.decoding.request import Request
from minipaged.decoding.sequence import Sequence
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache


def admit(
    waiting: deque[Request],
    running: list[Request],
    pool: BlockPool,
    prefix_cache: "PrefixCache | None" = None,
) -> None:
    """Move requests from the queue to those running, while their blocks are certain.

    First come first served. A request is admitted if, after all that those running may
    still take, enough blocks are left for its own worst case: what is not cached, and
    cached blocks that are free now. One whose next block somebody is just computing
    waits a step, and finds it then.
    """
    if not waiting:
        return
    size = pool.block_size
    promised = sum(one.blocks_at_most(size) - one.num_blocks_held for one in running)
    while waiting:
        request, cached = waiting[0], []
        if prefix_cache is not None:
            cached = prefix_cache.find(request.prompt, request.salt)
        still_to_take = request.blocks_at_most(size) - len(cached)
        free_now = sum(pool.refcount(block_id) == 0 for block_id in cached)
        if promised + still_to_take + free_now > pool.num_free:
            return
        if prefix_cache is not None:
            if _is_being_computed(request, len(cached), running, size):
                return
            cached = prefix_cache.match(request.prompt, request.salt)
        promised += still_to_take
        request.num_cached_tokens = len(cached) * size
        table = BlockTable(pool, cached, request.num_cached_tokens)
        request.sequences = [Sequence(request.prompt, table)]
        running.append(waiting.popleft())
        for observer in request.observers:
            observer.admitted(request)


def _is_being_computed(
    request: Request, num_cached: int, running: list[Request], size: int
) -> bool:
    """Is somebody computing the block that comes after the cached ones?"""
    stop = (num_cached + 1) * size
    if stop >= len(request.prompt):  # no whole block before the last token
        return False
    start = request.prompt[:stop]
    return any(
        one.salt == request.salt
        and one.sequences[0].table.num_tokens < stop
        and one.prompt[:stop] == start
        for one in running
    )
