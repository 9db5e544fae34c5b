"""Lab: a tile of pointers with two axes, and where they lead in the pool."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, fit, width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable

ROW, HEIGHT, TOP = 30.0, 24.0, 132.0  # of the rows; above them
COLUMN = 62.0  # pixels above the row of columns
SLOTS, SLOTS_WIDTH, MATRIX, MATRIX_WIDTH = 134.0, 52.0, 214.0, 172.0
MEMORY, MEMORY_WIDTH = 440.0, 200.0  # the left edge of the pool's numbers
NUMBER, BRACKET = 668.0, 673.0  # where slots' numbers end, and blocks' brackets begin
SLOT, GAP = 21.0, 16.0  # pixels from slot to slot, and between blocks
LANE = 7.0  # pixels above a slot, for an arrow that passes other heads
MONO = {"family": "monospace"}


def plot_pointer_tile(
    table: BlockTable,
    positions: Sequence[int],
    num_kv_heads: int,
    dim: int,
    title: str,
    kv_head: int = 0,
    name: str = "A",
) -> Figure:
    """A column of slots and a row of numbers, their sum, and where it leads.

    Places are counted from the first number of K of this layer. A slot holds `dim`
    numbers of each KV head, so from slot to slot it is num_kv_heads * dim of them.

    positions: those of a tile, of tokens that the table has.
    """
    shape = num_kv_heads, dim, kv_head
    return _Pointers(table, list(positions), shape, name, Sheet(title)).draw()


class _Pointers:
    """A row for each position; in the pool, a row for each slot."""

    def __init__(
        self,
        table: BlockTable,
        positions: list[int],
        shape: tuple[int, int, int],
        name: str,
        sheet: Sheet,
    ):
        self.table, self.positions, self.name, self.sheet = (
            table,
            positions,
            name,
            sheet,
        )
        self.num_kv_heads, self.dim, self.kv_head = shape
        self.size, self.stride = table.pool.block_size, self.num_kv_heads * self.dim
        self.slots = [table.slot(position) for position in positions]
        self.used = {*map(table.slot, range(table.num_tokens))}
        self.blocks = sorted({slot // self.size for slot in self.slots})
        self.widths = [MATRIX_WIDTH / self.dim] * self.dim
        rows, blocks = ROW * len(positions), len(self.blocks)
        self.lane = LANE if self.kv_head else 0.0
        self.step = SLOT + self.lane
        pool = blocks * self.size * self.step + (blocks - 1) * GAP
        self.bottom = TOP + max(rows, pool)
        self.first = self.bottom - max(rows, pool) / 2 - rows / 2
        self.heights, y = {}, self.bottom - max(rows, pool) / 2 - pool / 2
        for block in self.blocks:
            for slot in range(block * self.size, (block + 1) * self.size):
                self.heights[slot], y = y + self.lane, y + self.step
            y += GAP

    def places(self, slot: int) -> list[int]:
        """Of this head's numbers, in this slot."""
        start = slot * self.stride + self.kv_head * self.dim
        return list(range(start, start + self.dim))

    def draw(self) -> Figure:
        """The parts, and arrows between them; below, the sum for a single number."""
        sheet = self.sheet
        self._draw_head()
        for row, slot in enumerate(self.slots):
            self._draw_row(row, slot)
        for slot, y in self.heights.items():
            self._draw_slot(slot, y)
        for row, slot in enumerate(self.slots):
            self._draw_arrow(row, slot)
        for block in self.blocks:
            self._draw_bracket(block)
        for before, block in pairwise(self.blocks):
            if block != before + 1:
                y = self.heights[block * self.size] - self.lane - GAP / 2
                sheet.write(MEMORY + MEMORY_WIDTH / 2, y, "⋮", PART, ha="center")
        self._explain(self.bottom + 12)
        return render(sheet.finish(self.bottom + 90))

    def _draw_head(self) -> None:
        """The headings, the number that all places have in common, and the row."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        shape = f"[{len(self.slots)}, {self.dim}]"
        sheet.write(0, 8, "A tile of pointers", PART)
        sheet.write(width_of("A tile of pointers", PART) + 10, 8, shape, **quiet)
        sheet.write(MEMORY, 8, "K of this layer, in the pool", PART)
        said = f"a slot has {self.num_kv_heads} KV heads × {self.dim} numbers"
        sheet.write(MEMORY, 26, said, **quiet)
        middle, plus = SLOTS + SLOTS_WIDTH / 2, {"size": PART, "ha": "center"}
        sheet.write(SLOTS + SLOTS_WIDTH, 46, "head_start", ha="right", **MONO)
        start = str(self.kv_head * self.dim)
        sheet.cells(SLOTS, COLUMN, [SLOTS_WIDTH], HEIGHT, [soft(self.name)], [start])
        right = MATRIX + MATRIX_WIDTH
        sheet.write(right, 46, "column[None, :]", ha="right", **MONO)
        tones, columns = [soft(self.name)] * self.dim, map(str, range(self.dim))
        sheet.cells(MATRIX, COLUMN, self.widths, HEIGHT, tones, list(columns))
        sheet.write(middle, (COLUMN + HEIGHT + self.first - 24) / 2, "+", **plus)
        between = (SLOTS + SLOTS_WIDTH + MATRIX) / 2
        sheet.write(between, COLUMN + HEIGHT / 2, "+", **plus)
        right, said = SLOTS + SLOTS_WIDTH, "slot[:, None] * STRIDE"
        sheet.write(right, self.first - 14, said, ha="right", **MONO)
        top, wide = min(self.heights.values()), self.dim * MEMORY_WIDTH / self.stride
        for head in range(self.num_kv_heads):
            x, (said, size) = MEMORY + (head + 0.5) * wide, fit(f"KV head {head}", wide)
            sheet.write(x, top - 12 - self.lane, said, size, ha="center", **quiet)
        sheet.write(NUMBER, top - 12 - self.lane, "slot", ha="right", **quiet)

    def _draw_row(self, row: int, slot: int) -> None:
        """A position, where its slot begins, and the places of its numbers."""
        sheet, y = self.sheet, self.first + row * ROW
        middle, quiet = y + HEIGHT / 2, {"color": self.sheet.look.quiet}
        sheet.write(0, middle, f"position {self.positions[row]}", **quiet)
        sheet.write(SLOTS - 8, middle, f"slot {slot}", ha="right")
        begin, tone = str(slot * self.stride), soft(self.name)
        sheet.cells(SLOTS, y, [SLOTS_WIDTH], HEIGHT, [tone], [begin])
        between = (SLOTS + SLOTS_WIDTH + MATRIX) / 2
        sheet.write(between, middle, "→", PART, ha="center")
        places = list(map(str, self.places(slot)))
        tones = [strong(self.name)] * self.dim
        sheet.cells(MATRIX, y, self.widths, HEIGHT, tones, places)

    def _tone(self, slot: int, place: int) -> Tone:
        if slot not in self.used:
            return free()
        is_read = slot in self.slots and place in self.places(slot)
        return strong(self.name) if is_read else soft(self.name)

    def _draw_slot(self, slot: int, y: float) -> None:
        """All numbers of a slot; those that the tile reads with their places."""
        sheet, width = self.sheet, MEMORY_WIDTH / self.stride
        places = range(slot * self.stride, (slot + 1) * self.stride)
        for at, place in enumerate(places):
            tone, x = self._tone(slot, place), MEMORY + at * width
            if tone == strong(self.name) and fit(str(place), width - 4)[1] > 7:
                sheet.cells(x, y, [width], SLOT - 2, [tone], [str(place)])
            else:
                sheet.cells(x, y, [width], SLOT - 2, [tone])
        for head in range(self.num_kv_heads):
            wide = self.dim * width
            area = MEMORY + head * wide, y, wide, SLOT - 2
            sheet.box(*area, rim=sheet.look.rim)
        sheet.write(NUMBER, y + SLOT / 2, str(slot), ha="right")

    def _draw_arrow(self, row: int, slot: int) -> None:
        """To the first number that is read; above the slot past the heads before it."""
        start = MATRIX + MATRIX_WIDTH + 4, self.first + row * ROW + HEIGHT / 2
        y, colour = self.heights[slot], line_colour(self.name)
        if not self.kv_head:
            return self.sheet.arrow(start, (MEMORY - 2, y + SLOT / 2), colour)
        x = MEMORY + (self.kv_head * self.dim + 0.5) * MEMORY_WIDTH / self.stride
        x0, y0, x1, lane = *start, MEMORY - 2, y - LANE + 1
        bends = [((x0 + x1) / 2, y0), ((x0 + x1) / 2, lane), (x1, lane)]
        points = [start, *bends, (x, lane), (x, y)]
        self.sheet.curve(points, color=colour, linewidth=1.1, head=6)

    def _draw_bracket(self, block: int) -> None:
        """Around the slots of a block, and which one it is."""
        top = self.heights[block * self.size] + 1
        bottom = top + self.size * self.step - self.lane - 4
        x, sheet = BRACKET + 5, self.sheet
        sheet.line((BRACKET, top), (x, top), (x, bottom), (BRACKET, bottom))
        sheet.write(SPAN, (top + bottom) / 2, f"block {block}", ha="right")

    def _explain(self, y: float) -> None:
        """One of the sums, and what the tones mean."""
        sheet, slot = self.sheet, self.slots[-1]
        start, column = self.kv_head * self.dim, self.dim - 1
        sheet.line((0, y), (SPAN, y), alpha=0.5)
        block, offset = divmod(slot, self.size)
        at, where = self.positions[-1], f"{block} * {self.size} + {offset} = {slot}"
        said = f"slot = table[{at} // {self.size}] * {self.size} + {at} % {self.size}"
        sheet.write(0, y + 20, f"{said} = {where}", PART, weight="bold", **MONO)
        rule = f"{start} + {slot} * {self.stride} + {column}"
        said = f"head_start + slot * STRIDE + column = {rule} = {self.places(slot)[-1]}"
        sheet.write(0, y + 44, said, PART, weight="bold", **MONO)
        read = f"{self.name}, KV head {self.kv_head}: read by this tile"
        signs = [(strong(self.name), read)]
        if self._others():
            signs += [(soft(self.name), f"{self.name}, {self._others()}: not read")]
        if {*self.heights} - self.used:
            signs += [(free(), f"not {self.name}'s")]
        sheet.legend(0, y + 68, signs)

    def _others(self) -> str:
        """What is drawn of this sequence and not read: heads, positions, or both."""
        heads, said = [*range(self.num_kv_heads)], []
        heads.remove(self.kv_head)
        if heads:
            said += ["other KV heads" if heads[1:] else f"KV head {heads[0]}"]
        if {*self.heights} & self.used - {*self.slots}:
            said += ["other positions"]
        return " and ".join(said)
