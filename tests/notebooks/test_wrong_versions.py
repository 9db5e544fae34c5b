"""The lessons' deliberately wrong versions: the package's own tests reject them too."""

from notebook_files import NOTEBOOKS, definition, load

import minipaged as mp
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

LESSONS = {path.stem[:2]: load(path) for path in NOTEBOOKS}


def holds_are_counted(pool: BlockPool) -> bool:
    """A block shared once is free only after the second release."""
    block = pool.allocate()
    pool.share(block)
    pool.release(block)
    still_held = pool.num_free == pool.num_blocks - 1
    pool.release(block)
    return still_held and pool.num_free == pool.num_blocks


def every_token_has_a_slot(table: BlockTable) -> bool:
    """After each append, all positions have slots, and all are different."""
    for _ in range(40):
        table.append(1)
        slots = table.slots(0, table.num_tokens)
        if len(set(slots)) != table.num_tokens:
            return False
    return True


def test_a_release_that_forgets_the_count():
    wrong = definition(LESSONS["02"], "ForgetfulPool", {"mp": mp})
    assert holds_are_counted(BlockPool(4, 4))
    assert not holds_are_counted(wrong(4, 4))


def test_a_table_that_is_late():
    wrong = definition(LESSONS["02"], "LateTable", {"mp": mp})
    assert every_token_has_a_slot(BlockTable(BlockPool(16, 4)))
    assert not every_token_has_a_slot(wrong(BlockPool(16, 4)))
