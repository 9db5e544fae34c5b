"""Lab: a pool and its tables at one moment, kept to be drawn or compared later."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from minipaged.lab.pool.twin import TwinState
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from minipaged.lab.pool.lanes import Lanes


@dataclass
class Contents:
    """What the tables say about the blocks."""

    owners: dict[int, list[str]] = field(default_factory=dict)  # block: sequences
    filled: dict[int, int] = field(default_factory=dict)  # block: slots with a token
    cached: frozenset[int] = frozenset()  # free blocks that can still be found


def read_contents(
    pool: BlockPool, tables: Mapping[str, BlockTable], cached: Collection[int] = ()
) -> Contents:
    """Go through the tables and note who holds which block, and how full it is."""
    free = [block_id for block_id in cached if pool.refcount(block_id) == 0]
    contents = Contents(cached=frozenset(free))
    for name, table in tables.items():
        for index, block_id in enumerate(table.block_ids):
            here = min(pool.block_size, table.num_tokens - index * pool.block_size)
            contents.owners.setdefault(block_id, []).append(name)
            contents.filled[block_id] = max(here, contents.filled.get(block_id, 0))
    return contents


@dataclass(frozen=True)
class FrozenTable:
    """What a BlockTable said."""

    block_ids: tuple[int, ...]
    num_tokens: int


@dataclass(frozen=True)
class Snapshot:
    """What a pool, its tables and its prefix cache said.

    Pictures take it in place of the pool, and its `tables` in place of the tables.
    """

    block_size: int
    refcounts: tuple[int, ...]
    tables: Mapping[str, FrozenTable]
    cached: Mapping[int, int]  # blocks whose content can be found: its hash
    parents: Mapping[str, str]  # whom a sequence was forked from, if it was
    twin: TwinState | None = None  # the same sequences in contiguous memory
    lanes: "Lanes | None" = None  # of an engine: who waits, and who runs

    @classmethod
    def take(
        cls,
        pool: BlockPool,
        tables: Mapping[str, BlockTable],
        prefix_cache: PrefixCache | None = None,
        parents: Mapping[str, str] = MappingProxyType({}),
        twin: TwinState | None = None,
        lanes: "Lanes | None" = None,
    ) -> "Snapshot":
        """Look at the live objects; nothing of them is kept."""
        refcounts = tuple(map(pool.refcount, range(pool.num_blocks)))
        frozen = {
            name: FrozenTable(tuple(table.block_ids), table.num_tokens)
            for name, table in tables.items()
        }
        cached = {}
        if prefix_cache is not None:
            contents = map(prefix_cache.content, range(pool.num_blocks))
            cached = {id_: one.chain_hash for id_, one in enumerate(contents) if one}
        parents = dict(parents)
        return cls(pool.block_size, refcounts, frozen, cached, parents, twin, lanes)

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool, held and free."""
        return len(self.refcounts)

    def refcount(self, block_id: int) -> int:
        """How many holders the block has."""
        return self.refcounts[block_id]

    @cached_property
    def contents(self) -> Contents:
        """Who holds which block, and how full it is."""
        return read_contents(self, self.tables, self.cached)

    @cached_property
    def firsts(self) -> Mapping[int, tuple[str, int]]:
        """Of each block in a table: its first holder by name, and its entry there."""
        found: dict[int, tuple[str, int]] = {}
        for name, table in sorted(self.tables.items()):
            for entry, block_id in enumerate(table.block_ids):
                found.setdefault(block_id, (name, entry))
        return found

    @property
    def num_held(self) -> int:
        """Blocks that somebody holds."""
        return sum(held > 0 for held in self.refcounts)

    @property
    def num_unshared(self) -> int:
        """Blocks that the tables would need if each had its own."""
        return sum(len(table.block_ids) for table in self.tables.values())

    @property
    def num_empty(self) -> int:
        """Slots of the tables' blocks in which there is no token: what is wasted."""
        filled = self.contents.filled
        return len(filled) * self.block_size - sum(filled.values())
