"""Lesson 4: how many blocks tables need that grow in one step (paper, section 4.4)."""

from collections.abc import Iterable

from minipaged.memory.block_table import BlockTable


def blocks_needed_together(appends: Iterable[tuple[BlockTable, int]]) -> int:
    """How many free blocks these `append(n)` calls take together: no more, no less.

    `appends` are (table, n) pairs, each table once. If all holders of a part-filled
    block write in one step, the last of them keeps it: h holders need h - 1 copies.
    """
    new_blocks, writers = 0, {}  # writers: how many want to write into a shared tail
    for table, n in appends:
        new_blocks += table._new_blocks(n)
        if table._must_copy(n):
            tail = table.pool, table.block_ids[-1]
            writers[tail] = writers.get(tail, 0) + 1
    copies = sum(
        min(num_writers, pool.refcount(block_id) - 1)
        for (pool, block_id), num_writers in writers.items()
    )
    return new_blocks + copies
