"""Lab: lesson 2's toys, over a pool that keeps words (lesson 4)."""

from collections.abc import Iterable


class WordPool:
    """Blocks of words: which are free, and how many tables hold each."""

    def __init__(self, num_blocks: int, block_size: int):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.words = [[""] * block_size for _ in range(num_blocks)]
        self.free_ids = list(range(num_blocks))[::-1]  # a stack; block 0 is on top
        self.holders = [0] * num_blocks

    def allocate(self) -> int:
        """Hand out a free block."""
        return self.share(self.free_ids.pop())

    def share(self, block_id: int) -> int:
        """Add a holder."""
        self.holders[block_id] += 1
        return block_id

    def release(self, block_id: int) -> None:
        """Remove a holder; the last one makes the block free."""
        self.holders[block_id] -= 1
        if self.holders[block_id] == 0:
            self.free_ids.append(block_id)

    def refcount(self, block_id: int) -> int:
        """How many hold it."""
        return self.holders[block_id]


class WordTable:
    """The blocks of a sequence, in order. Its words lie in the pool."""

    def __init__(
        self, pool: WordPool, block_ids: Iterable[int] = (), num_tokens: int = 0
    ):
        self.pool, self.block_ids, self.num_tokens = pool, list(block_ids), num_tokens

    def append(self) -> None:
        """Make room for one more word."""
        if self.num_tokens % self.pool.block_size == 0:
            self.block_ids.append(self.pool.allocate())
        self.num_tokens += 1

    def write(self, word: str) -> None:
        """Write into the room that was made last."""
        offset = (self.num_tokens - 1) % self.pool.block_size
        self.pool.words[self.block_ids[-1]][offset] = word

    def read(self) -> list[str]:
        """All words, in order."""
        words = [word for block in self.block_ids for word in self.pool.words[block]]
        return words[: self.num_tokens]

    def free(self) -> None:
        """Let go of every block."""
        while self.block_ids:
            self.pool.release(self.block_ids.pop())


def speak(table: WordTable, text: str) -> None:
    """Append the words of a text."""
    for word in text.split():
        table.append()
        table.write(word)


def figure_8(kind: type[WordTable]) -> WordTable:
    """A's table before the fork in figure 8 of the paper: the same blocks, 7 and 1."""
    pool = WordPool(num_blocks=9, block_size=4)
    pool.free_ids = [2, 5, 3, 1, 7]  # 7 comes first; others hold 0, 4, 6 and 8
    pool.holders = [int(block not in pool.free_ids) for block in range(9)]
    table = kind(pool)
    speak(table, "Four score and seven years ago our")
    return table
