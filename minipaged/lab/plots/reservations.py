"""Lab: memory reserved in one piece for each sequence, beside the same in blocks."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted, width_of
from minipaged.draw.palette import BAD, GOOD, line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, others, shared, strong
from minipaged.lab.plots.render import render
from minipaged.lab.pool.snapshot import read_contents
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

HEIGHT = 24.0  # pixels of a slot
ROW, BLOCK_ROW = 34.0, 52.0


def plot_reservations(used: Mapping[str, int], reserved: int, title: str) -> Figure:
    """Each sequence's piece of `reserved` slots, those that are empty hatched."""
    sheet = Sheet(title)
    return render(sheet.finish(_draw_pieces(sheet, used, reserved)))


def plot_reservations_and_pool(
    used: Mapping[str, int],
    reserved: int,
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    title: str,
) -> Figure:
    """The same tokens twice: in reservations, and in the blocks of a live pool."""
    sheet = Sheet(title)
    y = _draw_pieces(sheet, used, reserved) + 20
    sheet.line((0, y), (SPAN, y), alpha=0.5)
    return render(sheet.finish(_draw_pool(sheet, pool, tables, y + 24)))


def _draw_pieces(sheet: Sheet, used: Mapping[str, int], reserved: int) -> float:
    """One reservation below the other; where the last one ends."""
    empty, slots = reserved * len(used) - sum(used.values()), reserved * len(used)
    said = f"{empty:,} of {slots:,} slots empty"
    sheet.headline(8, f"One piece each, {reserved:,} slots reserved", "", said, BAD)
    remarks = {name: counted(tokens, "token") for name, tokens in used.items()}
    indent = 12 + max(width_of(name, PART, bold=True) for name in used)
    left = indent + 16 + max(map(width_of, remarks.values()))
    slot = (SPAN - left) / reserved
    for row, (name, tokens) in enumerate(used.items()):
        y = 26 + row * ROW
        sheet.write(0, y + HEIGHT / 2, name, PART, weight="bold")
        sheet.write(indent, y + HEIGHT / 2, remarks[name], color=sheet.look.quiet)
        widths = [slot] * tokens if slot > 4 else [slot * tokens]
        sheet.cells(left, y, widths, HEIGHT, [strong(name)] * len(widths))
        x, rest = left + tokens * slot, reserved - tokens
        sheet.empty(x, y, rest * slot, HEIGHT, f"{rest} empty")
        sheet.box(left, y, reserved * slot, HEIGHT, rim=sheet.look.rim)
    return 26 + len(used) * ROW - (ROW - HEIGHT)


def _draw_pool(
    sheet: Sheet, pool: BlockPool, tables: Mapping[str, BlockTable], y: float
) -> float:
    """All blocks, each with its id and its place in a sequence; where they end."""
    places: dict[int, list[str]] = {}
    for name, table in tables.items():
        for index, block_id in enumerate(table.block_ids):
            places.setdefault(block_id, []).append(f"{name}{index}")
    contents = read_contents(pool, tables, {})
    size = pool.block_size
    longer = [name for name, table in tables.items() if len(table.block_ids) > 1]
    second = "".join(f"{name}1: {name}'s second block" for name in longer[:1])
    num_free = sum(pool.refcount(block_id) == 0 for block_id in range(pool.num_blocks))
    empty = len(contents.filled) * size - sum(contents.filled.values())
    slots = len(contents.filled) * size
    gain = f"{empty:,} of {slots:,} slots empty, {counted(num_free, 'block')} free"
    sheet.headline(y, f"The same tokens in blocks of {size}", second, gain, GOOD)
    columns = _columns(pool.num_blocks)
    width = (SPAN - 14 * (columns - 1)) / columns
    for block_id in range(pool.num_blocks):
        x = block_id % columns * (width + 14)
        low = y + 38 + block_id // columns * BLOCK_ROW
        sheet.write(x, low - 9, str(block_id), color=sheet.look.quiet)
        owners = contents.owners.get(block_id, [])
        sheet.write(x + width, low - 9, " ".join(places.get(block_id, ())), ha="right")
        used = contents.filled.get(block_id, 0)
        tone = others() if pool.refcount(block_id) else free()
        rim = sheet.look.rim
        if owners:
            tone, rim = strong(owners[0]), line_colour(owners[0])
            if pool.refcount(block_id) > 1:
                tone = shared(tone, owners[0])
            slot = width / size
            tones = [tone] * used + [free()] * (size - used)
            sheet.cells(x, low, [slot] * size, HEIGHT, tones)
        else:
            sheet.box(x, low, width, HEIGHT, tone)
        sheet.box(x, low, width, HEIGHT, rim=rim)
    return y + 38 + -(-pool.num_blocks // columns) * BLOCK_ROW - (BLOCK_ROW - HEIGHT)


def _columns(num_blocks: int) -> int:
    """Nine blocks in a row at most, and if it can be, all rows full."""
    full = [columns for columns in (9, 8, 7, 6) if num_blocks % columns == 0]
    return min(num_blocks, full[0] if full else 9)
