"""Lab: a sequence's tiles, its blocks, and where these lie in the pool."""

import math
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, fit, width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free, others, soft, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable

LEFT = 116.0  # pixels beside the positions
HEIGHT = 26.0  # of a tile and of a block
SPLITS, TO_BLOCKS, TO_POOL = 26.0, 42.0, 70.0  # pixels from row to row
SPACE = 24.0  # in the pool, where blocks are left out
FEW, MANY = 20, 96  # blocks of a pool: of more, only those of the sequence are drawn


def plot_tile_and_blocks(
    table: BlockTable,
    tile: int,
    title: str,
    num_splits: int = 1,
    name: str = "A",
    now: int = 0,
) -> Figure:
    """The positions in tiles, the same positions in blocks, and the blocks in the pool.

    Marked is one tile: the blocks that it reads, and where they lie. With splits, lines
    above say whose the tiles are.

    tile: positions. now: the tile that is marked, counted from 0.
    """
    return _Walk(table, tile, num_splits, name, now, Sheet(title)).draw()


def split_shares(context: int, num_splits: int, tile: int) -> list[range]:
    """The positions of each split, as the decode kernel deals them out.

    Equal shares in whole tiles: the last one may be shorter, or empty.
    """
    share = math.ceil(math.ceil(context / num_splits) / tile) * tile
    starts = (min(split * share, context) for split in range(num_splits))
    return [range(start, min(start + share, context)) for start in starts]


class _Walk:
    """Positions from left to right; below them the pool."""

    def __init__(
        self,
        table: BlockTable,
        tile: int,
        num_splits: int,
        name: str,
        now: int,
        sheet: Sheet,
    ):
        self.table, self.tile, self.name, self.sheet = table, tile, name, sheet
        self.context, self.size = table.num_tokens, table.pool.block_size
        self.splits = split_shares(self.context, num_splits, tile)
        self.now = range(now * tile, min((now + 1) * tile, self.context))
        num_tiles = -(-self.context // tile)
        longest = max(num_tiles * tile, len(table.block_ids) * self.size)
        self.cell = (SPAN - LEFT) / longest
        self.tiles = 40 + SPLITS * (num_splits > 1)
        self.blocks = self.tiles + HEIGHT + TO_BLOCKS
        self.pool = self.blocks + HEIGHT + TO_POOL
        self.places = self._places()

    def x(self, position: int) -> float:
        """Where a position begins."""
        return LEFT + position * self.cell

    def _places(self) -> dict[int, tuple[float, float]]:
        """The left edge and the width of each block of the pool that is drawn."""
        pool = self.table.pool
        shown = sorted(self.table.block_ids)
        if pool.num_blocks <= MANY:
            shown = list(range(pool.num_blocks))
        near = 6.0 if len(shown) <= FEW else 2.0
        gaps = [SPACE if after != one + 1 else near for one, after in pairwise(shown)]
        width = min(64.0, (SPAN - LEFT - sum(gaps)) / len(shown))
        x, places = LEFT, {}
        for block, gap in zip(shown, [*gaps, 0.0], strict=True):
            places[block] = x, width
            x += width + gap
        return places

    def draw(self) -> Figure:
        """Arrows first, so that the boxes lie over their ends."""
        sheet = self.sheet
        for index, block in enumerate(self.table.block_ids):
            if self._is_read(index):
                end = self.places[block][0] + self.places[block][1] / 2
                middle = min((index + 0.5) * self.size, self.context)
                start = self.x(0) + middle * self.cell, self.blocks + HEIGHT + 3
                colour = line_colour(self.name)
                goal = end, self.pool - 3
                sheet.arrow(start, goal, colour, is_upright=True)
        self._draw_splits()
        self._draw_tiles()
        self._draw_blocks()
        self._draw_pool()
        self._label()
        bottom = self.pool + HEIGHT + 44
        signs = [(strong(self.name), f"tile {self.now.start // self.tile} reads it")]
        signs += [(soft(self.name), f"more of {self.name}")]
        tones = list(map(self._tone, self.places))
        signs += [(free(), "free")] * (free() in tones)
        signs += [(others(), "others")] * (others() in tones)
        sheet.legend(0, bottom, signs)
        return render(sheet.finish(bottom + 8))

    def _is_read(self, index: int) -> bool:
        """By the marked tile: does it have a position of this block of the table?"""
        return (
            index * self.size < self.now.stop
            and self.now.start < (index + 1) * self.size
        )

    def _draw_splits(self) -> None:
        """A line for each split, with the number of its program."""
        sheet, y = self.sheet, self.tiles - SPLITS + 8
        for number, share in enumerate(self.splits):
            if len(self.splits) == 1 or not share:
                continue
            start, end = self.x(share.start) + 2, self.x(share.stop) - 2
            points = (start, y + 5), (start, y), (end, y), (end, y + 5)
            sheet.line(*points, color=sheet.look.ink, linewidth=1.4)
            said, size = fit(f"split {number}", end - start)
            sheet.write((start + end) / 2, y - 12, said, size, ha="center")

    def _draw_tiles(self) -> None:
        """Each tile, and what of the last one lies past the end."""
        sheet, y = self.sheet, self.tiles
        for number, start in enumerate(range(0, self.context, self.tile)):
            stop = min(start + self.tile, self.context)
            tone = (strong if start == self.now.start else soft)(self.name)
            width = (stop - start) * self.cell
            long = width > width_of(f"tile {number}") + 8
            said = f"tile {number}" if long else str(number)
            said = said if width > width_of(said) + 4 else ""
            sheet.cells(self.x(start), y, [width], HEIGHT, [tone], [said])
            hidden = (start + self.tile - stop) * self.cell
            area = self.x(stop), y, hidden, HEIGHT
            sheet.empty(*area, "masked" if hidden > width_of("masked") + 20 else "")
            if hidden:
                sheet.box(*area, rim=sheet.look.rim)

    def _draw_blocks(self) -> None:
        """The table's blocks in the order of the positions."""
        sheet, width = self.sheet, self.size * self.cell
        for index, block in enumerate(self.table.block_ids):
            tone = (strong if self._is_read(index) else soft)(self.name)
            said = f"block {block}" if width > width_of("block 000") else str(block)
            said = said if width > width_of(said) + 2 else ""
            x = self.x(index * self.size)
            sheet.cells(x, self.blocks, [width], HEIGHT, [tone], [said])
        for position in range(0, self.context + 1, self.size):
            x, y = self.x(position), self.blocks - 12
            if position % self.tile == 0 or self.size >= self.tile:
                style = {"ha": "center", "color": sheet.look.quiet}
                sheet.write(x, y, str(position), **style)

    def _tone(self, block: int) -> Tone:
        if block in self.table.block_ids:
            is_read = self._is_read(self.table.block_ids.index(block))
            return (strong if is_read else soft)(self.name)
        return others() if self.table.pool.refcount(block) else free()

    def _draw_pool(self) -> None:
        """The blocks in the order in which they lie in memory."""
        sheet, y, written = self.sheet, self.pool, 0.0
        for block, (x, width) in self.places.items():
            sheet.box(x, y, width, HEIGHT, self._tone(block))
            sheet.box(x, y, width, HEIGHT, rim=sheet.look.rim)
            end, said = x + width / 2 - width_of(str(block)) / 2, str(block)
            if end > written:
                style = {"ha": "center", "color": sheet.look.quiet}
                sheet.write(x + width / 2, y + HEIGHT + 12, said, **style)
                written = end + width_of(said) + 4
        for before, block in pairwise(self.places):
            if block != before + 1:
                x = self.places[block][0] - SPACE / 2
                sheet.write(x, y + HEIGHT / 2, "…", PART, ha="center")

    def _label(self) -> None:
        """What the rows are."""
        sheet = self.sheet
        for y, what, remark in (
            (self.tiles, f"tiles of {self.tile}", "for the hardware"),
            (self.blocks, f"blocks of {self.size}", "for the allocator"),
            (self.pool, "the pool", "in memory"),
        ):
            sheet.label(y, HEIGHT, what, remark)
        sheet.write(0, 8, f"{self.name}'s {self.context} positions", PART)
