"""Lab: two tables lead to one block, and the pool counts a single holder."""

from collections.abc import Mapping
from typing import Protocol

from matplotlib.figure import Figure

from minipaged.draw.letters import PART
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import render

TOP, BLOCKS, BELOW = 14.0, 104.0, 188.0  # how far down tables and blocks are, in pixels
HEIGHT, ENTRY = 28.0, 44.0  # of a row; of an entry
WIDE = 300.0  # pixels of the block that both tables name


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
    sheet = Sheet(title)
    (first, one), (second, other) = tables.items()
    block_id = next(id_ for id_ in one.block_ids if id_ in other.block_ids)
    middle = SPAN / 2
    for name, table, y in ((first, one, TOP), (second, other, BELOW)):
        entry = table.block_ids.index(block_id)
        left = middle - (entry + 0.5) * ENTRY
        sheet.write(left - 14, y + HEIGHT / 2, f"{name}'s table", PART, ha="right")
        tone = soft(name) if name == first else strong(name)
        ids = [str(id_) for id_ in table.block_ids]
        sheet.cells(left, y, [ENTRY] * len(ids), HEIGHT, [tone] * len(ids), ids)
    _draw_block(sheet, block_id, memory[block_id], second, middle - WIDE / 2)
    sheet.arrow((middle, TOP + HEIGHT + 3), (middle, BLOCKS - 4), BAD, True, True)
    sheet.arrow((middle, BELOW - 3), (middle, BLOCKS + HEIGHT + 4), None, True, True)
    said = f"should read: {lost}"
    sheet.write(middle + 40, TOP + 4, said, color=sheet.look.quiet)
    said = f"reads: {memory[block_id]}"
    sheet.write(middle + 40, TOP + HEIGHT - 2, said, color=BAD, weight="bold")
    sheet.write(middle + 40, BELOW + HEIGHT / 2, f"{second} has written last")
    named = sum(block_id in table.block_ids for table in tables.values())
    counted = f"the pool counts: {pool.refcount(block_id)}"
    _draw_counts(sheet, f"tables that name it: {named}", counted)
    return render(sheet.finish(BELOW + HEIGHT + 6))


def _draw_block(sheet: Sheet, block_id: int, text: str, name: str, x: float) -> None:
    """The block, a word in each slot."""
    words = text.split()
    slot = WIDE / len(words)
    tones = [strong(name)] * len(words)
    sheet.cells(x, BLOCKS, [slot] * len(words), HEIGHT, tones, words)
    sheet.box(x, BLOCKS, WIDE, HEIGHT, rim=BAD, linewidth=1.8)
    label = f"block {block_id}"
    sheet.write(x - 14, BLOCKS + HEIGHT / 2, label, PART, ha="right", weight="bold")


def _draw_counts(sheet: Sheet, named: str, counted: str) -> None:
    """How many tables name the block, and how many holders the pool knows."""
    x = SPAN / 2 + WIDE / 2 + 14
    sheet.write(x, BLOCKS + 4, named)
    sheet.write(x, BLOCKS + HEIGHT - 4, counted, color=BAD, weight="bold")
