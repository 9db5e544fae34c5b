"""Tables: positions to slots, forks, and copy-on-write."""

import pytest

from minipaged.errors import BlockNotHeld, OutOfBlocks, TableFreed
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.prefix_cache import PrefixCache


def table_over(block_ids, num_tokens, block_size=16, num_blocks=16):
    pool = BlockPool(num_blocks, block_size)
    for _ in range(num_blocks):
        pool.allocate()
    for block in set(range(num_blocks)) - set(block_ids):
        pool.release(block)
    return BlockTable(pool, block_ids, num_tokens)


def test_slots_of_35_tokens_in_blocks_5_12_3():
    table = table_over([5, 12, 3], num_tokens=35)
    assert [table.slot(p) for p in (0, 15, 16, 31, 32, 34)] == [
        80,
        95,
        192,
        207,
        48,
        50,
    ]
    assert table.slots(14, 18) == [94, 95, 192, 193]
    assert table.slots(0, 35) == [table.slot(p) for p in range(35)]


@pytest.mark.parametrize("span", [(0, 36), (-1, 3), (5, 4), (35, 36)])
def test_slots_without_room_are_refused(span):
    with pytest.raises(IndexError, match="holds 0 to 34"):
        table_over([5, 12, 3], num_tokens=35).slots(*span)


@pytest.mark.parametrize("block_size", [1, 8, 16])
@pytest.mark.parametrize("length", [1, 9, 16, 129])
def test_append_takes_exactly_the_blocks_it_announced(block_size, length):
    pool = BlockPool(num_blocks=200, block_size=block_size)
    table = BlockTable(pool)
    for n in (length, 1, block_size, 0):
        announced, free = table.blocks_needed(n), pool.num_free
        assert table.append(n) == []
        assert free - pool.num_free == announced
        assert len(table.block_ids) == -(-table.num_tokens // block_size)
    assert table.num_tokens == length + 1 + block_size


@pytest.mark.parametrize("block_size", [1, 8, 16])
@pytest.mark.parametrize("length", [1, 9, 16, 129])
def test_a_fork_allocates_nothing_and_freeing_the_parent_frees_nothing(
    block_size, length
):
    pool = BlockPool(num_blocks=200, block_size=block_size)
    parent = BlockTable(pool)
    parent.append(length)
    free = pool.num_free
    child = parent.fork()
    assert child.block_ids == parent.block_ids
    assert pool.num_free == free
    assert {pool.refcount(block) for block in child.block_ids} == {2}
    parent.free()
    assert pool.num_free == free
    assert {pool.refcount(block) for block in child.block_ids} == {1}


def test_the_first_writer_to_a_shared_tail_copies_and_the_last_writes_in_place():
    pool = BlockPool(num_blocks=8, block_size=4)
    parent = BlockTable(pool)
    parent.append(6)
    child = parent.fork()
    before = list(parent.block_ids)
    (copy,) = child.append(1)
    assert copy == (before[1], child.block_ids[1])
    assert parent.block_ids == before
    assert child.block_ids[0] == before[0]
    assert parent.append(1) == []  # nobody else holds its tail any more
    assert parent.block_ids == before


def test_a_full_tail_is_never_copied():
    pool = BlockPool(num_blocks=8, block_size=4)
    parent = BlockTable(pool)
    parent.append(8)
    child = parent.fork()
    assert child.append(1) == []
    assert child.block_ids[:2] == parent.block_ids
    assert len(child.block_ids) == 3


def test_four_beams_of_64_plus_10_tokens_hold_8_blocks():
    pool = BlockPool(num_blocks=64, block_size=16)
    beams = [BlockTable(pool)]
    beams[0].append(64)
    beams += [beams[0].fork() for _ in range(3)]
    for _ in range(10):
        for beam in beams:
            beam.append(1)
    assert pool.num_blocks - pool.num_free == 8
    assert sum(len(beam.block_ids) for beam in beams) == 20


@pytest.mark.parametrize("n", [9, 100])
def test_an_append_that_does_not_fit_changes_nothing(n):
    pool = BlockPool(num_blocks=4, block_size=4)
    table = BlockTable(pool)
    table.append(6)
    other = table.fork()
    before = list(table.block_ids), table.num_tokens, pool.num_free
    with pytest.raises(OutOfBlocks, match="2 free of 4"):
        other.append(n)
    assert (other.block_ids, other.num_tokens, pool.num_free) == before
    assert {pool.refcount(block) for block in table.block_ids} == {2}


def test_a_copy_counts_when_the_pool_is_full():
    pool = BlockPool(num_blocks=2, block_size=4)
    table = BlockTable(pool)
    table.append(6)
    child = table.fork()
    with pytest.raises(OutOfBlocks, match="wanted 1 block, 0 free of 2"):
        child.append(1)  # its tail has a slot free, but it belongs to both
    table.free()
    assert child.append(1) == []


def test_a_freed_table_is_unusable():
    table = table_over([1, 2], num_tokens=20)
    table.free()
    assert table.pool.num_free == 16
    for use in (table.free, table.append, table.fork, lambda: table.slots(0, 0)):
        with pytest.raises(TableFreed, match="was freed"):
            use()


def test_blocks_go_back_tail_first():
    released = []

    class Watched(BlockPool):
        def release(self, block_id):
            released.append(block_id)
            super().release(block_id)

    table = BlockTable(Watched(num_blocks=3, block_size=4))
    table.append(12)
    blocks = list(table.block_ids)
    table.free()
    assert released == blocks[::-1]


def test_holding_a_block_twice_takes_two_holders():
    pool = BlockPool(num_blocks=4, block_size=4)
    block = pool.allocate()
    with pytest.raises(ValueError, match="too few holders"):
        BlockTable(pool, [block, block], 8)
    pool.share(block)
    BlockTable(pool, [block, block], 8).free()
    assert pool.num_free == 4


def test_a_table_of_negative_length_is_refused():
    with pytest.raises(ValueError, match="-2 tokens"):
        BlockTable(BlockPool(num_blocks=4, block_size=4), [], -2)


def test_an_append_of_a_float_to_a_shared_tail_changes_nothing():
    pool = BlockPool(num_blocks=4, block_size=4)
    parent = BlockTable(pool)
    parent.append(2)
    child = parent.fork()
    with pytest.raises(ValueError, match="whole number"):
        child.append(1.0)
    assert child.block_ids == parent.block_ids and pool.num_free == 3


@pytest.mark.parametrize("num_tokens", [0, 16, 33])
def test_a_table_takes_over_exactly_the_blocks_its_tokens_fill(num_tokens):
    pool = BlockPool(num_blocks=4, block_size=16)
    blocks = [pool.allocate(), pool.allocate()]
    with pytest.raises(ValueError, match="do not fill 2 blocks"):
        BlockTable(pool, blocks, num_tokens)


def test_a_table_cannot_take_over_a_free_block():
    with pytest.raises(ValueError, match="block 0 has too few holders"):
        BlockTable(BlockPool(num_blocks=4, block_size=16), [0], 3)


def test_negative_appends_are_refused():
    with pytest.raises(
        ValueError, match="cannot append -1 tokens; give a whole number"
    ):
        table_over([1], num_tokens=3).append(-1)


@pytest.mark.parametrize("n", [1.5, "3", None, True])
def test_appends_of_something_else_are_refused(n):
    with pytest.raises(ValueError, match="give a whole number from 0"):
        table_over([1], num_tokens=3).append(n)


def test_a_table_needs_a_pool():
    with pytest.raises(TypeError, match="pool must be a BlockPool, got 4"):
        BlockTable(4)


def table_of(pool, num_tokens):
    table = BlockTable(pool)
    table.append(num_tokens)
    return table


@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("n", [0, 1, 4, 5, 8, 9, 10])
def test_a_cut_table_keeps_exactly_the_blocks_of_its_first_tokens(block_size, n):
    pool = BlockPool(num_blocks=16, block_size=block_size)
    table = table_of(pool, 10)
    before, slots = list(table.block_ids), table.slots(0, 10)
    table.truncate(n)
    kept = -(-n // block_size)
    assert table.block_ids == before[:kept] and table.num_tokens == n
    assert table.slots(0, n) == slots[:n]
    assert pool.num_free == 16 - kept
    assert [pool.refcount(block) for block in before[kept:]] == [0] * len(before[kept:])
    with pytest.raises(IndexError, match="append"):
        table.slots(0, n + 1)


def test_a_cut_table_gives_its_blocks_back_tail_first():
    pool = BlockPool(num_blocks=4, block_size=4)
    table = table_of(pool, 16)
    before = list(table.block_ids)
    table.truncate(4)
    assert [pool.allocate() for _ in range(3)] == before[1:]  # freed last, out first


def test_a_cut_makes_a_new_list_and_leaves_the_old_one():
    table = table_over([5, 12, 3], num_tokens=35)
    before = table.block_ids
    table.truncate(16)
    assert (table.block_ids, before) == ([5], [5, 12, 3])


@pytest.mark.parametrize("n", [-1, 36, 3.0, True, None, "3"])
def test_a_cut_of_a_wrong_length_changes_nothing(n):
    table = table_over([5, 12, 3], num_tokens=35)
    with pytest.raises(ValueError, match=r"cannot keep .* of 35 tokens"):
        table.truncate(n)
    assert (table.block_ids, table.num_tokens) == ([5, 12, 3], 35)
    assert table.pool.num_free == 13


def test_a_freed_table_cannot_be_cut():
    table = table_over([5], num_tokens=3)
    table.free()
    with pytest.raises(TableFreed):
        table.truncate(0)


def test_a_table_cut_to_nothing_can_go_on():
    table = table_over([5, 12, 3], num_tokens=35)
    table.truncate(0)
    assert (table.block_ids, table.num_tokens, table.pool.num_free) == ([], 0, 16)
    assert table.append(17) == [] and len(table.block_ids) == 2


def test_whoever_goes_on_in_a_shared_block_after_a_cut_copies_it():
    """The block is full, and another table reads what is behind the cut."""
    pool = BlockPool(num_blocks=8, block_size=4)
    parent = table_of(pool, 8)
    child = parent.fork()
    before = list(parent.block_ids)
    child.truncate(6)
    assert child.must_copy(1) and child.blocks_needed(1) == 1
    assert child.append(1) == [(before[1], child.block_ids[1])]
    assert parent.block_ids == before and child.block_ids[0] == before[0]
    assert [pool.refcount(block) for block in before] == [2, 1]


def test_a_cut_at_the_end_of_a_shared_block_copies_nothing():
    pool = BlockPool(num_blocks=8, block_size=4)
    parent = table_of(pool, 10)
    child = parent.fork()
    child.truncate(8)
    assert pool.refcount(parent.block_ids[2]) == 1
    assert child.append(1) == []
    assert child.block_ids[:2] == parent.block_ids[:2]


def test_after_a_cut_a_copy_that_does_not_fit_changes_nothing():
    pool = BlockPool(num_blocks=2, block_size=4)
    parent = table_of(pool, 8)
    child = parent.fork()
    child.truncate(6)
    with pytest.raises(OutOfBlocks):
        child.append(1)
    assert (child.block_ids, child.num_tokens) == (parent.block_ids, 6)
    child.truncate(4)  # its second block stays the parent's
    assert [pool.refcount(block) for block in range(2)] == [2, 1]


def published_table(num_tokens=8):
    pool = BlockPool(num_blocks=8, block_size=4)
    prefix, table = PrefixCache(pool), table_of(pool, num_tokens)
    prefix.publish(list(range(num_tokens)), table.block_ids)
    return prefix, table


def test_a_published_block_that_is_cut_and_written_again_is_found_no_more():
    prefix, table = published_table()
    tokens, first = [*range(8), 0], table.block_ids[0]
    table.truncate(6)
    assert prefix.find(tokens) == table.block_ids  # nothing is overwritten yet
    assert table.append(0) == [] and len(prefix.find(tokens)) == 2
    assert table.append(1) == []
    assert prefix.find(tokens) == [first] and len(prefix) == 1
    table.append(1)
    prefix.publish([*range(6), 90, 91], table.block_ids)
    assert prefix.find(tokens) == [first]
    assert prefix.find([*range(6), 90, 91, 0]) == table.block_ids


def test_a_published_block_that_others_hold_is_copied_and_still_found():
    prefix, table = published_table()
    before = list(table.block_ids)
    other = BlockTable(prefix.pool, prefix.match([*range(8), 0]), 8)
    table.truncate(6)
    ((source, _),) = table.append(1)
    assert source == before[1]
    assert prefix.find([*range(8), 0]) == other.block_ids == before


def test_published_blocks_behind_a_cut_can_be_found_until_they_are_handed_out():
    prefix, table = published_table(8)
    before = list(table.block_ids)
    table.truncate(4)
    assert prefix.find([*range(8), 0]) == before
    assert table.append(4) == []  # a plain block: the cached one goes last
    assert prefix.find([*range(8), 0]) == before


class ForgetsCounts(BlockPool):
    """Wrong: gives a block back although others still hold it."""

    def release(self, block_id):
        self._refcounts[block_id] = 1
        super().release(block_id)


class NeverCopies(BlockTable):
    """Wrong: writes into a block that a sibling still reads."""

    def must_copy(self, n):
        return False


def test_the_wrong_pool_is_caught():
    with pytest.raises((AssertionError, BlockNotHeld)):
        pool = ForgetsCounts(num_blocks=8, block_size=4)
        parent = BlockTable(pool)
        parent.append(6)
        child = parent.fork()
        parent.free()
        assert {pool.refcount(block) for block in child.block_ids} == {1}


def test_the_wrong_table_is_caught():
    pool = BlockPool(num_blocks=8, block_size=4)
    parent = NeverCopies(pool)
    parent.append(6)
    child = NeverCopies(pool, [pool.share(b) for b in parent.block_ids], 6)
    child.append(1)
    parent.append(1)
    assert child.slot(6) == parent.slot(6)  # two tokens, one slot: text is lost


@pytest.mark.parametrize("num_tokens", [-1, 1.0, "1", True, None])
def test_a_number_of_tokens_that_is_none_is_refused(num_tokens):
    pool = BlockPool(4, 4)
    with pytest.raises(ValueError, match=r"cannot hold .* give a whole number from 0"):
        BlockTable(pool, [pool.allocate()], num_tokens)


def test_what_is_said_of_too_few_blocks_helps():
    table = BlockTable(BlockPool(4, 4))
    with pytest.raises(OutOfBlocks) as caught:
        table.append(17)  # to free others would not be enough
    assert str(caught.value).endswith("of 4; build the pool with a larger num_blocks")
    table.append(13)
    with pytest.raises(OutOfBlocks, match="0 free of 4; free a sequence, or build"):
        BlockTable(table.pool).append(13)
