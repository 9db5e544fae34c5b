"""The pool: who holds which block, and what happens on bad input."""

import pytest

from helpers.free_blocks import set_free_blocks
from minipaged.errors import BlockNotHeld, ForeignBlock, OutOfBlocks
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.prefix_cache import PrefixCache


def state(pool):
    return pool.num_free, [pool.refcount(b) for b in range(pool.num_blocks)]


def test_a_fresh_pool_hands_out_every_block_once_starting_with_0():
    pool = BlockPool(num_blocks=5, block_size=4)
    assert [pool.allocate() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert pool.num_free == 0


def test_the_block_freed_last_is_handed_out_first():
    pool = BlockPool(num_blocks=3, block_size=4)
    for _ in range(3):
        pool.allocate()
    for block in (1, 2, 0):
        pool.release(block)
    assert [pool.allocate() for _ in range(3)] == [0, 2, 1]


def test_one_block_too_many_is_refused_and_changes_nothing():
    pool = BlockPool(num_blocks=3, block_size=4)
    for _ in range(3):
        pool.allocate()
    before = state(pool)
    with pytest.raises(OutOfBlocks, match="wanted 1 block, 0 free of 3; free a seq"):
        pool.allocate()
    assert state(pool) == before


def test_a_shared_block_is_free_only_after_its_last_holder_lets_go():
    pool = BlockPool(num_blocks=2, block_size=4)
    block = pool.allocate()
    pool.share(block)
    pool.share(block)
    for holders_left in (2, 1, 0):
        pool.release(block)
        assert pool.refcount(block) == holders_left
        assert pool.num_free == (2 if holders_left == 0 else 1)


def test_double_release_is_refused_and_the_block_is_handed_out_once():
    pool = BlockPool(num_blocks=2, block_size=4)
    block = pool.allocate()
    pool.release(block)
    with pytest.raises(BlockNotHeld, match=f"cannot release block {block}"):
        pool.release(block)
    assert sorted([pool.allocate(), pool.allocate()]) == [0, 1]


def test_a_free_block_cannot_be_shared():
    pool = BlockPool(num_blocks=2, block_size=4)
    with pytest.raises(BlockNotHeld, match="cannot share block 1"):
        pool.share(1)
    assert state(pool) == (2, [0, 0])


@pytest.mark.parametrize("block_id", [-1, 2, 10**9, True, 0.0, None, "0"])
@pytest.mark.parametrize("action", ["share", "release", "refcount"])
def test_ids_of_no_block_are_refused(action, block_id):
    pool = BlockPool(num_blocks=2, block_size=4)
    pool.allocate()
    pool.allocate()
    before = state(pool)
    with pytest.raises(ForeignBlock, match="ids are 0 to 1"):
        getattr(pool, action)(block_id)
    assert state(pool) == before


@pytest.mark.parametrize("value", [0, -1, 1.5, "8", None, True])
@pytest.mark.parametrize("name", ["num_blocks", "block_size"])
def test_sizes_must_be_whole_numbers_from_1(name, value):
    sizes = {"num_blocks": 4, "block_size": 4, name: value}
    with pytest.raises(ValueError, match=f"{name} must be a whole number from 1"):
        BlockPool(**sizes)


@pytest.mark.parametrize("cached", [False, True])
def test_restored_holders_are_believed_whatever_else_was_noted(cached):
    """Interrupted between two lines: block 0 has a holder, and is free as well."""
    pool = BlockPool(num_blocks=5, block_size=4)
    if cached:
        PrefixCache(pool)
    held = [pool.allocate() for _ in range(3)]
    pool.share(held[1])
    before = pool.holders()
    assert before == [1, 2, 1, 0, 0]
    pool.release(held[1])
    pool.allocate()
    set_free_blocks(pool, plain=[0, 4, 4], findable=[])
    pool.restore(before)
    assert (pool.holders(), pool.num_free) == (before, 2)
    assert sorted([pool.allocate(), pool.allocate()]) == [3, 4]
    pool.restore([0] * 5)
    assert [pool.allocate() for _ in range(5)] == [0, 1, 2, 3, 4]
