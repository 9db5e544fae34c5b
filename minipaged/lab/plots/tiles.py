"""Lab: which positions of which sequences attention reads in each of its tiles."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.attention.rectangles import Rectangle, pad_to_rectangles
from minipaged.attention.streamed import Tile, _tiles
from minipaged.draw.letters import PART, fit, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT, Tone, free, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import Chunk, RaggedBatch

LEFT, TOP = 104.0, 84.0  # pixels beside the rows, and above them
WIDEST = 50.0  # a position, from left to right


def tiles_of(
    tables: Mapping[str, BlockTable], new_tokens: Mapping[str, int], num_positions: int
) -> tuple[Rectangle, list[Tile]]:
    """How streamed attention cuts a batch into tiles of so many positions.

    new_tokens: how many each sequence computes, similarly many. They are the last ones
    of its table.
    """
    chunks = [Chunk([0] * new, tables[name]) for name, new in new_tokens.items()]
    batch = RaggedBatch.build(chunks, device="cpu")
    (rectangle,), _ = pad_to_rectangles(batch)
    return rectangle, list(_tiles(rectangle, num_positions, window=None))


def plot_tiles(
    rectangle: Rectangle,
    tiles: Sequence[Tile],
    tables: Mapping[str, BlockTable],
    title: str,
) -> Figure:
    """A row for each new token, a column for each position, a frame for each tile.

    Of what lies in a tile, some is seen, and some hidden by the mask; what lies in no
    tile is not read. In a decode step a cell is a position that is read; with more new
    tokens, a logit that is computed: K of a position is read once for all of them.

    rectangle, tiles: as streamed attention makes them. tables: in the batch's order.
    """
    return _Tiles(rectangle, tiles, tables, Sheet(title)).draw()


class _Tiles:
    """Where the rows lie, and what is drawn in them."""

    def __init__(
        self,
        rectangle: Rectangle,
        tiles: Sequence[Tile],
        tables: Mapping[str, BlockTable],
        sheet: Sheet,
    ):
        self.rectangle, self.tiles, self.sheet = rectangle, tiles, sheet
        names = list(tables)
        self.names = [names[at] for at in rectangle.sequences.tolist()]
        self.tables = [tables[name] for name in self.names]
        self.own = rectangle.positions.tolist()  # [S][Q]
        read = [int(tile.positions.max()) for tile in tiles]
        self.num_positions = max(*map(max, self.own), *read) + 1
        self.num_queries = len(self.own[0])
        self.is_decode = self.num_queries == 1
        self.cell = min(WIDEST, (SPAN - LEFT) / self.num_positions)
        self.height, self.gap = (28.0, 8.0) if self.is_decode else (17.0, 12.0)

    def x(self, position: int) -> float:
        """Where a position begins."""
        return LEFT + position * self.cell

    def y(self, sequence: int, query: int) -> float:
        """The upper edge of a row."""
        row = sequence * self.num_queries + query
        return TOP + row * self.height + sequence * self.gap

    def draw(self) -> Figure:
        """What is read over what is not, frames over both, counts and legend."""
        sheet = self.sheet
        for sequence in range(len(self.own)):
            self._draw_rows(sequence)
        num_seen = num_read = 0
        for number, tile in enumerate(self.tiles):
            seen, read = self._draw_tile(tile)
            num_seen, num_read = num_seen + seen, num_read + read
            self._draw_frame(number, tile)
        self._head(num_seen, num_read)
        bottom = self.y(len(self.own) - 1, self.num_queries - 1) + self.height
        for position in range(0, self.num_positions, self._block_size()):
            middle = self.x(position) + self.cell / 2
            said = str(position)
            sheet.write(middle, bottom + 18, said, ha="center", color=sheet.look.quiet)
        sheet.write(0, bottom + 18, "position", color=sheet.look.quiet)
        signs = [(strong(self.names[0]), "computed, and seen")]
        signs += [(KEPT, "hidden by the mask")]
        sheet.legend(0, bottom + 46, [*signs, (free(), "not computed")])
        return render(sheet.finish(bottom + 56))

    def _block_size(self) -> int:
        return self.tables[0].pool.block_size

    def _head(self, num_seen: int, num_read: int) -> None:
        """How many positions are seen and read, and how many a rectangle would have."""
        whole = len(self.own) * self.num_queries * self.num_positions
        thing = "positions" if self.is_decode else "pairs (new token, position)"
        said = f"{num_seen} {thing} are seen, {num_read} are computed"
        self.sheet.write(0, 8, said, PART)
        remark = f"a padded rectangle has {whole}"
        rows = "rows: sequences" if self.is_decode else "rows: queries"
        self.sheet.write(0, 46, rows, color=self.sheet.look.quiet)
        if self.is_decode:
            self.sheet.write(0, 64, "longest first", color=self.sheet.look.quiet)
        self.sheet.write(SPAN, 8, remark, ha="right", color=self.sheet.look.quiet)

    def _draw_rows(self, sequence: int) -> None:
        """The label, and pale cells as far as the longest row goes."""
        sheet, name = self.sheet, self.names[sequence]
        for query, position in enumerate(self.own[sequence]):
            y = self.y(sequence, query)
            is_padding = query and position == self.own[sequence][query - 1]
            said = "padding" if is_padding else f"{name}'s token {position}"
            middle = y + self.height / 2 - 1
            shown, size = fit(said, LEFT - 12)
            sheet.write(0, middle, shown, size)
            area = self.x(0), y, self.num_positions * self.cell, self.height - 3
            sheet.box(*area, free(), sheet.look.rim)

    def _draw_tile(self, tile: Tile) -> tuple[int, int]:
        """The cells of a tile; how many of them are seen, and how many there are."""
        num_seen = num_read = 0
        first, last = tile.queries.start, min(tile.queries.stop, self.num_queries)
        for sequence, positions in enumerate(tile.positions.tolist()):
            for query in range(first, last):
                hidden = [False] * len(positions)
                if tile.hidden is not None:
                    hidden = tile.hidden[sequence, query - first].tolist()
                self._draw_cells(sequence, query, positions, hidden)
                num_seen += len(hidden) - sum(hidden)
                num_read += len(hidden)
        return num_seen, num_read

    def _draw_cells(
        self, sequence: int, query: int, positions: list[int], hidden: list[bool]
    ) -> None:
        """Of one row in one tile: block by block what is seen, and what is hidden."""
        size, table = self._block_size(), self.tables[sequence]
        y, height = self.y(sequence, query), self.height - 3
        tone = strong(self.names[sequence])
        for block in sorted({position // size for position in positions}):
            own = [
                position
                for position, is_hidden in zip(positions, hidden, strict=True)
                if position // size == block and not is_hidden
            ]
            if own:
                x, width = self.x(own[0]), len(own) * self.cell
                self._draw_block(x, y, width, height, table.block_ids[block], tone)
        out = [p for p, is_hidden in zip(positions, hidden, strict=True) if is_hidden]
        for start, stop in _runs(out):
            self.sheet.empty(self.x(start), y, (stop - start) * self.cell, height)

    def _draw_block(
        self, x: float, y: float, width: float, height: float, block: int, tone: Tone
    ) -> None:
        """A block's cells, with its id where there is room for it."""
        if not self.is_decode:
            count = round(width / self.cell)
            self.sheet.cells(x, y, [self.cell] * count, height, [tone] * count)
            return
        said = f"block {block}" if width > 60 else str(block)
        self.sheet.box(x + 1, y, width - 2, height, tone)
        if width > width_of(said) + 6:
            self.sheet.word(x, y, width, height, said, tone)

    def _draw_frame(self, number: int, tile: Tile) -> None:
        """Around the rows that read the tile; its name above them all."""
        sheet, ink = self.sheet, {"rim": self.sheet.look.ink, "linewidth": 2.0}
        first, last = tile.queries.start, min(tile.queries.stop, self.num_queries)
        positions = tile.positions.tolist()
        width = len(positions[0]) * self.cell
        spans = [(s, s) for s in range(tile.num_sequences)]
        if self.is_decode and len({row[0] for row in positions}) == 1:
            spans = [(0, tile.num_sequences - 1)]  # one frame around all
        for start, stop in spans:
            x, y = self.x(positions[start][0]), self.y(start, first)
            end = self.y(stop, last - 1) + self.height - 3
            sheet.box(x + 1, y - 4, width - 2, end - y + 8, **ink)
        middle = self.x(positions[0][0]) + width / 2
        label, size = fit(f"tile {number}", width)
        sheet.write(middle, 46, label, size, ha="center", weight="bold")
        said, size = fit(_size_of(tile, first, last), width + 4)
        sheet.write(middle, 62, said, size, ha="center", color=sheet.look.quiet)


def _size_of(tile: Tile, first: int, last: int) -> str:
    num_rows = tile.num_sequences * (last - first)
    return f"{num_rows} × {tile.positions.shape[1]}"


def _runs(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours together: (first, one past the last)."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and runs[-1][1] == position:
            runs[-1] = runs[-1][0], position + 1
        else:
            runs.append((position, position + 1))
    return runs
