"""Lesson 2: one sequence's page table; lesson 4: copy-on-write (paper, 4.3 and 4.4)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from minipaged.errors import OutOfBlocks, TableFreed
from minipaged.memory.block_pool import BlockPool


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
        """Make a table over blocks whose references the caller already holds.

        `block_ids` (usually none, or a matched prefix) must be exactly the blocks that
        `num_tokens` positions fill. Raises ValueError otherwise, taking nothing over.
        """
        if not isinstance(pool, BlockPool):
            raise TypeError(f"pool must be a BlockPool, got {pool!r:.60}")
        block_ids = list(block_ids)
        if num_tokens < 0 or len(block_ids) != -(-num_tokens // pool.block_size):
            raise ValueError(
                f"{num_tokens} tokens in blocks of {pool.block_size} do not fill "
                f"{len(block_ids)} blocks, but so many block ids were given"
            )
        holds = Counter(block_ids)
        for block_id in holds:
            if pool.refcount(block_id) < holds[block_id]:
                raise ValueError(
                    f"block {block_id} has too few holders: allocate() or share() it "
                    "before a table takes it over"
                )
        self.pool = pool
        self.block_ids = block_ids
        self.num_tokens = num_tokens
        self._freed = False
        self._was_cut = False  # truncated, and not appended to since

    def blocks_needed(self, n: int = 1) -> int:
        """How many free blocks `append(n)` takes now: new blocks, and a copy if shared.

        Siblings that append in the same step may need fewer together: see
        `blocks_needed`, the function.
        """
        return self._new_blocks(n) + self._must_copy(n)

    def append(self, n: int = 1) -> list[tuple[int, int]]:
        """Make room for `n` more tokens; call before their K and V are written.

        Returns the (source, copy) block ids that the cache must copy first: one pair if
        the last block is part-filled and has other holders, else none.
        Raises OutOfBlocks, ValueError for an n that is no whole number from 0, and
        TableFreed; each leaves table and pool untouched.
        Source: PagedAttention paper, section 4.4 (copy-on-write).
        """
        new_blocks, must_copy = self._new_blocks(n), self._must_copy(n)
        if new_blocks + must_copy > self.pool.num_free:
            raise OutOfBlocks(
                new_blocks + must_copy, self.pool.num_free, self.pool.num_blocks
            )
        copies = []
        if must_copy:
            shared, own = self.block_ids[-1], self.pool.allocate()
            self.block_ids[-1] = own
            # Released only after the table points elsewhere. It keeps at least one
            # other holder, so the content to copy cannot be handed out before the copy.
            self.pool.release(shared)
            copies.append((shared, own))
        elif n and self._was_cut and self.num_tokens % self.pool.block_size:
            self.pool.forget(self.block_ids[-1])  # it may have been published, full
        for _ in range(new_blocks):
            self.block_ids.append(self.pool.allocate())
        self.num_tokens += n
        self._was_cut = self._was_cut and n == 0
        return copies

    def truncate(self, n: int) -> None:
        """Keep the first `n` positions only; blocks that hold none of them go back.

        Raises ValueError, changing nothing, for an n that is not from 0 to num_tokens.
        """
        self._check_alive()
        if type(n) is not int or not 0 <= n <= self.num_tokens:
            raise ValueError(f"cannot keep {n!r} of {self.num_tokens} tokens")
        self.pool.check_thread()
        kept = -(-n // self.pool.block_size)
        # A new list, not the old one shortened: a sign that more than its end changed.
        self.block_ids, dropped = self.block_ids[:kept], self.block_ids[kept:]
        self.num_tokens, self._was_cut = n, True
        for block_id in reversed(dropped):
            self.pool.release(block_id)

    def fork(self) -> "BlockTable":
        """A second table over the same blocks: one more holder each, nothing copied.

        Source: PagedAttention paper, section 5.2 (fork).
        """
        self._check_alive()
        shared = [self.pool.share(block_id) for block_id in self.block_ids]
        return BlockTable(self.pool, shared, self.num_tokens)

    def free(self) -> None:
        """Let go of every block; the table is unusable afterwards.

        Raises TableFreed the second time. Blocks go back tail first: in the order in
        which lesson 3 will give up their content, for the start is wanted longest.
        """
        self._check_alive()
        self.pool.check_thread()
        while self.block_ids:
            self.pool.release(self.block_ids.pop())
        self.num_tokens = 0
        self._freed = True  # last: if interrupted, a second call does the rest

    def slot(self, position: int) -> int:
        """The slot of one position: block id x block size + offset in the block.

        Raises IndexError for a position without room.
        """
        return self.slots(position, position + 1)[0]

    def slots(self, start: int, stop: int) -> list[int]:
        """The slots of positions `start` to `stop` - 1, in order.

        Raises IndexError for positions without room.
        """
        self._check_alive()
        if not 0 <= start <= stop <= self.num_tokens:
            last = f" to {stop - 1}" * (stop != start + 1)
            raise IndexError(
                f"position {start}{last} of a table that holds 0 to "
                f"{self.num_tokens - 1}; append() first to have more"
            )
        size = self.pool.block_size
        first = start // size
        blocks = self.block_ids[first : -(-stop // size)]
        slots = chain.from_iterable(range(b * size, (b + 1) * size) for b in blocks)
        return list(slots)[start - first * size : stop - first * size]

    def _new_blocks(self, n: int) -> int:
        self._check_alive()
        if type(n) is not int or n < 0:
            raise ValueError(f"cannot append {n!r} tokens; give a whole number from 0")
        return -(-(self.num_tokens + n) // self.pool.block_size) - len(self.block_ids)

    def _must_copy(self, n: int) -> bool:
        """Would `append(n)` write into a block that another table holds too?"""
        return (
            n > 0
            and self.num_tokens % self.pool.block_size != 0
            and self.pool.refcount(self.block_ids[-1]) > 1
        )

    def _check_alive(self) -> None:
        if self._freed:
            raise TableFreed

    def __repr__(self) -> str:
        return f"BlockTable({self.block_ids}, {self.num_tokens} tokens)"


def blocks_needed(appends: Iterable[tuple[BlockTable, int]]) -> int:
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


def append_to_all(appends: Sequence[tuple[BlockTable, int]]) -> list[tuple[int, int]]:
    """`append(n)` to every table, or to none: the copies of all, each (source, copy).

    No block becomes free before the copies are made, so no source is handed out again.
    The tables are over one pool. Raises OutOfBlocks, leaving all as they are.
    """
    if appends:
        pool = appends[0][0].pool
        # At most two blocks each, and those that are filled: mostly that is enough.
        at_most = sum(2 + n // pool.block_size for _, n in appends)
        if at_most > pool.num_free:
            needed = blocks_needed(appends)
            if needed > pool.num_free:
                raise OutOfBlocks(needed, pool.num_free, pool.num_blocks)
    return [pair for table, n in appends for pair in table.append(n)]
