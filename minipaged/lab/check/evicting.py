"""Lab: the check of lesson 3's exercise on which free block is handed out next."""

from random import Random

from minipaged.lab.check.diagnose import diagnose
from minipaged.lab.check.lesson3 import because
from minipaged.lab.check.verdict import Attempt, exercise
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.prefix_cache import PrefixCache

Table = tuple[list[int], int]  # its block ids, and its number of tokens
# What is forgotten if it is wrong: the right order, unused blocks, the tables that end,
# and the block size.
ORDERS: dict[str, tuple[list[int], list[int], list[Table], int]] = {
    "a table frees its last block first, and what is freed first goes first": (
        ([1, 0], [], [([0, 1], 4)], 2)
    ),
    "blocks 0 and 1 are full, so they can be found: unused ones go before them": (
        ([4, 5, 1, 0], [4, 5], [([0, 1], 4)], 2)
    ),
    "block 2 is not full: it cannot be found, and of such blocks the one freed "
    "last goes first; unused ones were never freed": (
        [2, 3, 1, 0],
        [3],
        [([0, 1, 2], 5)],
        2,
    ),
    "blocks 1 and 3 are not full, and 3 was freed last": (
        ([3, 1, 6, 0, 2], [6], [([0, 1], 3), ([2, 3], 3)], 2)
    ),
    "the first table was freed before the second": (
        ([1, 0, 3, 2], [], [([0, 1], 4), ([2, 3], 4)], 2)
    ),
    "block 0 is free when its last holder ends, and it is free once": (
        ([1, 2, 0], [], [([0, 1], 4), ([0, 2], 4)], 2)
    ),
    "the last holder of blocks 0 and 1 is the third table": (
        [3, 2, 7, 5, 4, 1, 0],
        [7],
        [([0, 1, 2], 5), ([0, 3], 3), ([0, 1, 4, 5], 8)],
        2,
    ),
    "block 1 was handed out again: what counts is the last table that names it": (
        ([1, 0, 2], [], [([0, 1], 4), ([2, 1], 3)], 2)
    ),
    "blocks may have one slot each": ([1, 0, 2], [], [([0, 1], 2), ([2], 1)], 1),
    "blocks may have three slots": ([3, 1, 0, 2], [1], [([0], 3), ([2, 3], 4)], 3),
    "unused blocks come in the order in which they are given": (
        ([2, 1], [2, 1], [], 2)
    ),
}


@exercise
def free_order(attempt: Attempt) -> None:
    """(unused, tables, block_size) -> all blocks, the next one handed out first."""
    for reason, case in ORDERS.items():
        with because(reason):
            _expect_order(attempt, *case)
    for seed in range(40):
        _expect_order(attempt, *_after_a_while(Random(seed)))


def _expect_order(
    attempt: Attempt,
    expected: list[int],
    unused: list[int],
    tables: list[Table],
    size: int,
) -> None:
    found = attempt(unused, tables, size)
    ends = "".join(f"; {ids} ends with {count} tokens" for ids, count in tables)
    diagnose(f"blocks of {size}, {unused} unused{ends}", found, expected)


def _after_a_while(rng: Random) -> tuple[list[int], list[int], list[Table], int]:
    """The order of a live pool whose sequences have all ended, and how it came."""
    size = rng.randint(1, 3)
    pool = BlockPool(num_blocks=9, block_size=size)
    cache, held = PrefixCache(pool), []
    ended: list[Table] = []
    unused = set(range(9))
    for _ in range(12):
        tokens = [rng.randint(0, 1) for _ in range(rng.randint(1, 4 * size))]
        if rng.random() < 0.6 and -(-len(tokens) // size) <= pool.num_free:
            cached = cache.match(tokens)
            table = BlockTable(pool, cached, len(cached) * size)
            table.append(len(tokens) - table.num_tokens)
            cache.publish(tokens, table.block_ids)
            unused -= set(table.block_ids)
            held.append(table)
        elif held:
            _end(held.pop(rng.randrange(len(held))), ended)
    while held:
        _end(held.pop(rng.randrange(len(held))), ended)
    order = [pool.allocate() for _ in range(9)]
    return order, sorted(unused), ended, size


def _end(table: BlockTable, ended: list[Table]) -> None:
    ended.append((list(table.block_ids), table.num_tokens))
    table.free()
