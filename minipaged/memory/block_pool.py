"""Lesson 2: the pool of physical blocks (paper, sections 4.2 and 4.4)."""

from math import inf
from threading import get_ident
from typing import TYPE_CHECKING, Any

from minipaged.errors import (
    BlockNotHeld,
    ForeignBlock,
    OutOfBlocks,
    PoolBusy,
    require_counts,
)
from minipaged.memory.free_memory import free_memory, room_for

if TYPE_CHECKING:
    from minipaged.memory.cached_blocks import CachedBlocks
    from minipaged.memory.prefix_cache import PrefixCache

BYTES_EACH = 48  # what a block costs in Python's lists


class BlockPool:
    """Which blocks are free, and how many holders each of the others has.

    A block is `block_size` token slots of K and V, in every layer at once. The pool
    knows only ids; the tensors live in `KVCache`. At any time, a block is either free
    or has at least one holder. A call that raises changes nothing.

    Source: PagedAttention paper, sections 4.2 (blocks) and 4.4 (reference counts).
    """

    def __init__(self, num_blocks: int, block_size: int):
        """Make a pool of `num_blocks` free blocks of `block_size` tokens each."""
        require_counts(num_blocks=num_blocks, block_size=block_size)
        self.num_blocks = num_blocks
        self.block_size = block_size
        free = free_memory() if num_blocks > 1e6 else inf  # asking takes a millisecond
        with room_for(
            num_blocks, BYTES_EACH, free, remedy="num_blocks", what="entries"
        ):
            self._refcounts = [0] * num_blocks
            # A stack: the block freed last is handed out first. Lesson 3 changes that.
            self._free: list[int] | CachedBlocks = list(range(num_blocks - 1, -1, -1))
        self.prefix_cache: PrefixCache | None = None  # see `attach` (lesson 3)
        # The thread of the running step: only this thread moves blocks. A `StepUndo`
        # sets it.
        self.reserved_for: int | None = None
        # Requests of engines that are gone: the next step frees their blocks.
        self.lost: list[Any] = []

    @property
    def num_free(self) -> int:
        """How many blocks can be allocated now."""
        return len(self._free)

    def refcount(self, block_id: int) -> int:
        """How many holders the block has; 0 when it is free."""
        # Python would read -1 as the last block, and True as block 1.
        if type(block_id) is not int or not 0 <= block_id < self.num_blocks:
            raise ForeignBlock(block_id, self.num_blocks)
        return self._refcounts[block_id]

    def allocate(self) -> int:
        """Hand out a free block, held once, and return its id; or raise OutOfBlocks."""
        if self.reserved_for:
            self.check_thread()
        if not self._free:
            raise OutOfBlocks(wanted=1, free=0, total=self.num_blocks)
        block_id = self._free.pop()
        self._refcounts[block_id] = 1
        return block_id

    def share(self, block_id: int) -> int:
        """Add a holder to a block that is held already, and return its id.

        Raises BlockNotHeld for a free block (its content may change at any moment) and
        ForeignBlock for an unknown id.
        """
        self.check_thread()
        if self.refcount(block_id) == 0:
            raise BlockNotHeld(block_id, "share")
        self._refcounts[block_id] += 1
        return block_id

    def release(self, block_id: int) -> None:
        """Remove a holder of the block; the block is free once no holder remains.

        Raises BlockNotHeld for a free block and ForeignBlock for an unknown id.
        """
        if self.reserved_for:
            self.check_thread()
        count = self.refcount(block_id)
        if count == 0:
            raise BlockNotHeld(block_id, "release")
        self._refcounts[block_id] = count - 1
        if count == 1:
            self._free.append(block_id)

    def revive(self, block_id: int) -> int:
        """Hold a free block whose content was found, and return its id (lesson 3).

        Raises ValueError if it is not free, or cannot be found.
        """
        self.check_thread()
        if self.refcount(block_id) or not self.is_cached(block_id):
            raise ValueError(
                f"cannot revive block {block_id}: somebody holds it, or its content "
                "cannot be found"
            )
        self._free.remove(block_id)
        self._refcounts[block_id] = 1
        return block_id

    def is_cached(self, block_id: int) -> bool:
        """Can the block's content be found (lesson 3)?"""
        return self.prefix_cache is not None and block_id in self.prefix_cache

    def forget(self, block_id: int) -> None:
        """Let nobody find this block's content any more: it is about to change."""
        if self.is_cached(block_id):
            self.check_thread()
            self.prefix_cache.forget(block_id)

    def attach(self, prefix_cache: "PrefixCache", free: "CachedBlocks") -> None:
        """From now on, this cache says which blocks can be found (lesson 3).

        The pool asks it (`block_id in prefix_cache`), and tells it before a block's
        content changes (`forget`). The free blocks move to `free`, which hands out
        findable blocks last, and has the cache forget them then. A pool has a single
        prefix cache: an earlier cache finds nothing any more (`detach`). Raises
        PoolBusy while another thread's step runs.
        """
        self.check_thread()
        if self.prefix_cache is not None:
            self.prefix_cache.detach()
        free.rebuild(self._free)
        self._free = free
        self.prefix_cache = prefix_cache

    def holders(self) -> list[int]:
        """How many holders each block has now."""
        return self._refcounts.copy()

    def restore(self, holders: list[int]) -> None:
        """Set how many holders each block has; blocks without holders are free.

        For a pool whose bookkeeping was interrupted, so that its lists may be half
        changed. Free blocks that the prefix cache knows can still be found: it forgets
        a block only when the block is handed out.
        """
        block_ids = reversed(range(self.num_blocks))
        free = [block_id for block_id in block_ids if not holders[block_id]]
        self._refcounts = list(holders)
        if self.prefix_cache is None:
            self._free = free
        else:
            self._free.rebuild(free)

    def check_thread(self) -> None:
        """Raise PoolBusy while a step in another thread has the pool to itself."""
        if self.reserved_for not in (None, get_ident()):
            raise PoolBusy

    def __repr__(self) -> str:
        return (
            f"BlockPool({self.num_free} free of {self.num_blocks} blocks, "
            f"{self.block_size} tokens each)"
        )
