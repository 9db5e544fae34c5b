"""Lesson 3: free blocks whose content can still be found, and which goes first."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from minipaged.memory.block_pool import BlockPool


class CachedBlocks:
    """A pool's free blocks, in place of its stack.

    Blocks without findable content ("plain") are handed out first. Then come the
    findable blocks, the longest unused first; their content is lost. A findable block
    that is held again is removed from the middle, which costs no search.
    """

    def __init__(self, pool: BlockPool):
        """Start empty: `BlockPool.attach` moves the free blocks here."""
        self._pool = pool
        self.plain: list[int] = []
        self.findable: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """How many blocks are free."""
        return len(self.plain) + len(self.findable)

    def __iter__(self) -> Iterator[int]:
        """All free blocks: plain ones, then findable ones."""
        yield from self.plain
        yield from self.findable

    def append(self, block_id: int) -> None:
        """Take in a block that was released."""
        if self._pool.is_cached(block_id):
            self.findable[block_id] = None
        else:
            self.plain.append(block_id)

    def pop(self) -> int:
        """Remove the next block to hand out; KeyError if there is none."""
        if self.plain:
            return self.plain.pop()
        block_id, _ = self.findable.popitem(last=False)
        self._pool.forget(block_id)
        return block_id

    def remove(self, block_id: int) -> None:
        """Remove a findable block, because it is held again; KeyError for any other."""
        del self.findable[block_id]

    def rebuild(self, free: Iterable[int]) -> None:
        """Set which blocks are free; findable blocks keep their order."""
        free = dict.fromkeys(free)
        in_order = dict.fromkeys([*self.findable, *free])  # the longest unused first
        self.findable = OrderedDict.fromkeys(
            block_id
            for block_id in in_order
            if block_id in free and self._pool.is_cached(block_id)
        )
        self.plain = [block_id for block_id in free if block_id not in self.findable]
