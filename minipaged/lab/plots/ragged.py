"""Lab: a ragged batch beside the padded one, and where its K and V are written."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from minipaged.draw.letters import counted, visible
from minipaged.draw.palette import BAD, GOOD, line_colour
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row
from minipaged.draw.tones import free, others, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import RaggedBatch

FEW = 12  # tokens that have an arrow each
MANY_BLOCKS = 16  # of a larger pool, only those of the tables are drawn


def plot_ragged_batch(
    batch: RaggedBatch,
    tables: Mapping[str, BlockTable],
    title: str,
    words: Sequence[str] | None = None,
) -> Figure:
    """The padded rectangle above, the ragged row below, with arrows to its slots.

    tables: in the batch's order. words: a text for each token of the batch; upright if
    the cells are narrow, left out if they are too narrow for that.
    """
    starts, positions, slots = (
        values.tolist() for values in (batch.query_starts, batch.positions, batch.slots)
    )
    counts = dict(zip(tables, (b - a for a, b in pairwise(starts)), strict=True))
    owners = [name for name, count in counts.items() for _ in range(count)]
    longest, total = max(counts.values()), len(owners)
    area = len(counts) * longest

    picture = Picture(title)
    rows, lost = f"{counted(len(counts), 'row')} of {longest}", area - total
    picture.headline("Padded", rows, f"{lost} of {area} are padding", BAD)
    for start, (name, count) in zip(starts, counts.items(), strict=False):
        tones = [strong(name)] * count + [others()] * (longest - count)
        kind = "prefill" if count > 1 or positions[start] == 0 else "decode"
        cells = [Cell("", tone) for tone in tones]
        picture.row(name, f"{kind}, {counted(count, 'token')}", cells, is_bold=True)
    picture.rule()
    said = f"0 of {total} are padding"
    picture.headline("Ragged", f"1 row of {total}", said, GOOD)
    cells = [
        Cell(name, strong(name), above=visible(word))
        for name, word in zip(owners, words or [" "] * total, strict=True)
    ]
    cells = cells if words else [cell._replace(above="") for cell in cells]
    picture.row("", "", cells, is_upright=bool(words))
    for label, numbers in (("position", positions), ("slot", slots)):
        below = [Cell(below=str(number)) for number in numbers]
        last = picture.row(label, "", below, height=0.0, apart=0.0)
    memory, shown = _add_blocks(picture, tables, slots)
    size = next(iter(tables.values())).pool.block_size
    for run in _runs(slots, owners, size):
        (first, low), (end, high) = run[0], run[-1]
        span = last[first : end + 1]
        block = memory.block(shown.index(low // size)).start
        target = memory[block + low % size : block + high % size + 1]
        colour = line_colour(owners[first])
        picture.link(span, target, colour)
        if len(run) > 1:
            picture.under(span, "", colour)
    new, old = strong(owners[0]), soft(owners[0])
    signs = (others(), "padding: computed for nothing"), (new, "written in this step")
    picture.legend(*signs, (old, "there before"))
    return render(picture.scene())


def _runs(
    slots: Sequence[int], owners: Sequence[str], size: int
) -> list[list[tuple[int, int]]]:
    """The tokens (place in the batch, slot) that have one arrow together.

    Of a short batch each has an arrow of its own; of a long one, those of a block.
    """
    runs: list[list[tuple[int, int]]] = []
    for at, (slot, owner) in enumerate(zip(slots, owners, strict=True)):
        last = runs[-1][-1] if runs else (0, -1)
        is_next = slot == last[1] + 1 and owner == owners[last[0]] and slot % size
        if is_next and len(owners) > FEW:
            runs[-1].append((at, slot))
        else:
            runs.append([(at, slot)])
    return runs


def _add_blocks(
    picture: Picture, tables: Mapping[str, BlockTable], written: Collection[int]
) -> tuple[Row, list[int]]:
    """The pool's blocks in a row, and their ids."""
    pool = next(iter(tables.values())).pool
    size, cells, whose = pool.block_size, {}, {}
    for name, table in tables.items():
        for index, block_id in enumerate(table.block_ids):
            whose[block_id] = name
            cells[block_id] = [
                Cell(
                    "",
                    strong(name)
                    if block_id * size + offset in written
                    else soft(name)
                    if index * size + offset < table.num_tokens
                    else free(),
                )
                for offset in range(size)
            ]
    is_large = pool.num_blocks > MANY_BLOCKS
    shown = sorted(cells) if is_large else list(range(pool.num_blocks))
    for block_id in shown:
        tone = others() if pool.refcount(block_id) else free()
        cells.setdefault(block_id, [Cell("", tone, wide=size)])
    blocks = [cells[block_id] for block_id in shown]
    row = picture.blocks("the pool", "", blocks, fills=True, gap=8)
    for at, block_id in enumerate(shown):
        said = f"{block_id}: {whose[block_id]}" if block_id in whose else str(block_id)
        picture.under(row.block(at), said, "none")
    return row, shown
