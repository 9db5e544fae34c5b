"""Lab: from a position to its slot, through the block table (paper, figure 6)."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.marks import Point, Scene
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free, others, shared, soft, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable

LOGICAL, TABLE, PHYSICAL = 0.0, 304.0, 516.0  # where the three parts begin, in pixels
BLOCK, ENTRY = 208.0, 48.0  # how wide a block is, and half a table entry
TOP, GAP = 62.0, 24.0  # below the headings; between rows that are left out
MANY_ENTRIES, MANY_BLOCKS = 8, 12  # more are not drawn


def plot_address(
    table: BlockTable,
    position: int,
    title: str,
    name: str = "A",
    words: Sequence[str] = (),
) -> Figure:
    """The path of one position: logical block, table entry, physical block, slot.

    words: the texts of the table's tokens. Of a long table, and of a large pool, only
    the rows beside the path and at the ends are drawn.
    """
    drawing = _Address(table, position, name, words, Sheet(title))
    return render(drawing.draw())


def rows_of(count: int, many: int, needed: set[int]) -> list[int]:
    """The rows to draw: all of them, or of many those that are needed and the ends."""
    if count <= many:
        return list(range(count))
    return sorted({0, count - 1, *(row for row in needed if 0 <= row < count)})


class _Address:
    """The three parts, and where each of their rows lies."""

    def __init__(
        self,
        table: BlockTable,
        position: int,
        name: str,
        words: Sequence[str],
        sheet: Sheet,
    ):
        self.table, self.name, self.words, self.sheet = table, name, words, sheet
        self.position, self.size = position, table.pool.block_size
        self.index, self.offset = divmod(position, self.size)
        self.block_id = table.block_ids[self.index]
        self.is_fine = self.size <= 8  # else there is no room for words and slots
        near = {self.index - 1, self.index, self.index + 1}
        entries = rows_of(len(table.block_ids), MANY_ENTRIES, near)
        needed = {table.block_ids[entry] for entry in entries}
        blocks = rows_of(table.pool.num_blocks, MANY_BLOCKS, needed)
        self.entries = self._places(entries, 58.0, self.index)
        self.blocks = self._places(blocks, 34.0, self.block_id)
        spare = max(self.blocks.values()) - max(self.entries.values())
        for places in (self.entries, self.blocks):  # the shorter part in the middle
            for row in places:
                places[row] += (
                    abs(spare) / 2 * ((spare > 0) == (places is self.entries))
                )

    def _places(self, rows: list[int], step: float, followed: int) -> dict[int, float]:
        """The height of each row; a gap where rows are left out, and for remarks."""
        places, y = {}, TOP
        for before, row in pairwise([-1, *rows]):
            y += GAP * (row != before + 1)
            places[row] = y
            y += step + 20 * (row == followed)
        return places

    def draw(self) -> Scene:
        """Headings, the arrows, over them the boxes, at the end the sum."""
        sheet, quiet = self.sheet, self.sheet.look.quiet
        for x, part, remark in (
            (LOGICAL, "Logical blocks", "what the sequence sees"),
            (TABLE, f"Block table of {self.name}", "entry → block"),
            (PHYSICAL, "Physical blocks", "where K and V lie, for all users"),
        ):
            sheet.write(x, 8, part, PART)
            sheet.write(x, 25, remark, color=quiet)
        for index, y in self.entries.items():
            self._draw_entry(index, y)
        for block_id, y in self.blocks.items():
            self._draw_block(block_id, y)
        self._draw_gaps(LOGICAL + BLOCK / 2, self.entries, 58.0)
        self._draw_gaps(TABLE + ENTRY, self.entries, 58.0)
        self._draw_gaps(PHYSICAL + 30, self.blocks, 34.0)
        bottom = max(*self.entries.values(), *self.blocks.values()) + 50
        sheet.line((0, bottom + 8), (SPAN, bottom + 8), alpha=0.5)
        p, size, block_id, offset = self.position, self.size, self.block_id, self.offset
        rule = f"slot = table[{p} // {size}] * {size} + {p} % {size}"
        slot = block_id * size + offset
        mono = {"family": "monospace", "weight": "bold"}
        sheet.write(
            0,
            bottom + 26,
            f"{rule} = {block_id} * {size} + {offset} = {slot}",
            PART,
            **mono,
        )
        return sheet.finish(bottom + 36)

    def _tones(self, index: int) -> tuple[list[Tone], list[str]]:
        """Of a logical block: a tone for each of its slots, and the words in them."""
        tone = soft(self.name)
        if self.table.pool.refcount(self.table.block_ids[index]) > 1:
            tone = shared(tone, self.name)
        start = index * self.size
        used = min(self.size, self.table.num_tokens - start)
        tones = [tone] * used + [free()] * (self.size - used)
        if index == self.index:
            tones[self.offset] = strong(self.name)
        words = self.words[start : start + used] if self.is_fine else ()
        return tones, list(words)

    def _draw_cells(self, index: int, x: float, y: float, width: float) -> None:
        tones, words = self._tones(index)
        sheet, slot = self.sheet, width / self.size
        sheet.cells(x, y, [slot] * self.size, 26, tones, words)
        sheet.box(x, y, width, 26, rim=sheet.look.rim)
        if index == self.index:
            frame = {"rim": sheet.look.ink, "linewidth": 2.0}
            sheet.box(x + self.offset * slot, y, slot, 26, **frame)
            if not words:  # the remainder, before the table and behind it
                place = x + self.offset * slot, y, slot, 26
                sheet.word(*place, str(self.offset), tones[self.offset])

    def _draw_entry(self, index: int, y: float) -> None:
        """A logical block, its entry in the table, and the arrows from both."""
        sheet, quiet, is_path = self.sheet, self.sheet.look.quiet, index == self.index
        block_id, last = self.table.block_ids[index], (index + 1) * self.size - 1
        sheet.write(LOGICAL, y - 10, f"logical {index}", color=quiet)
        span = f"positions {index * self.size}–{last}"
        sheet.write(LOGICAL + BLOCK, y - 10, span, ha="right", color=quiet)
        start, middle = (LOGICAL + BLOCK + 4, y + 13), (TABLE - 3, y + 13)
        sheet.arrow(start, middle, is_followed=is_path)
        tail, head = (
            (TABLE + 2 * ENTRY + 4, y + 13),
            (PHYSICAL - 3, self.blocks[block_id] + 13),
        )
        sheet.arrow(tail, head, is_followed=is_path)
        self._draw_cells(index, LOGICAL, y, BLOCK)
        tone = strong(self.name) if is_path else soft(self.name)
        sheet.cells(TABLE + ENTRY, y, [ENTRY], 26, [tone], [str(block_id)])
        sheet.write(TABLE + ENTRY / 2, y + 13, str(index), ha="center")
        rim = {"rim": sheet.look.ink if is_path else sheet.look.rim}
        sheet.box(TABLE, y, 2 * ENTRY, 26, **rim, linewidth=1.6 if is_path else 0.8)
        if is_path:
            self._explain((LOGICAL, y + 39), (TABLE, y + 39))

    def _explain(self, under_block: Point, under_entry: Point) -> None:
        """What is computed on the way, below the block and below the entry."""
        p, size, mono = self.position, self.size, {"family": "monospace"}
        said = f"{p} % {size} = {self.offset}"
        self.sheet.write(*under_block, f"position {p}", weight="bold")
        x = under_block[0] + BLOCK
        self.sheet.write(x, under_block[1], said, ha="right", **mono)
        self.sheet.write(*under_entry, f"{p} // {size} = {self.index}", **mono)

    def _draw_block(self, block_id: int, y: float) -> None:
        """A physical block with its id, and what lies in it if that is known."""
        sheet, left = self.sheet, PHYSICAL + 30
        width, weight = SPAN - left, "normal"
        if block_id == self.block_id:
            weight, said = "bold", f"slot {block_id * self.size + self.offset}"
            slot = left + (self.offset + 0.5) * width / self.size
            slot = min(slot, SPAN - width_of(said, bold=True) / 2)
            sheet.write(slot, y + 38, said, ha="center", weight=weight)
        sheet.write(left - 6, y + 13, str(block_id), ha="right", weight=weight)
        if block_id in self.table.block_ids:
            self._draw_cells(self.table.block_ids.index(block_id), left, y, width)
            return
        holders = self.table.pool.refcount(block_id)
        tone, said = (others(), "others") if holders else (free(), "free")
        if holders:  # the face is soft: where the word stands, there is none
            side = (width - width_of(said)) / 2 - 7
            sheet.box(left, y, side, 26, tone)
            sheet.box(SPAN - side, y, side, 26, tone)
        else:
            sheet.box(left, y, width, 26, tone)
        sheet.box(left, y, width, 26, rim=sheet.look.rim)
        sheet.word(left, y, width, 26, said, tone)

    def _draw_gaps(self, x: float, places: dict[int, float], step: float) -> None:
        """Three dots where rows are left out."""
        rows = list(places)
        for before, row in pairwise(rows):
            if row != before + 1:
                y = places[row] - (GAP + step - 26) / 2
                self.sheet.write(x, y, "⋮", PART, ha="center")
