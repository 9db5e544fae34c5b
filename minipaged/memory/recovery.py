"""Lesson 2: a pool whose bookkeeping was interrupted, made right again (the border)."""

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
    pool._refcounts = list(holders)
    if isinstance(pool._free, list):
        pool._free = free
    else:
        pool._free.rebuild(free)  # lesson 3
