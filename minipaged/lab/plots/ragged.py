"""Lab: a ragged batch beside the padded one, and where its K and V are written."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, SMALL, counted, fit, visible, width_of
from minipaged.draw.palette import BAD, GOOD, line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free, others, soft, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import RaggedBatch

LEFT, RIGHT = 92.0, 12.0  # pixels beside the rows
ROW, CELL = 28.0, 24.0  # pixels of a row of the rectangle, and of a cell, downwards
UPRIGHT, HIGHEST = 14.0, 90.0  # cells so wide take words upright, cut at this height
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
    sheet, starts = Sheet(title), batch.query_starts.tolist()
    counts = {
        name: stop - start
        for name, (start, stop) in zip(tables, pairwise(starts), strict=True)
    }
    owners = [name for name, count in counts.items() for _ in range(count)]
    # Both rows in one scale: a cell is a token that is computed.
    cell = min(54.0, (SPAN - LEFT - RIGHT) / len(owners))
    y = _draw_rectangle(sheet, counts, batch.positions.tolist(), starts, cell) + 16
    sheet.line((0, y), (SPAN, y), alpha=0.5)
    y += 24
    said = f"0 of {len(owners)} are padding"
    sheet.headline(y, "Ragged", f"1 row of {len(owners)}", said, GOOD)
    shown = [visible(word) for word in words or ()]
    is_narrow = any(width_of(word) >= cell for word in shown)
    if is_narrow and cell > UPRIGHT:
        y += _draw_upright(sheet, shown, cell, y + 8)
    _draw_row(sheet, batch, owners, () if is_narrow else shown, cell, y)
    bottom = y + 176
    slots, size = batch.slots.tolist(), next(iter(tables.values())).pool.block_size
    places = _draw_blocks(sheet, tables, set(slots), bottom)
    for run in _runs(slots, owners, size):
        starts = [LEFT + (at + 0.5) * cell for at, _ in (run[0], run[-1])]
        ends = [places[slot] for _, slot in (run[0], run[-1])]
        colour = line_colour(owners[run[0][0]])
        if len(run) > 1:
            for (left, right), low in ((starts, y + 79), (ends, bottom - 2)):
                sheet.line((left, low), (right, low), color=colour, linewidth=1.4)
        start, end = (sum(starts) / 2, y + 79), (sum(ends) / 2, bottom - 3)
        sheet.arrow(start, end, colour, is_upright=True)
    signs = [(others(), "padding: computed for nothing")]
    signs.append((strong(owners[0]), "written in this step"))
    signs.append((soft(owners[0]), "there before"))
    sheet.legend(0, bottom + 64, signs)
    return render(sheet.finish(bottom + 72))


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


def _draw_rectangle(
    sheet: Sheet,
    counts: Mapping[str, int],
    positions: Sequence[int],
    starts: Sequence[int],
    cell: float,
) -> float:
    """One row per sequence, all as long as the longest; where the rectangle ends."""
    longest, total = max(counts.values()), sum(counts.values())
    size = len(counts) * longest
    rows, lost = f"{counted(len(counts), 'row')} of {longest}", size - total
    sheet.headline(8, "Padded", rows, f"{lost} of {size} are padding", BAD)
    for row, (name, count) in enumerate(counts.items()):
        y = 24 + row * ROW
        sheet.write(LEFT - 12, y + CELL / 2, name, PART, ha="right", weight="bold")
        tones = [strong(name)] * count + [others()] * (longest - count)
        sheet.cells(LEFT, y, [cell] * longest, CELL, tones)
        kind = "prefill" if count > 1 or positions[starts[row]] == 0 else "decode"
        said, x = f"{kind}, {counted(count, 'token')}", LEFT + longest * cell + 14
        if x + width_of(said) < SPAN:
            sheet.write(x, y + CELL / 2, said, color=sheet.look.quiet)
    return 24 + len(counts) * ROW


def _draw_upright(sheet: Sheet, words: Sequence[str], cell: float, y: float) -> float:
    """The words over their cells, from below upwards; how high they are."""
    fitted = [fit(word, HIGHEST) for word in words]
    height = max(width_of(word, size) for word, size in fitted) + 8
    style = {"rotation": 90, "va": "bottom", "ha": "center"}
    for at, (word, size) in enumerate(fitted):
        sheet.write(LEFT + (at + 0.5) * cell, y + height, word, size, **style)
    return height


def _draw_row(
    sheet: Sheet,
    batch: RaggedBatch,
    owners: Sequence[str],
    words: Sequence[str],
    cell: float,
    y: float,
) -> None:
    """All tokens side by side, below them their positions and slots."""
    total = len(owners)
    texts = words or (owners if cell > 10 else ())
    sheet.cells(
        LEFT, y + 12, [cell] * total, 28, [strong(name) for name in owners], texts
    )
    for below, name, values in (
        (52, "position", batch.positions),
        (69, "slot", batch.slots),
    ):
        sheet.write(LEFT - 12, y + below, name, ha="right", color=sheet.look.quiet)
        numbers = list(map(str, values.tolist()))
        size = min(fit(max(numbers, key=len), cell - 2)[1], SMALL)
        if width_of(max(numbers, key=len), size) < cell:
            for at, number in enumerate(numbers):
                sheet.write(
                    LEFT + (at + 0.5) * cell, y + below, number, size, ha="center"
                )


def _draw_blocks(
    sheet: Sheet, tables: Mapping[str, BlockTable], written: Collection[int], y: float
) -> dict[int, float]:
    """The pool's blocks in a row; returns the middle of each slot that is written."""
    pool = next(iter(tables.values())).pool
    size, holders = pool.block_size, {}
    for name, table in tables.items():
        for index, block_id in enumerate(table.block_ids):
            used = min(size, table.num_tokens - index * size)
            holders.setdefault(block_id, (name, used))
    is_large = pool.num_blocks > MANY_BLOCKS
    shown = sorted(holders) if is_large else range(pool.num_blocks)
    gap = 12.0 if len(shown) <= 10 else 10.0
    width = min(120.0, (SPAN + gap) / len(shown) - gap)
    places = {}
    for at, block_id in enumerate(shown):
        x, (name, used) = at * (width + gap), holders.get(block_id, ("", 0))
        tones = [others() if pool.refcount(block_id) else free()]
        if name:
            slots = range(block_id * size, (block_id + 1) * size)
            tones = [
                _tone(name, offset < used, one in written)
                for offset, one in enumerate(slots)
            ]
            middles = [x + (offset + 0.5) * width / size for offset in range(size)]
            places |= zip(slots, middles, strict=True)
        sheet.cells(x, y, [width / len(tones)] * len(tones), 26, tones)
        sheet.box(x, y, width, 26, rim=sheet.look.rim)
        label = f"block {block_id}" if width > 70 else str(block_id)
        label, size_of_label = fit(label, width - 14 * bool(name))
        sheet.write(x, y + 38, label, size_of_label, color=sheet.look.quiet)
        sheet.write(x + width, y + 38, name, ha="right", weight="bold")
    return places


def _tone(name: str, is_used: bool, is_written: bool) -> Tone:
    if is_written:
        return strong(name)
    return soft(name) if is_used else free()
