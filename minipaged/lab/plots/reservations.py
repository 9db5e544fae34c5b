"""Lab: memory reserved in one piece for each sequence, beside the same in blocks."""

from collections.abc import Mapping

from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import KEPT, strong
from minipaged.lab.plots.pool import add_blocks
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.pool.snapshot import read_contents
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

MANY = 120  # slots that hold tokens; more are not told apart


def plot_reservations(used: Mapping[str, int], reserved: int, title: str) -> Figure:
    """Each sequence's piece of `reserved` slots, those that are empty hatched."""
    picture = Picture(title)
    _add_pieces(picture, used, reserved)
    return render(picture.scene())


def plot_reservations_and_pool(
    used: Mapping[str, int],
    reserved: int,
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    title: str,
) -> Figure:
    """The same tokens twice: in reservations, and in the blocks of a live pool."""
    picture, blocks, size = Picture(title), Picture(), pool.block_size
    _add_pieces(picture, used, reserved)
    picture.rule()
    contents = read_contents(pool, tables)
    longer = [name for name, table in tables.items() if len(table.block_ids) > 1]
    second = "".join(f"{name}1: {name}'s second block" for name in longer[:1])
    num_free = sum(pool.refcount(block_id) == 0 for block_id in range(pool.num_blocks))
    slots = len(contents.filled) * size
    empty = slots - sum(contents.filled.values())
    gain = f"{empty:,} of {slots:,} slots empty, {counted(num_free, 'block')} free"
    blocks.headline(f"The same tokens in blocks of {size}", second, gain, GOOD)
    places: dict[int, str] = {}
    for name, table in tables.items():
        for index, block_id in enumerate(table.block_ids):
            places[block_id] = f"{places.get(block_id, '')} {name}{index}"
    words = [
        f"{one}:{places[one]}" if one in places else str(one)
        for one in range(pool.num_blocks)
    ]
    full = [columns for columns in (9, 8, 7, 6) if pool.num_blocks % columns == 0]
    add_blocks(blocks, pool, tables, words, full[0] if full else 9)
    picture.beside(blocks)
    return render(picture.scene())


def _add_pieces(picture: Picture, used: Mapping[str, int], reserved: int) -> None:
    """One reservation below the other."""
    slots = reserved * len(used)
    said = f"{slots - sum(used.values()):,} of {slots:,} slots empty"
    picture.headline(f"One piece each, {reserved:,} slots reserved", "", said, BAD)
    for name, tokens in used.items():
        cells, rest = [Cell("", strong(name), wide=tokens)], reserved - tokens
        if reserved <= MANY:
            cells = [Cell("", strong(name))] * tokens
        cells += [Cell(f"{rest} empty", KEPT, wide=rest)] * (rest > 0)
        style = {"is_bold": True, "rim": theme().rim, "fills": True}
        picture.row(name, counted(tokens, "token"), cells, **style)
