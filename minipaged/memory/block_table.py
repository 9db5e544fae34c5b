"""Lesson 2: one sequence's page table; lesson 4: copy-on-write (paper, 4.3 and 4.4)."""

from collections.abc import Iterable
from itertools import chain

from minipaged.errors import OutOfBlocks, TableFreed
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.checks import (
    check_new_table,
    check_positions,
    check_whole_number,
)


class BlockTable:
    """Maps a sequence's positions to slots of physical blocks.

    Position p lives in block `block_ids[p // block_size]`, at offset
    `p % block_size`. One table serves all layers. `num_tokens` counts the positions
    with room: the caller appends first, and writes K and V afterwards.

    Source: PagedAttention paper, sections 4.3 (tables) and 4.4 (sharing).
    """

    def __init__(
        self, pool: BlockPool, block_ids: Iterable[int] = (), num_tokens: int = 0
    ):
        """Make a table over blocks that the caller holds: it takes them over.

        `block_ids` (usually none, or a matched prefix) must be as many blocks as
        `num_tokens` positions need. Otherwise raises ValueError: the caller still holds
        them.
        """
        self.pool = pool
        self.block_ids = list(block_ids)
        self.num_tokens = num_tokens
        self._freed = False
        check_new_table(pool, self.block_ids, num_tokens)

    def blocks_needed(self, n: int = 1) -> int:
        """How many free blocks `append(n)` takes now, including the block for a copy.

        For example, a table of 10 tokens in blocks of 4: `blocks_needed(2)` is 0 and
        `blocks_needed(3)` is 1; if another table holds the last block too, 1 and 2.
        """
        return self._new_blocks(n) + self.must_copy(n)

    def must_copy(self, n: int) -> bool:
        """Would `append(n)` write into a block that another table holds too?"""
        return (
            n > 0
            and self.num_tokens % self.pool.block_size != 0
            and self.pool.refcount(self.block_ids[-1]) > 1
        )

    def append(self, n: int = 1) -> list[tuple[int, int]]:
        """Make room for `n` more tokens; call before their K and V are written.

        If another table holds the part-filled last block too, this table takes a new
        block in its place. Returns [(shared block, new block)], which the cache must
        copy first; [] if there is nothing to copy.
        Raises OutOfBlocks, ValueError and TableFreed, leaving table and pool untouched.
        Source: PagedAttention paper, section 4.4 (copy-on-write).
        """
        new_blocks = self._new_blocks(n)
        copies = []
        wanted = new_blocks + self.must_copy(n)
        if wanted and wanted > self.pool.num_free:
            raise OutOfBlocks(wanted, self.pool.num_free, self.pool.num_blocks)
        if wanted > new_blocks:
            copies.append(self._copy_last_block())
        elif n and self.num_tokens % self.pool.block_size:
            # After a truncate, it may be a block that was published when it was full.
            # Its content changes now, so nobody may find it any more (lesson 3).
            self.pool.forget(self.block_ids[-1])
        for _ in range(new_blocks):
            self.block_ids.append(self.pool.allocate())
        self.num_tokens += n
        return copies

    def truncate(self, n: int) -> None:
        """Keep only the first `n` positions; release the blocks that hold none of them.

        Raises ValueError, changing nothing, for an n that is not from 0 to num_tokens.
        """
        self._check_alive()
        check_whole_number(n, "keep", self.num_tokens)
        self.pool.check_thread()
        kept = -(-n // self.pool.block_size)
        dropped = self.block_ids[kept:]
        self.num_tokens = n
        if not dropped:
            return
        # A new list: PersistentInputs compares list objects, and so sees the change.
        self.block_ids = self.block_ids[:kept]
        for block_id in reversed(dropped):
            self.pool.release(block_id)

    def fork(self) -> "BlockTable":
        """A second table over the same blocks: holders are added, nothing is copied.

        Source: PagedAttention paper, section 5.2 (fork).
        """
        self._check_alive()
        shared = [self.pool.share(block_id) for block_id in self.block_ids]
        return BlockTable(self.pool, shared, self.num_tokens)

    def free(self) -> None:
        """Release every block; the table is unusable afterwards.

        Raises TableFreed the second time. The last block is released first. So,
        among free blocks, the start of a text stays findable longest (lesson 3).
        """
        self._check_alive()
        self.pool.check_thread()
        while self.block_ids:
            self.pool.release(self.block_ids.pop())
        self.num_tokens = 0
        self._freed = True  # last: if interrupted, a second call does the rest

    def slot(self, position: int) -> int:
        """The slot of a position, as in `RaggedBatch`: block id x block size + offset.

        Raises IndexError for a position without room.
        """
        return self.slots(position, position + 1)[0]

    def slots(self, start: int, stop: int) -> list[int]:
        """The slots of positions `start` to `stop` - 1, in order.

        Raises IndexError for positions without room.
        """
        self._check_alive()
        check_positions(start, stop, self.num_tokens)
        size = self.pool.block_size
        first = start // size
        blocks = self.block_ids[first : -(-stop // size)]
        slots = chain.from_iterable(range(b * size, (b + 1) * size) for b in blocks)
        return list(slots)[start - first * size : stop - first * size]

    def _new_blocks(self, n: int) -> int:
        self._check_alive()
        check_whole_number(n, "append")
        return -(-(self.num_tokens + n) // self.pool.block_size) - len(self.block_ids)

    def _copy_last_block(self) -> tuple[int, int]:
        """Copy-on-write (lesson 4): a new block takes the place of the shared one."""
        shared = self.block_ids[-1]
        copy = self.pool.allocate()
        self.block_ids[-1] = copy
        # Other tables still hold it, and the next forward copies before it writes.
        self.pool.release(shared)
        return shared, copy

    def _check_alive(self) -> None:
        if self._freed:
            raise TableFreed

    def __repr__(self) -> str:
        return f"BlockTable({self.block_ids}, {self.num_tokens} tokens)"
