"""Matches, publications, evictions, forks and copies in any order: never a wrong block.

What a slot must hold is the name of its whole past: salt and tokens up to its own. So a
block that is shared by mistake is read back with somebody else's past.
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
from xxhash import xxh64_intdigest

from helpers.free_blocks import free_blocks
from helpers.rejecting import assert_rejected
from helpers.thorough import often
from minipaged.errors import OutOfBlocks
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.kv_cache import KVCache
from minipaged.memory.prefix_cache import PrefixCache

TOKENS = st.lists(st.integers(0, 1), max_size=14)
SALTS = st.sampled_from([b"", b"", b"salt"])
HASHES = [xxh64_intdigest, lambda data: xxh64_intdigest(data) & 1]


class PrefixMachine(RuleBasedStateMachine):
    """A pool so small that it evicts, and two tokens, so that prefixes meet."""

    cache_class = PrefixCache

    @initialize(
        num_blocks=st.integers(2, 12),
        size=st.integers(1, 4),
        hash_function=st.sampled_from(HASHES),
    )
    def start(self, num_blocks, size, hash_function):
        self.pool = BlockPool(num_blocks, size)
        self.prefix = self.cache_class(self.pool, hash_function)
        self.kv = KVCache([(1, 1, 1)], num_blocks, size)
        self.kv.keys[0].fill_(torch.nan)
        self.names: dict[tuple, float] = {}
        self.live: list[tuple[BlockTable, list[int], bytes]] = []
        self.asked: list[tuple[list[int], bytes]] = []  # the last ones that were live

    def past(self, tokens, salt):
        """The name of each position's past."""
        pasts = [(salt, *tokens[: end + 1]) for end in range(len(tokens))]
        return [self.names.setdefault(one, len(self.names)) for one in pasts]

    def extend(self, table, tokens, salt, new):
        """Append, copy, write: what a step does. False if there was no room."""
        if table.blocks_needed(len(new)) > self.pool.num_free:
            with pytest.raises(OutOfBlocks):
                table.append(len(new))
            return False
        start = table.num_tokens
        self.kv.copy(table.append(len(new)))
        tokens += new
        rows = torch.tensor(self.past(tokens, salt)[start:]).float().view(-1, 1, 1)
        slots = torch.tensor(table.slots(start, len(tokens)), dtype=torch.int64)
        self.kv.write(0, slots, rows, rows)
        return True

    @rule(prompt=TOKENS, salt=SALTS)
    def begin(self, prompt, salt):
        free = self.pool.num_free
        found = self.prefix.match(prompt, salt)
        held = len(found) * self.pool.block_size
        assert held < max(1, len(prompt))
        table = BlockTable(self.pool, found, held)
        tokens = prompt[:held]
        if self.extend(table, tokens, salt, prompt[held:]):
            self.live.append((table, tokens, salt))
        else:
            table.free()
            assert self.pool.num_free == free

    @precondition(lambda self: self.live)
    @rule(data=st.data(), new=TOKENS)
    def append(self, data, new):
        self.extend(*data.draw(st.sampled_from(self.live)), new)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def publish(self, data):
        table, tokens, salt = data.draw(st.sampled_from(self.live))
        self.prefix.publish(tokens, table.block_ids, salt)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def fork(self, data):
        table, tokens, salt = data.draw(st.sampled_from(self.live))
        self.live.append((table.fork(), list(tokens), salt))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def free(self, data):
        index = data.draw(st.integers(0, len(self.live) - 1))
        self.live.pop(index)[0].free()

    @precondition(lambda self: not self.live)
    @rule()
    def clear(self):
        self.prefix.clear()
        assert len(self.prefix) == 0

    @invariant()
    def free_and_held_make_the_whole(self):
        held = Counter(b for table, _, _ in self.live for b in table.block_ids)
        for block in range(self.pool.num_blocks):
            assert self.pool.refcount(block) == held[block]
        assert self.pool.num_free + len(held) == self.pool.num_blocks
        plain, cached = map(set, free_blocks(self.pool))
        assert not plain & cached and not (plain | cached) & set(held)
        assert len(plain) + len(cached) == self.pool.num_free
        published = set(self.prefix._contents)
        assert cached <= published and not plain & published

    @invariant()
    def every_past_is_read_back(self):
        for table, tokens, salt in self.live:
            assert table.num_tokens == len(tokens)
            assert self.read(table.slots(0, len(tokens))) == self.past(tokens, salt)

    @invariant()
    def what_can_be_found_is_what_is_asked_for(self):
        """Asked for: what is live or was, and the same with more behind it."""
        now = [(list(tokens), salt) for _, tokens, salt in self.live]
        self.asked = [*self.asked, *(one for one in now if one not in self.asked)][-20:]
        size = self.pool.block_size
        for tokens, salt in self.asked:
            longer = [*tokens, *[0] * (size + 1)]
            found = self.prefix.find(longer, salt)
            slots = [b * size + offset for b in found for offset in range(size)]
            assert self.read(slots) == self.past(longer, salt)[: len(slots)]

    def read(self, slots):
        return self.kv.keys[0].flatten()[slots].tolist()


SETTINGS = settings(max_examples=often(150), stateful_step_count=30, deadline=None)


class TestPrefixMachine(PrefixMachine.TestCase):
    settings = SETTINGS


class Unchained(PrefixCache):
    """Wrong: finds a block by its own tokens, whatever came before."""

    def _link(self, parent_hash, content):
        return super()._link(0, content)

    def _lookup(self, chain_hash, parent, content):
        found = self._by_hash.get(chain_hash, ())
        return next((b for b in found if self._contents[b].tokens == content), None)


class Trusting(PrefixCache):
    """Wrong: believes the hash."""

    def _lookup(self, chain_hash, parent, content):
        return next(iter(self._by_hash.get(chain_hash, ())), None)


class ChecksOnlyTokens(PrefixCache):
    """Wrong: compares the block's own tokens, and believes the hash for its past."""

    def _lookup(self, chain_hash, parent, content):
        found = self._by_hash.get(chain_hash, ())
        return next((b for b in found if self._contents[b].tokens == content), None)


class NeverForgets(PrefixCache):
    """Wrong: still finds a block that was handed out again."""

    def forget(self, block_id):
        pass


class Unsalted(PrefixCache):
    """Wrong: everybody shares with everybody."""

    def find(self, tokens, salt=b""):
        return super().find(tokens)

    def publish(self, tokens, block_ids, salt=b""):
        super().publish(tokens, block_ids)


class PublishesTails(PrefixCache):
    """Wrong: publishes the part-filled last block too."""

    def publish(self, tokens, block_ids, salt=b""):
        missing = -len(tokens) % self.pool.block_size
        super().publish([*tokens, *[0] * missing], block_ids, salt)


class SmallMachine(PrefixMachine):
    """So small that mistakes are met soon."""

    @initialize(
        num_blocks=st.integers(2, 4),
        size=st.integers(1, 2),
        hash_function=st.sampled_from(HASHES),
    )
    def start(self, num_blocks, size, hash_function):
        super().start(num_blocks, size, hash_function)


@pytest.mark.parametrize(
    "wrong",
    [Unchained, Trusting, ChecksOnlyTokens, NeverForgets, Unsalted, PublishesTails],
)
def test_the_machine_rejects(wrong):
    assert_rejected(type("Wrong", (SmallMachine,), {"cache_class": wrong}))
