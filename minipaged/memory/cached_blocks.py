"""Lesson 3: free blocks whose content can still be found, and which goes first."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from minipaged.memory.block_pool import BlockPool


class CachedBlocks:
    """A pool's free blocks, in place of its stack.

    Plain ones are handed out first. Then those that can be found, the one unused for
    longest first: its content is given up. To hold such a block again takes it out of
    the middle, which costs no search.
    """

    def __init__(self, pool: BlockPool):
        """None yet: `BlockPool.attach` moves the free blocks here."""
        self._pool = pool
        self.plain: list[int] = []
        self.findable: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """How many blocks are free."""
        return len(self.plain) + len(self.findable)

    def __iter__(self) -> Iterator[int]:
        """All of them."""
        yield from self.plain
        yield from self.findable

    def append(self, block_id: int) -> None:
        """A block has come back."""
        if self._pool.is_cached(block_id):
            self.findable[block_id] = None
        else:
            self.plain.append(block_id)

    def pop(self) -> int:
        """The next block to be handed out; IndexError or KeyError if there is none."""
        if self.plain:
            return self.plain.pop()
        block_id, _ = self.findable.popitem(last=False)
        self._pool.forget(block_id)
        return block_id

    def remove(self, block_id: int) -> None:
        """A block whose content was found is held again; KeyError for any other."""
        del self.findable[block_id]

    def rebuild(self, free: Iterable[int]) -> None:
        """These blocks are free, and no others; what can be found keeps its order."""
        free = dict.fromkeys(free)
        in_order = dict.fromkeys([*self.findable, *free])  # the longest unused first
        found = [i for i in in_order if i in free and self._pool.is_cached(i)]
        self.findable = OrderedDict.fromkeys(found)
        self.plain = [i for i in free if i not in self.findable]
