"""Lab: a tile of pointers with two axes, and where they lead in the pool."""

from collections.abc import Sequence

from minipaged.draw.letters import PART
from minipaged.draw.palette import line_colour, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import behind_words, free, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable


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
    positions, stride, size = list(positions), num_kv_heads * dim, table.pool.block_size
    slots, start = list(map(table.slot, positions)), kv_head * dim
    left = Picture()
    left.headline("A tile of pointers", f"[{len(slots)}, {dim}]")
    column = [Cell(str(n), soft(name)) for n in range(dim)]
    first = [Cell(str(start), soft(name), 1.4), Cell("+", wide=0.5)]
    row = left.row("", "", first + column)
    left.over(row[0], "head_start", "none")
    left.over(row[2:], "column[None, :]", "none")
    left.text("+ slot[:, None] * STRIDE", family="monospace")
    pointers = []
    for position, slot in zip(positions, slots, strict=True):
        begin = [Cell(str(slot * stride), soft(name), 1.4), Cell("→", wide=0.5)]
        places = range(slot * stride + start, slot * stride + start + dim)
        cells = begin + [Cell(str(place), strong(name)) for place in places]
        said = f"position {position}", f"slot {slot} * {stride} ="
        pointers.append(left.row(*said, cells))
    used = {*map(table.slot, range(table.num_tokens))}
    blocks = sorted({slot // size for slot in slots})
    shown = [n for block in blocks for n in range(block * size, (block + 1) * size)]
    right, rows, quiet = Picture(), {}, behind_words(soft(name))
    right.headline("K of this layer, in the pool")
    right.text(f"a slot has {num_kv_heads} KV heads × {dim} numbers")
    heads = [Cell(wide=dim, below=f"KV head {n}") for n in range(num_kv_heads)]
    right.row("", "", heads, height=0.0, apart=0.0)
    for slot in shown:
        cells = []
        for place in range(stride):
            is_read = slot in slots and start <= place < start + dim
            tone = strong(name) if is_read else quiet if slot in used else free()
            said = str(slot * stride + place) if is_read else ""
            cells.append(Cell(said, tone))
        if slot % size == 0:
            right.space(0.0)
            right.row(f"block {slot // size}", height=14.0, apart=4.0)
        rows[slot] = right.row(f"slot {slot}", "", cells, height=24.0, apart=7.0)
    picture = Picture(title)
    picture.beside(left, right)
    for row, slot in zip(pointers, slots, strict=True):
        picture.link(row[2:], rows[slot][:], line_colour(name))
    picture.rule()
    slot, at, (block, offset) = slots[-1], positions[-1], divmod(slots[-1], size)
    rule = f"{start} + {slot} * {stride} + {dim - 1}"
    picture.text(
        f"slot = table[{at} // {size}] * {size} + {at} % {size}"
        f" = {block} * {size} + {offset} = {slot}",
        f"head_start + slot * STRIDE + column = {rule}"
        f" = {slot * stride + start + dim - 1}",
        size=PART, weight="bold", color=theme().ink, family="monospace",
    )  # fmt: skip
    signs = [(strong(name), f"{name}, KV head {kv_head}: read by this tile")]
    others = [f"KV head {head}" for head in range(num_kv_heads) if head != kv_head]
    unread = ["other KV heads"] if others[1:] else others
    if {*shown} & used - {*slots}:
        unread.append("other positions")
    if unread:
        signs += [(quiet, f"{name}, {' and '.join(unread)}: not read")]
    if {*shown} - used:
        signs += [(free(), f"not {name}'s")]
    picture.legend(*signs)
    return render(picture.scene())
