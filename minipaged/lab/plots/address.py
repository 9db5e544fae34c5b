"""Lab: from a position to its slot, through the block table (paper, figure 6)."""

from minipaged.draw.letters import PART
from minipaged.draw.palette import theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, others, shared, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable

MANY_ENTRIES, MANY_BLOCKS = 8, 12  # more are not drawn
HEIGHT = 28.0  # pixels of all rows, so that those of two panels meet


def plot_address(
    table: BlockTable,
    position: int,
    title: str,
    name: str = "A",
) -> Figure:
    """The path of one position: logical block, table entry, physical block, slot.

    Of a long table, and of a large pool, only the rows beside the path and at the ends
    are drawn.
    """
    pool, size, ids = table.pool, table.pool.block_size, table.block_ids
    index, offset = divmod(position, size)
    entries = rows_of(len(ids), MANY_ENTRIES, {index - 1, index, index + 1})
    shown = rows_of(pool.num_blocks, MANY_BLOCKS, {ids[entry] for entry in entries})
    picture = Picture(title)
    logical, entry_of, physical = (
        Picture(head)
        for head in ("Logical blocks", f"Block table of {name}", "Physical blocks")
    )
    logical.text("what the sequence sees")
    entry_of.text("entry → block")
    physical.text("where K and V lie, for all users")
    style = {"height": HEIGHT, "rim": theme().rim}

    blocks = {}
    for before, block_id in zip([-1, *shown], shown, strict=False):
        if block_id > before + 1:
            physical.text("⋮")
        if block_id in ids:
            cells, whose = _cells(table, ids.index(block_id), position, name), ""
        elif pool.refcount(block_id):
            cells, whose = [Cell("", others())], "others"
        else:
            cells, whose = [Cell("", free())], "free"
        is_path = block_id == ids[index]
        options = {**style, "fills": True, "is_bold": is_path}
        blocks[block_id] = physical.row(str(block_id), whose, cells, **options)
        if is_path:
            slot = f"slot {block_id * size + offset}"
            physical.under(blocks[block_id][offset], slot, "none")
    links = []
    for before, entry in zip([-1, *entries], entries, strict=False):
        if entry > before + 1:
            logical.text("⋮")
            entry_of.text("⋮")
        is_path = entry == index
        cells = _cells(table, entry, position, name)
        span = f"positions {entry * size}–{(entry + 1) * size - 1}"
        options = {**style, "fills": True, "is_bold": is_path}
        block = logical.row(f"logical {entry}", span, cells, **options)
        if is_path:
            logical.under(block[offset], f"position {position}", "none")
        cell = Cell(str(ids[entry]), strong(name) if is_path else soft(name))
        key = entry_of.row(str(entry), "", [cell], height=HEIGHT, is_bold=is_path)
        if is_path:
            entry_of.under(key[0], " ", "none")
        links += [(block[-1], key[0], is_path)]
        links += [(key[0], blocks[ids[entry]][:], is_path)]
    picture.beside(logical, entry_of, physical, gap=60, shares=(4, 2, 4))
    for source, target, is_path in links:
        picture.link(source, target, is_followed=is_path)
    picture.rule()
    style = {"family": "monospace", "size": PART, "color": theme().ink}
    p, found = position, ids[index]
    said = f"position {p}: entry {p} // {size} = {index}, slot {p} % {size} = {offset}"
    picture.text(f"{said} of the block", **style)
    rule = f"slot = table[{p} // {size}] * {size} + {p} % {size}"
    numbers = f"{found} * {size} + {offset} = {found * size + offset}"
    picture.text(f"{rule} = {numbers}", weight="bold", **style)
    return render(picture.scene())


def rows_of(count: int, many: int, needed: set[int]) -> list[int]:
    """The rows to draw: all of them, or of many those that are needed and the ends."""
    if count <= many:
        return list(range(count))
    return sorted({0, count - 1, *(row for row in needed if 0 <= row < count)})


def _cells(table: BlockTable, entry: int, position: int, name: str) -> list[Cell]:
    """A block's slots; in that of the position its remainder."""
    size, tone = table.pool.block_size, soft(name)
    if table.pool.refcount(table.block_ids[entry]) > 1:
        tone = shared(tone, name)
    cells = []
    for at in range(entry * size, (entry + 1) * size):
        if at == position:
            cells.append(Cell(str(at % size), strong(name), rim=theme().ink))
        else:
            cells.append(Cell("", tone if at < table.num_tokens else free()))
    return cells
