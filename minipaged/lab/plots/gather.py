"""Lab: what attention reads: a table's blocks, end to end, up to the last token."""

from matplotlib.figure import Figure

from minipaged.draw.letters import width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT, Tone, free, others, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable

LEFT, ROOM = 152.0, SPAN - 152.0  # pixels: of what is said beside a row; of the row
HEIGHT, FIRST, STEP = 26.0, 18.0, 88.0  # of a row; where it lies; to the next row
WIDEST = 44.0  # pixels of a slot, at most


def plot_gather(table: BlockTable, title: str, name: str = "A") -> Figure:
    """Three rows: the blocks in the pool, end to end in the table's order, and cut.

    What is cut off are the slots of the last block that hold no token.
    """
    sheet, ids = Sheet(title), table.block_ids
    num_slots = len(ids) * table.pool.block_size
    slot = min(WIDEST, ROOM / num_slots)
    some = ", ".join(map(str, ids[:5])) + ", ..." * (len(ids) > 5)
    for row, (part, remark) in enumerate(
        (
            ("1. In the pool", f"blocks {some}"),
            ("2. End to end", f"in this order: {num_slots} slots"),
            ("3. Cut", f"{table.num_tokens} slots hold tokens"),
        )
    ):
        sheet.label(FIRST + row * STEP, HEIGHT, part, remark)
    _draw_pool(sheet, table, strong(name))
    gap = _gap(table.pool.num_blocks)
    block = (ROOM + gap) / table.pool.num_blocks
    for entry, block_id in enumerate(ids):
        start = LEFT + block_id * block + (block - gap) / 2, FIRST + HEIGHT + 3
        first = entry * table.pool.block_size
        held = min(table.pool.block_size, table.num_tokens - first)
        end = LEFT + (first + held / 2) * slot, FIRST + STEP - 3  # to its tokens
        sheet.arrow(start, end, is_upright=True)
    for row, count in ((1, num_slots), (2, table.num_tokens)):
        _draw_row(sheet, table, strong(name), FIRST + row * STEP, slot, count)
    rest, cut = num_slots - table.num_tokens, LEFT + table.num_tokens * slot
    if rest:
        style = {"color": sheet.look.ink, "linestyle": "--", "linewidth": 1.6}
        for row in (1, 2):
            y = FIRST + row * STEP
            sheet.line((cut, y - 6), (cut, y + HEIGHT + 4), **style)
        sheet.line(
            (cut, FIRST + STEP + HEIGHT + 20), (cut, FIRST + 2 * STEP - 6), **style
        )
    bottom = FIRST + 2 * STEP + HEIGHT + 38
    _legend(sheet, bottom, name, rest)
    return render(sheet.finish(bottom + 8))


def _draw_row(
    sheet: Sheet, table: BlockTable, mine: Tone, y: float, slot: float, count: int
) -> None:
    """The first `count` slots of the table, with positions in them; below, the ids."""
    size, num_tokens = table.pool.block_size, table.num_tokens
    positions = [str(position) for position in range(num_tokens)]
    words = positions if width_of(positions[-1]) < slot - 4 else ()
    sheet.cells(LEFT, y, [slot] * num_tokens, HEIGHT, [mine] * num_tokens, words)
    if rest := count - num_tokens:
        sheet.empty(LEFT + num_tokens * slot, y, rest * slot, HEIGHT)
    for entry, block_id in enumerate(table.block_ids):
        x = LEFT + entry * size * slot
        if entry:  # here one block ends and the next one begins
            style = {"color": sheet.look.ink, "linewidth": 1.8}
            sheet.line((x, y - 4), (x, y + HEIGHT + 4), **style)
        said = f"block {block_id}"
        said = said if width_of(said) < size * slot - 4 else str(block_id)
        if width_of(said) < size * slot - 4:
            width = min(size, count - entry * size) * slot  # of it, in this row
            middle = x + max(width, width_of(said) + 6) / 2
            style = {"ha": "center", "color": sheet.look.quiet}
            sheet.write(middle, y + HEIGHT + 12, said, **style)


def _gap(num_blocks: int) -> float:
    """Pixels between the blocks of a pool."""
    return 6.0 if num_blocks <= 32 else 1.0


def _draw_pool(sheet: Sheet, table: BlockTable, mine: Tone) -> None:
    """All blocks in one row; over them, as far as there is room, their ids."""
    pool, gap = table.pool, _gap(table.pool.num_blocks)
    width = (ROOM + gap) / pool.num_blocks - gap
    has_ids = width_of(str(pool.num_blocks - 1)) < width
    for block_id in range(pool.num_blocks):
        x, tone = LEFT + block_id * (width + gap), free()
        if pool.refcount(block_id):
            tone = others()
        if block_id in table.block_ids:
            entry = table.block_ids.index(block_id)
            used = min(1, table.num_tokens / pool.block_size - entry) * width
            sheet.box(x, FIRST, used, HEIGHT, mine)
            sheet.empty(x + used, FIRST, width - used, HEIGHT)
        else:
            sheet.box(x, FIRST, width, HEIGHT, tone)
        sheet.box(x, FIRST, width, HEIGHT, rim=sheet.look.rim)
        if has_ids:
            style = {"color": sheet.look.quiet}
            if block_id in table.block_ids:
                style = {"weight": "bold"}
            sheet.write(x + width / 2, FIRST - 9, str(block_id), ha="center", **style)


def _legend(sheet: Sheet, y: float, name: str, rest: int) -> None:
    """What the tones mean; the hatched slots are drawn as in the rows."""
    signs = [(strong(name), f"{name}'s token"), (others(), "others'"), (free(), "free")]
    signs += [(KEPT, f"not written by {name}")] * (rest > 0)
    sheet.legend(0, y, signs)
