"""The front page's still picture: a fork, a write, and the copy before it, for real."""

from minipaged.draw.html import to_svg
from minipaged.draw.palette import PAGE, themed
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row
from minipaged.draw.tones import free, shared, soft, strong
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

SPAN = 400.0  # pixels, so that it can be read on a phone


def svg() -> str:
    """A holds six tokens in blocks of four; its fork, B, writes one token more."""
    pool = BlockPool(num_blocks=5, block_size=4)
    a = BlockTable(pool)
    a.append(6)
    b = a.fork()
    ((source, copy),) = b.append(1)
    with themed(PAGE):
        picture = Picture(f"B writes: block {source} is shared, so it is copied first")
        tables = {"A": a, "B": b}
        upper = _row(picture, "A", a, copy)
        blocks = picture.row("pool", "who holds each block", _cells(tables, copy))
        lower = _row(picture, "B", b, copy)
        for row, table in ((upper, a), (lower, b)):
            for at, id in enumerate(table.block_ids):
                picture.link(row[at], blocks[id], is_followed=id == copy)
        picture.legend(
            (strong("B"), "new: the copy"),
            (shared(soft("A"), "A"), "shared"),
            (free(), "free"),
        )
        return to_svg(picture.scene(span=SPAN), name="still-")


def _row(picture: Picture, name: str, table: BlockTable, copy: int) -> Row:
    """A table's block ids, in order."""
    tones = [strong(name) if id == copy else soft(name) for id in table.block_ids]
    cells = [
        Cell(str(id), tone) for id, tone in zip(table.block_ids, tones, strict=True)
    ]
    return picture.row(name, f"its table, {table.num_tokens} tokens", cells)


def _cells(tables: dict[str, BlockTable], copy: int) -> list[Cell]:
    """The pool's blocks, each with its holders' names."""
    pool = tables["A"].pool
    cells = []
    for id in range(pool.num_blocks):
        names = [name for name, table in tables.items() if id in table.block_ids]
        tone = soft(names[0]) if names else free()
        if len(names) > 1:
            tone = shared(tone, names[0])
        if id == copy:
            tone = strong(names[0])
        cells.append(Cell(" ".join(names), tone, below=str(id)))
    return cells
