"""Lab: a token that has no block is written to block 0, over another sequence's."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.marks import Scene
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import RaggedBatch

LEFT, HEIGHT = 132.0, 26.0  # where the entries begin; how high they are, in pixels
BLOCKS, BELOW = 118.0, 236.0  # how far down the blocks are, and the second table
GAP = 14.0  # between blocks
MOST_BLOCKS = 8  # more are not drawn


def plot_overwritten(
    batch: RaggedBatch, tables: Mapping[str, BlockTable], title: str
) -> Figure:
    """Two rows of `block_tables`, and where each writes the last token of its sequence.

    The first row stands above the blocks, the second below them. Entries that only fill
    a row up are dashed. A slot that belongs to the other sequence gets a cross.

    tables: two, in the batch's order; a table may lack the block of its last token.
    """
    drawing = _Overwritten(batch, tables, Sheet(title))
    return render(drawing.draw())


class _Overwritten:
    """Whose the slots are, which are written, and where they are drawn."""

    def __init__(
        self, batch: RaggedBatch, tables: Mapping[str, BlockTable], sheet: Sheet
    ):
        self.batch, self.tables, self.sheet = batch, tables, sheet
        self.size = next(iter(tables.values())).pool.block_size
        self.hues = {
            name: name if len(name) == 1 else letter
            for name, letter in zip(tables, "AB", strict=True)
        }
        self.owners = {
            block_id * self.size + offset: (name, entry * self.size + offset)
            for name, table in tables.items()
            for entry, block_id in enumerate(table.block_ids)
            for offset in range(self.size)
            if entry * self.size + offset < table.num_tokens
        }
        _, *stops = batch.query_starts.tolist()
        ends = [stop - 1 for stop in stops]
        self.slots = [batch.slots[end].item() for end in ends]
        self.positions = [batch.positions[end].item() for end in ends]
        held = {slot // self.size for slot in (*self.owners, *self.slots)}
        written = {slot // self.size for slot in self.slots}
        self.shown = sorted([*written, *sorted(held - written)][:MOST_BLOCKS])
        self.width = min(200.0, (SPAN + GAP) / len(self.shown) - GAP)

    def draw(self) -> Scene:
        """The tables, the blocks between them, the arrows, and what they mean."""
        for row, (name, y) in enumerate(zip(self.tables, (20.0, BELOW), strict=True)):
            self._draw_row(row, name, y)
        for at, block_id in enumerate(self.shown):
            self._draw_block(block_id, at * (self.width + GAP))
        y, (hue, _) = BELOW + HEIGHT + 30, self.hues.values()
        signs = [(soft(hue), "there before"), (strong(hue), "written in this step")]
        if any(self._is_lost(row) for row in range(2)):
            signs.append((Tone(BAD), "overwritten by the other sequence"))
        self.sheet.legend(0, y, signs)
        return self.sheet.finish(y + 10)

    def _is_lost(self, row: int) -> bool:
        """Does this row write into a slot of the other sequence?"""
        name, _ = self.owners.get(self.slots[row], ("", 0))
        return name not in ("", list(self.tables)[row])

    def _draw_row(self, row: int, name: str, y: float) -> None:
        """A table's row, the entry that the last token uses, and its arrow."""
        sheet, position = self.sheet, self.positions[row]
        ids = self.batch.block_tables[row].tolist()
        width = min(44.0, (SPAN - LEFT - 150) / len(ids))
        known, used = len(self.tables[name].block_ids), position // self.size
        sheet.write(0, y + 6, name, PART, weight="bold")
        new = f"writes position {position}"
        sheet.write(0, y + 22, new, color=sheet.look.quiet)
        for entry, block_id in enumerate(ids):
            x, is_filler = LEFT + entry * width, entry >= known
            tone = free() if is_filler else soft(self.hues[name])
            if entry == used and not is_filler:
                tone = strong(self.hues[name])
            sheet.cells(x, y, [width], HEIGHT, [tone], [str(block_id)])
            if is_filler:
                frame = {"rim": BAD, "linewidth": 1.6, "linestyle": "--"}
                sheet.box(x + 2, y, width - 4, HEIGHT, **frame)
        x = LEFT + len(ids) * width + 12
        if len(ids) > known:
            said = "filled up with zeros"
            whole = f"no blocks: the row is {said}"
            said = whole if x + width_of(whole) < SPAN else said
            sheet.write(x, y + HEIGHT / 2, said, color=BAD)
        below = row == 0
        start = LEFT + (used + 0.5) * width, y + HEIGHT + 3 if below else y - 3
        end = self._middle(self.slots[row]), BLOCKS - 3 if below else BLOCKS + 29
        colour = BAD if self._is_lost(row) else None
        sheet.arrow(start, end, colour, is_followed=True, is_upright=True)

    def _middle(self, slot: int) -> float:
        block_id, offset = divmod(slot, self.size)
        left = self.shown.index(block_id) * (self.width + GAP)
        return left + (offset + 0.5) * self.width / self.size

    def _draw_block(self, block_id: int, x: float) -> None:
        """A block's slots, its id, and over them a cross where a token is lost."""
        sheet, slot = self.sheet, self.width / self.size
        first, second = self.slots
        tones, owner = [], ""
        for one in range(block_id * self.size, (block_id + 1) * self.size):
            name, _ = self.owners.get(one, ("", 0))
            owner = owner or name
            hue = self.hues.get(name)
            tone = soft(hue) if hue else free()
            tones.append(strong(hue) if hue and one in self.slots else tone)
        for row, written in enumerate((first, second)):
            if written // self.size == block_id and self._is_lost(row):
                tones[written % self.size] = Tone(BAD)
        sheet.cells(x, BLOCKS, [slot] * self.size, HEIGHT, tones)
        sheet.box(x, BLOCKS, self.width, HEIGHT, rim=sheet.look.rim)
        # The arrow from above may end at either side: the words stand at the other, or,
        # if they are too long for that, below the block.
        is_left = first // self.size == block_id and first % self.size < self.size / 2
        label = f"block {block_id}" if self.width > 70 else str(block_id)
        whose = f"{label}, {owner}'s"
        room = self.width
        if first // self.size == block_id:  # an arrow arrives here
            reach = (first % self.size + 0.5) * slot
            room = (self.width - reach if is_left else reach) - 12
        y, is_named = BLOCKS - 12, bool(owner) and self.width > 100
        place, side = (x + self.width, "right") if is_left else (x, "left")
        if is_named and width_of(whose) < room:
            label = whose
        elif is_named and self._is_free_below(block_id, x + self.width, whose):
            label, place, side, y = whose, x + self.width, "right", BLOCKS + HEIGHT + 14
        sheet.write(place, y, label, ha=side, color=sheet.look.quiet)
        for row, written in enumerate((first, second)):
            if written // self.size == block_id and self._is_lost(row):
                self._cross_out(written)

    def _is_free_below(self, block_id: int, right: float, said: str) -> bool:
        """May these words end at `right`, below a block that no arrow reaches there?"""
        if self.slots[1] // self.size == block_id or width_of(said) > self.width:
            return False
        lost = [slot for row, slot in enumerate(self.slots) if self._is_lost(row)]
        ends = [
            place + width_of(gone) * 1.1 + 12 for gone, place in map(self._gone, lost)
        ]
        return all(end < right - width_of(said) for end in ends)

    def _gone(self, slot: int) -> tuple[str, float]:
        """What is said of a lost token, and from where on."""
        name, position = self.owners[slot]
        said = f"K and V of {name}'s position {position} are gone"
        return said, min(max(0.0, self._middle(slot) + 14), SPAN - width_of(said))

    def _cross_out(self, slot: int) -> None:
        """Say which token was in this slot."""
        sheet, (said, place) = self.sheet, self._gone(slot)
        x, reach = self._middle(slot), min(7.0, self.width / self.size / 2 - 2)
        corners = ((-reach, 6.0), (reach, HEIGHT - 6.0))
        for (left, top), (right, bottom) in (corners, [(-x, y) for x, y in corners]):
            ends = (x + left, BLOCKS + top), (x + right, BLOCKS + bottom)
            sheet.line(*ends, color="#FFFFFF", linewidth=2.2)
        sheet.write(place, BLOCKS + HEIGHT + 14, said, color=BAD, weight="bold")
