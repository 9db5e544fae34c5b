"""Lab: which positions of which sequences attention reads in each of its tiles."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby, product

from minipaged.attention.rectangles import Rectangle, pad_to_rectangles
from minipaged.attention.streamed import Tile, _tiles
from minipaged.draw.letters import from_to
from minipaged.draw.palette import theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row, Span
from minipaged.draw.tones import KEPT, Tone, free, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import Chunk, RaggedBatch


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
    order, own = list(tables), rectangle.positions.tolist()  # [S][Q]
    names = [order[at] for at in rectangle.sequences.tolist()]
    num_queries, size = len(own[0]), tables[order[0]].pool.block_size
    width = 1 + max(*map(max, own), *(int(tile.positions.max()) for tile in tiles))
    picture, is_decode = Picture(title, widest=50.0), num_queries == 1
    read = _read(tiles, num_queries)
    seen = sum(not hidden for row in read.values() for _, hidden in row.values())
    thing = "positions" if is_decode else "pairs (new token, position)"
    said = f"{seen} {thing} are seen, {sum(map(len, read.values()))} are computed"
    rectangle_has = f"a padded rectangle has {len(own) * num_queries * width}"
    picture.headline(said, "", rectangle_has, theme().quiet)
    remark = "longest first" if is_decode else ""
    head = [Cell(wide=float(tiles[0].positions[0, 0]))]
    for number, tile in enumerate(tiles):
        count = tile.num_sequences * len(_queries(tile, num_queries))
        wide = tile.positions.shape[1]
        head.append(Cell(f"{count} × {wide}", wide=wide, above=f"tile {number}"))
    kind = "sequences" if is_decode else "queries"
    picture.row(f"rows: {kind}", remark, head, height=12.0)
    rows: dict[tuple[int, int], Row] = {}
    for at in product(range(len(own)), range(num_queries)):
        sequence, query = at
        position, name = own[sequence][query], names[sequence]
        is_padding = query and position == own[sequence][query - 1]
        label = "padding" if is_padding else f"{name}'s token {position}"
        cells = _cells(read.get(at, {}), width, tables[name], name, is_decode)
        high, apart = (25.0, 10.0) if is_decode else (14.0, 3.0)
        rows[at] = picture.row(label, "", cells, height=high, apart=apart)
        if query == num_queries - 1:
            rows[at].apart = 12.0
    places = []
    for first in range(0, width, size):
        last = min(first + size, width) - 1
        places.append(Cell(from_to(first, last), wide=last + 1 - first))
    picture.row("position", "", places, height=12.0)
    for tile in tiles:
        starts = [positions[0] for positions in tile.positions.tolist()]
        queries = _queries(tile, num_queries)
        spans = [(s, s) for s in range(tile.num_sequences)]
        if is_decode and len({*starts}) == 1:
            spans = [(0, tile.num_sequences - 1)]  # one frame around all
        for first, last in spans:
            ends = starts[first], starts[first] + tile.positions.shape[1]
            span = _span(rows[first, queries[0]], *ends)
            last = _span(rows[last, queries[-1]], *ends)
            picture.frame(span, theme().ink, last=last)
    signs = (strong(names[0]), "computed, and seen"), (KEPT, "hidden by the mask")
    picture.legend(*signs, (free(), "not computed"))
    return render(picture.scene())


def _queries(tile: Tile, num_queries: int) -> range:
    return range(tile.queries.start, min(tile.queries.stop, num_queries))


def _read(
    tiles: Sequence[Tile], num_queries: int
) -> dict[tuple[int, int], dict[int, tuple[int, bool]]]:
    """For each sequence and query: in which tile a position is, and if it is hidden."""
    read: dict[tuple[int, int], dict[int, tuple[int, bool]]] = {}
    for number, tile in enumerate(tiles):
        for sequence, positions in enumerate(tile.positions.tolist()):
            for at, query in enumerate(_queries(tile, num_queries)):
                hidden = [False] * len(positions)
                if tile.hidden is not None:
                    hidden = tile.hidden[sequence, at].tolist()
                states = zip([number] * len(hidden), hidden, strict=True)
                row = read.setdefault((sequence, query), {})
                row.update(zip(positions, states, strict=True))
    return read


def _cells(
    read: Mapping[int, tuple[int, bool]],
    width: int,
    table: BlockTable,
    name: str,
    has_blocks: bool,
) -> list[Cell]:
    """What is seen, block by block or position by position; the rest of a tile."""
    size = table.pool.block_size if has_blocks else 1

    def kind_of(position: int) -> tuple[Tone, int, int]:
        if position not in read:
            return free(), 0, 0
        number, is_hidden = read[position]
        if is_hidden:
            return KEPT, number, 0
        return strong(name), number, position // size

    cells = []
    for (tone, _, at), run in groupby(range(width), kind_of):
        block = table.block_ids[at] if has_blocks else ""
        said = f"block {block}" if has_blocks and tone == strong(name) else ""
        cells.append(Cell(said, tone, len([*run]), short=str(block)))
    return cells


def _span(row: Row, start: int, stop: int) -> Span:
    """The cells from one position to another, at which cells end."""
    edges = [0, *accumulate(cell.wide for cell in row.cells)]
    return row[edges.index(start) : edges.index(stop)]
