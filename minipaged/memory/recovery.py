"""Lesson 2: a pool whose bookkeeping was interrupted, made right again (the border)."""

from collections import OrderedDict

from minipaged.memory.block_pool import BlockPool


def holders_of(pool: BlockPool) -> list[int]:
    """How many holders each block has now."""
    return pool._refcounts.copy()


def recover(pool: BlockPool, holders: list[int]) -> None:
    """From now on these are the holders of each block, and who has none is free.

    What else the pool has noted may be half done. Which free blocks can still be found
    is asked of the prefix cache: a block that was handed out is no longer known there.
    """
    free = [i for i in reversed(range(pool.num_blocks)) if not holders[i]]
    in_order = dict.fromkeys([*pool._cached, *free])  # the longest unused first
    cached = [i for i in in_order if not holders[i] and pool.is_cached(i)]
    pool._refcounts = list(holders)
    pool._cached = OrderedDict.fromkeys(cached)
    pool._free = [i for i in free if i not in pool._cached]
