"""Lab: two tables lead to one block, and the pool counts a single holder."""

from collections.abc import Mapping
from typing import Protocol

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import Figure, render


class Pool(Protocol):
    """What is asked of a pool, be it the package's or one that counts wrongly."""

    num_blocks: int

    def refcount(self, block_id: int) -> int:
        """How many sequences hold the block, as the pool believes."""


class Table(Protocol):
    """What is asked of a table."""

    block_ids: list[int]


def plot_miscounted(
    pool: Pool,
    tables: Mapping[str, Table],
    memory: Mapping[int, str],
    title: str,
    lost: str,
) -> Figure:
    """Two tables that name one block, what it holds now, and what it held before.

    tables: two; the second has written last. memory: block id to the text in the block.
    lost: what the first table's sequence reads there if nobody has written over it.
    """
    (first, one), (second, other) = tables.items()
    block_id = next(id_ for id_ in one.block_ids if id_ in other.block_ids)
    named = sum(block_id in table.block_ids for table in tables.values())
    counts = f"tables that name it: {named}, the pool counts: {pool.refcount(block_id)}"
    bad = {"aside_colour": BAD}

    picture = Picture(title)
    ids = [Cell(str(id_), soft(first)) for id_ in one.block_ids]
    said = {"aside": f"reads: {memory[block_id]}", **bad}
    above = picture.row(f"{first}'s table", f"should read: {lost}", ids, **said)
    words = [Cell(word, strong(second), wide=1.6) for word in memory[block_id].split()]
    block = picture.row(f"block {block_id}", "", words, aside=counts, **bad, rim=BAD)
    ids = [Cell(str(id_), strong(second)) for id_ in other.block_ids]
    below = picture.row(f"{second}'s table", "has written last", ids)
    entries = [table.block_ids.index(block_id) for table in (one, other)]
    picture.link(above[entries[0]], block[:], BAD, is_followed=True)
    picture.link(below[entries[1]], block[:], is_followed=True)
    return render(picture.scene())
