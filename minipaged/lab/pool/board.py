"""Lab: a real pool with sequences in it, moved by hand."""

from itertools import count

from minipaged.errors import OutOfBlocks
from minipaged.lab.pool.names import Names
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.lab.pool.twin import Reservations, Twin
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.sequence import Sequence

MOST = 26  # sequences on one board; more would not fit on a page


class Board:
    """A pool, its prefix cache, and the sequences in it, named A, B, C and so on.

    Every method is a move. It raises and changes nothing, or does all of it.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        reservations: Reservations | None = None,
    ):
        """An empty pool; with `reservations`, beside contiguous memory of its size."""
        pool = BlockPool(num_blocks, block_size)
        self.pool, self.prefix_cache = pool, PrefixCache(pool)
        num_slots = num_blocks * block_size
        self.twin = Twin(num_slots, reservations) if reservations else None
        self.sequences: dict[str, Sequence] = {}
        self._parents: dict[str, str] = {}  # whom a sequence was forked from
        self._uncached: set[str] = set()  # sequences that do without the prefix cache
        self._names = Names()
        self._own_tokens = count(1_000_000)  # no two sequences get the same ones

    def start(
        self, num_tokens: int, is_shared: bool = False, uses_cache: bool = False
    ) -> None:
        """A new sequence; all that are `is_shared` have one text, to the last token."""
        _check_number(num_tokens, 1, "tokens")
        self._check_room(1)
        cache, size = self.prefix_cache, self.pool.block_size
        shared = range(num_tokens - 1) if is_shared else ()
        tokens = [*shared, *self._make_tokens(num_tokens - len(shared))]
        found = cache.find(tokens) if uses_cache else []
        # Counted before anything is taken: then a refusal leaves even the order in
        # which blocks will be handed out as it was.
        needed = -(-num_tokens // size) - len(found)
        needed += sum(self.pool.refcount(block_id) == 0 for block_id in found)
        if needed > self.pool.num_free:
            raise OutOfBlocks(needed, self.pool.num_free, self.pool.num_blocks)
        found = cache.match(tokens) if uses_cache else []
        table = BlockTable(self.pool, found, len(found) * size)
        sequence = Sequence(tokens, table)
        table.append(sequence.num_uncomputed)
        self._publish(self._add(sequence, uses_cache))

    def append(self, name: str, num_tokens: int) -> None:
        """The sequence gets so many tokens of its own, in copied blocks if need be."""
        _check_number(num_tokens, 1, "tokens")
        sequence = self._sequence(name)
        sequence.table.append(num_tokens)
        for token in self._make_tokens(num_tokens):
            sequence.append(token)
        self._publish(name)
        if self.twin:
            self.twin.append(name, num_tokens)

    def fork(self, name: str, num_children: int) -> None:
        """So many sequences more, with the same past and the same blocks."""
        _check_number(num_children, 1, "children")
        parent, uses_cache = self._sequence(name), name not in self._uncached
        self._check_room(num_children)
        for _ in range(num_children):
            self._parents[self._add(parent.fork(), uses_cache)] = name

    def free(self, name: str) -> None:
        """The sequence ends."""
        self._sequence(name).free()
        del self.sequences[name]
        self._parents.pop(name, None)
        self._uncached.discard(name)
        if self.twin:
            self.twin.free(name)

    def snapshot(self) -> Snapshot:
        """What there is to see now."""
        tables = {name: one.table for name, one in self.sequences.items()}
        twin = self.twin.look() if self.twin else None
        return Snapshot.take(self.pool, tables, self.prefix_cache, self._parents, twin)

    def _sequence(self, name: str) -> Sequence:
        if name not in self.sequences:
            raise ValueError(f"there is no sequence {name!r}; start one, or undo")
        return self.sequences[name]

    def _check_room(self, num_more: int) -> None:
        if len(self.sequences) + num_more > MOST:
            raise ValueError(f"at most {MOST} sequences at a time; free one first")

    def _add(self, sequence: Sequence, uses_cache: bool) -> str:
        name = self._names.new(self.sequences)
        self.sequences[name] = sequence
        if not uses_cache:
            self._uncached.add(name)
        if self.twin:
            self.twin.start(name, len(sequence.tokens))
        return name

    def _make_tokens(self, num_tokens: int) -> list[int]:
        return [next(self._own_tokens) for _ in range(num_tokens)]

    def _publish(self, name: str) -> None:
        sequence = self.sequences[name]
        if name not in self._uncached:
            self.prefix_cache.publish(sequence.tokens, sequence.table.block_ids)


def _check_number(value: int, least: int, what: str) -> None:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} {what}: give a whole number from {least}")
