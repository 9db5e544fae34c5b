"""Lesson 3: find blocks by what they hold: chained hashes, verified (paper, 4.4)."""

import operator
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xxhash import xxh64_intdigest

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.cached_blocks import CachedBlocks


class Content(NamedTuple):
    """What a published block holds, and after which block."""

    parent: int | bytes  # the serial of the block before; the salt, for the first block
    tokens: tuple[int, ...]
    serial: int  # the same for all blocks with this parent and these tokens
    chain_hash: int


class PrefixCache:
    """Full blocks, found again by the tokens in them and all the tokens before.

    K and V of a token depend on every token before it. So a block may be shared only if
    its tokens *and* its whole past are equal. A chain of hashes leads to candidates.
    Hashes may collide, so each candidate is verified: its tokens are compared, and its
    parent, the block before it. A serial number names the parent, and stands for all
    tokens up to the parent's end.

    A pool has a single cache. If a newer cache takes its place, the older cache finds
    nothing any more.

    A freed block stays published until the pool hands it out again. The pool hands out
    the longest unused block first, and the blocks of a sequence from its end.

    Attributes: tokens_asked, tokens_hit: over all calls of `match`.
    Source: PagedAttention paper, section 4.4 (shared prefix), found automatically.
    """

    def __init__(
        self, pool: BlockPool, hash_function: Callable[[bytes], int] = xxh64_intdigest
    ):
        """Become the prefix cache of `pool`, in place of an earlier cache.

        `hash_function` turns bytes into a whole number, of which 64 bits are used.
        """
        if not isinstance(pool, BlockPool):
            raise TypeError(f"pool must be a BlockPool, got {pool!r:.60}")
        self.pool = pool
        self.tokens_asked = self.tokens_hit = 0
        self._hash = _in_64_bits(hash_function)
        self._hash(b"")  # raises TypeError unless it is a hash function
        self._contents: dict[int, Content] = {}
        # Inner dicts serve as ordered sets: the block published first is found.
        self._by_hash: dict[int, dict[int, None]] = {}
        self._next_serial = 0
        self._free = CachedBlocks(pool)
        pool.attach(self, self._free)

    def __len__(self) -> int:
        """How many blocks can be found now, held or free."""
        return len(self._contents)

    def __contains__(self, block_id: int) -> bool:
        """Can this block be found now?"""
        return block_id in self._contents

    def content(self, block_id: int) -> Content | None:
        """What the block holds, if it can be found now."""
        return self._contents.get(block_id)

    def find(self, tokens: Sequence[int], salt: bytes = b"") -> list[int]:
        """The blocks that `match` would take; takes nothing and counts nothing."""
        size = self.pool.block_size
        found = []
        parent = salt
        chain_hash = self._hash(salt)
        # Not the block of the last token: its logits are wanted, so it is computed.
        for start in range(0, len(tokens) - size, size):
            block_tokens = tuple(tokens[start : start + size])
            chain_hash = self._link(chain_hash, block_tokens)
            block_id = self._lookup(chain_hash, parent, block_tokens)
            if block_id is None:
                break
            found.append(block_id)
            parent = self._contents[block_id].serial
        return found

    @property
    def num_findable(self) -> int:
        """How many free blocks can still be found."""
        return len(self._free.findable)

    def match(self, tokens: Sequence[int], salt: bytes = b"") -> list[int]:
        """Take the blocks of the longest prefix of `tokens` that is published.

        Whole blocks only, and never all the tokens. Each returned block has a new
        holder; give the blocks to a BlockTable. Another salt's blocks never match.
        """
        return self.take(self.find(tokens, salt), len(tokens))

    def take(self, found: list[int], num_tokens: int) -> list[int]:
        """Hold the blocks that `find` found for `num_tokens` tokens; return them."""
        for block_id in found:
            hold = self.pool.share if self.pool.refcount(block_id) else self.pool.revive
            hold(block_id)
        self.tokens_asked += num_tokens
        self.tokens_hit += len(found) * self.pool.block_size
        return found

    def next_block(
        self, tokens: Sequence[int], block_ids: Sequence[int], salt: bytes = b""
    ) -> tuple[int | bytes, tuple[int, ...]] | None:
        """The block that `tokens` fill after the published blocks of `block_ids`.

        Returns its parent and its tokens, as in Content; None if they do not fill it.
        """
        size = self.pool.block_size
        index = self._num_published(block_ids)
        block_tokens = tuple(tokens[index * size : (index + 1) * size])
        parent = self._contents[block_ids[index - 1]].serial if index else salt
        return (parent, block_tokens) if len(block_tokens) == size else None

    def publish(
        self,
        tokens: Sequence[int],
        block_ids: Sequence[int],
        salt: bytes = b"",
        *,
        stop: int | None = None,
    ) -> None:
        """Let others find these blocks; call once K and V of `tokens` are in them.

        `block_ids` is the sequence's table. Publishes the blocks that `tokens`, or the
        first `stop` tokens, fill; blocks that are published already cost nothing.
        Raises ValueError, changing nothing, if a block is missing, free or there twice.
        """
        size = self.pool.block_size
        num_tokens = len(tokens) if stop is None else stop
        stop = num_tokens // size
        if stop > len(block_ids):
            raise ValueError(
                f"{num_tokens} tokens fill more than {len(block_ids)} blocks"
            )
        start = self._num_published(block_ids, stop)
        if any(self.pool.refcount(block_id) == 0 for block_id in block_ids[start:stop]):
            raise ValueError("publish a sequence's blocks before you free them")
        if len(set(block_ids[start:stop])) < stop - start:
            raise ValueError("a block holds one content; this table has one twice")
        parent = salt
        chain_hash = self._hash(salt)
        if start:  # the blocks before are published: continue their chain
            before = self._contents[block_ids[start - 1]]
            parent = before.serial
            chain_hash = before.chain_hash
        for index in range(start, stop):
            block_id = block_ids[index]
            block_tokens = tuple(tokens[index * size : (index + 1) * size])
            chain_hash = self._link(chain_hash, block_tokens)
            twin = self._lookup(chain_hash, parent, block_tokens)
            serial = self._new_serial() if twin is None else self._contents[twin].serial
            content = Content(parent, block_tokens, serial, chain_hash)
            self._contents[block_id] = content
            self._by_hash.setdefault(chain_hash, {})[block_id] = None
            parent = serial

    def forget(self, block_id: int) -> None:
        """Called by the pool: this block's content is about to be overwritten."""
        chain_hash = self._contents.pop(block_id).chain_hash
        blocks = self._by_hash[chain_hash]
        del blocks[block_id]
        if not blocks:
            del self._by_hash[chain_hash]

    def repair(self) -> None:
        """After an interruption, make the index of hashes anew from the contents."""
        self._by_hash = {}
        for block_id, content in self._contents.items():
            self._by_hash.setdefault(content.chain_hash, {})[block_id] = None

    def clear(self) -> None:
        """Forget all blocks; ValueError while one of them is held."""
        self.pool.check_thread()
        held = sum(self.pool.refcount(block_id) > 0 for block_id in self._contents)
        if held:
            raise ValueError(
                f"{held} cached blocks are in use; free the sequences first"
            )
        self._contents.clear()
        self._by_hash.clear()
        self._free.rebuild([*self._free])

    @property
    def is_attached(self) -> bool:
        """Is it still its pool's cache, or has a newer cache taken its place?"""
        return self.pool.prefix_cache is self

    def detach(self) -> None:
        """Forget all blocks: the pool no longer tells this cache what it hands out.

        Called by `BlockPool.attach`. Those who still use this cache find nothing; their
        texts stay the same.
        """
        self._contents.clear()
        self._by_hash.clear()
        self._free = CachedBlocks(self.pool)

    def check_attached(self) -> None:
        """Raise ValueError if a newer cache has the pool."""
        if not self.is_attached:
            raise ValueError(
                "a newer prefix cache has taken this one's place; use pool.prefix_cache"
            )

    def _link(self, parent_hash: int, block_tokens: tuple[int, ...]) -> int:
        """Hash a block together with its past, for which the parent's hash stands."""
        return self._hash(
            parent_hash.to_bytes(8, "little") + array("q", block_tokens).tobytes()
        )

    def _lookup(
        self, chain_hash: int, parent: int | bytes, block_tokens: tuple[int, ...]
    ) -> int | None:
        """A block with exactly these tokens and this parent: a hash may collide."""
        for block_id in self._by_hash.get(chain_hash, ()):
            known = self._contents[block_id]
            if known.parent == parent and known.tokens == block_tokens:
                return block_id
        return None

    def _num_published(self, block_ids: Sequence[int], stop: int | None = None) -> int:
        """How many of the first `stop` blocks are published: always the first ones."""
        count = len(block_ids) if stop is None else stop
        while count and block_ids[count - 1] not in self._contents:
            count -= 1
        return count

    def _new_serial(self) -> int:
        self.check_attached()
        self._next_serial += 1
        return self._next_serial

    def __repr__(self) -> str:
        if not self.is_attached:
            return "PrefixCache(replaced by a newer one)"
        share = self.tokens_hit / self.tokens_asked if self.tokens_asked else 0.0
        return f"PrefixCache({len(self)} blocks, {share:.0%} of tokens found)"


def _in_64_bits(hash_function: Callable[[bytes], int]) -> Callable[[bytes], int]:
    """The hash function, reduced to 64 bits: Python's `hash` may be negative."""
    if not callable(hash_function):
        raise TypeError(
            f"hash_function must be a function of bytes, got {hash_function!r:.60}"
        )

    def hash_64(data: bytes) -> int:
        if not isinstance(data, bytes):  # links are always bytes, so this is a salt
            raise TypeError(
                f'a salt must be bytes, such as b"a user", got {data!r:.60}'
            )
        number = hash_function(data)
        try:
            return operator.index(number) % 2**64
        except TypeError:
            raise TypeError(
                f"hash_function must give a whole number, got {number!r:.60}; "
                "xxhash.xxh64_intdigest does"
            ) from None

    return hash_64
