"""Any sequence of operations leaves pool, tables and cache consistent.

The machine keeps a plain model beside the real thing: for each table the list of values
written, as a contiguous cache would hold them. After every operation the pool's counts
are recomputed from the tables, and every value is read back through its slot.
"""

from collections import Counter

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import minipaged as mp
from helpers.notebook_files import NOTEBOOKS, definition, load
from helpers.rejecting import assert_rejected
from helpers.thorough import often
from minipaged.errors import OutOfBlocks
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.kv_cache import KVCache
from minipaged.scheduling.preemption import blocks_needed_together


class PoolAndTables(RuleBasedStateMachine):
    """Append, fork and free in any order, over a pool so small that it runs out."""

    table_class = BlockTable
    pool_class = BlockPool

    @initialize(num_blocks=st.integers(1, 12), block_size=st.integers(1, 5))
    def start(self, num_blocks, block_size):
        self.pool = self.pool_class(num_blocks, block_size)
        self.cache = KVCache([(1, 1, 1), (1, 2, 1)], num_blocks, block_size)
        for tensor in (*self.cache.keys, *self.cache.values):
            tensor.fill_(float("nan"))
        self.tables: list[tuple[BlockTable, list[float]]] = []
        self.next_value = 0.0

    def write(self, table, values, copies, n):
        """What a forward does: the copies first, then the new values at their slots."""
        self.cache.copy(copies)
        new = [self.next_value + i for i in range(n)]
        self.next_value += n
        slots = torch.tensor(
            table.slots(len(values), len(values) + n), dtype=torch.int64
        )
        rows = torch.tensor(new).view(n, 1, 1)
        self.cache.write(0, slots, rows, rows)
        self.cache.write(1, slots, rows.expand(n, 1, 2), rows)
        values += new

    @rule(n=st.integers(0, 9))
    def new_table(self, n):
        table = self.table_class(self.pool)
        self.tables.append((table, []))
        self.append_to(len(self.tables) - 1, n)

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), n=st.integers(0, 9))
    def append(self, data, n):
        self.append_to(data.draw(st.integers(0, len(self.tables) - 1)), n)

    def append_to(self, index, n):
        table, values = self.tables[index]
        needed, free = table.blocks_needed(n), self.pool.num_free
        if needed > free:
            before = list(table.block_ids), table.num_tokens, free
            with pytest.raises(OutOfBlocks):
                table.append(n)
            after = table.block_ids, table.num_tokens, self.pool.num_free
            assert after == before, "a failed append must change nothing"
        else:
            self.write(table, values, table.append(n), n)
            assert free - self.pool.num_free == needed

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def fork(self, data):
        table, values = data.draw(st.sampled_from(self.tables))
        free = self.pool.num_free
        child = table.fork()
        child.__class__ = self.table_class
        self.tables.append((child, list(values)))
        assert self.pool.num_free == free

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def free(self, data):
        index = data.draw(st.integers(0, len(self.tables) - 1))
        table, _ = self.tables.pop(index)
        table.free()

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), n=st.integers(1, 4))
    def step_of_several(self, data, n):
        """As a batch does it: all appends first, then all copies, then all writes."""
        members = data.draw(st.lists(st.sampled_from(self.tables), unique_by=id))
        needed = blocks_needed_together((table, n) for table, _ in members)
        if needed > self.pool.num_free:
            return
        free, copies = self.pool.num_free, []
        for table, _ in members:
            copies += table.append(n)
        assert free - self.pool.num_free == needed
        self.cache.copy(copies)
        for table, values in members:
            self.write(table, values, [], n)

    @invariant()
    def free_and_held_make_the_whole(self):
        held = Counter(b for table, _ in self.tables for b in table.block_ids)
        for block in range(self.pool.num_blocks):
            assert self.pool.refcount(block) == held[block]
        assert self.pool.num_free + len(held) == self.pool.num_blocks
        free = self.pool._free
        assert len(set(free)) == len(free), "a block is free once"
        assert not set(free) & set(held)

    @invariant()
    def tables_are_as_long_as_their_tokens(self):
        for table, values in self.tables:
            assert table.num_tokens == len(values)
            size = self.pool.block_size
            assert len(table.block_ids) == -(-table.num_tokens // size)

    @invariant()
    def every_value_is_read_back(self):
        for table, values in self.tables:
            slots = torch.tensor(table.slots(0, table.num_tokens), dtype=torch.int64)
            for tensor in (*self.cache.keys, *self.cache.values):
                read = tensor.flatten(0, 1)[slots]
                expected = torch.tensor(values).view(-1, 1, 1).expand_as(read)
                assert torch.equal(read, expected)


SETTINGS = settings(max_examples=often(150), stateful_step_count=30, deadline=None)


class TestPoolAndTables(PoolAndTables.TestCase):
    settings = SETTINGS


def of_lesson(number, name):
    """A deliberately wrong version, as the notebook defines it."""
    (notebook,) = (path for path in NOTEBOOKS if path.name.startswith(f"0{number}_"))
    return definition(load(notebook), name, {"mp": mp})


class ForgetfulPool(BlockPool):
    """Wrong: frees a block at once, however many hold it, as lesson 2's toy does."""

    def release(self, block_id):
        self._refcounts[block_id] = 0
        self._free.append(block_id)


class NoCopyOnWrite(BlockTable):
    """Wrong: writes into a block that a sibling still reads."""

    must_copy = of_lesson(4, "never_copies")


@pytest.mark.parametrize(
    "wrong",
    [
        {"table_class": NoCopyOnWrite},
        {"pool_class": ForgetfulPool},
        {"table_class": of_lesson(2, "LateTable")},
    ],
    ids=lambda wrong: next(iter(wrong.values())).__name__,
)
def test_the_machine_rejects(wrong):
    assert_rejected(type("Wrong", (PoolAndTables,), wrong))
