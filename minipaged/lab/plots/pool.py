"""Lab: pictures of a live block pool and its tables (paper, figures 6 and 7)."""

from collections.abc import Collection, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minipaged.lab.plots.charts import canvas
from minipaged.lab.plots.palette import (
    CACHED_RIM,
    SHARED_HATCH,
    ink_on,
    sequence_colour,
    theme,
)
from minipaged.lab.pool.snapshot import Contents, read_contents
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

# In units of a slot's height. A block is four slots wide, however many it has.
BLOCK_WIDTH, COLUMN, ROW = 4.0, 4.5, 1.95
LINE, TABLE_WIDTH = 0.8, 5.9  # of the page tables beside the blocks
LEGEND = "coloured: holds a token; grey: held by others; pale: empty"


def plot_pool(
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    title: str,
    tokens: Mapping[str, Sequence[str]] | None = None,
    columns: int = 3,
    cached: Collection[int] = (),
) -> Figure:
    """Draw every physical block, and each sequence's table, from the live objects.

    A block has the colour of its first holder among `tables`, and is hatched if several
    hold it; a block held by somebody else is grey, a free one pale. With `tokens` (each
    sequence's words), the slots show what they hold. `cached`: blocks whose content can
    still be found; while free, they are pale with a coloured, dashed rim.
    """
    contents = read_contents(pool, tables, tokens or {}, cached)
    is_wide = columns > 4  # then there is no room for words, nor for every table row
    num_lines = sum(1.5 + (0 if is_wide else len(t.block_ids)) for t in tables.values())
    height = max(-(-pool.num_blocks // columns) * ROW, num_lines * LINE)
    figure, axes = canvas(title, height=0.6 + 0.36 * height * min(1, 4 / columns))
    axes.set_axis_off()
    for block_id in range(pool.num_blocks):
        x, y = block_id % columns * COLUMN, block_id // columns * ROW
        _draw_block(axes, pool, block_id, x, y, contents, is_wide)
    x, y = columns * COLUMN + 0.3, 0.0
    for name, table in tables.items():
        y = _draw_table(axes, name, table, pool.block_size, x, y, is_wide)
    bottom = height + 0.4 if is_wide else height - 0.35
    is_shared = any(len(owners) > 1 for owners in contents.owners.values())
    legend = LEGEND + "; hatched: several holders" * is_shared
    legend += "; dashed: can still be found" * bool(contents.cached)
    axes.text(0, bottom, legend, fontsize=9, color=theme().quiet)
    table_width = TABLE_WIDTH * max(1, columns / 3)
    axes.set(xlim=(-0.1, x + table_width), ylim=(bottom + 0.15, -0.8))
    return figure


def print_pool(pool: BlockPool, tables: Mapping[str, BlockTable]) -> None:
    """The same in text: each block with its holders and filled slots, then the tables.

    A dot is a free block, a question mark one that none of `tables` holds.
    """
    contents = read_contents(pool, tables, {})
    cells = []
    for block_id in range(pool.num_blocks):
        if names := contents.owners.get(block_id):
            filled = contents.filled[block_id]
            cells.append(f"{block_id}:{''.join(names)} {filled}/{pool.block_size}")
        else:
            cells.append(f"{block_id}:{'?' if pool.refcount(block_id) else '.'}")
    print("   ".join(cells))
    for name, table in tables.items():
        print(f"{name}: {table.num_tokens} tokens in blocks {table.block_ids}")


def _draw_table(
    axes: Axes,
    name: str,
    table: BlockTable,
    size: int,
    x: float,
    y: float,
    is_wide: bool,
) -> float:
    """Write one page table from `y` on, and return where the next one begins."""
    text = {"color": theme().ink, "va": "center"}
    box = {"facecolor": sequence_colour(name)}
    axes.add_patch(Rectangle((x, y - 0.55), 0.5, 0.5, **box))
    heading = f"{name}: {table.num_tokens} tokens"
    if is_wide:
        heading += f", {len(table.block_ids)} blocks"
    axes.text(x + 0.8, y - 0.3, heading, fontsize=10, **text)
    for index, block_id in enumerate([] if is_wide else table.block_ids):
        y += LINE
        filled = min(size, table.num_tokens - index * size)
        row = f"entry {index} → block {block_id}, {filled} filled"
        axes.text(x + 0.8, y - 0.3, row, fontsize=9, **text)
    return y + 1.5 * LINE


def _draw_block(
    axes: Axes,
    pool: BlockPool,
    block_id: int,
    x: float,
    y: float,
    contents: Contents,
    is_wide: bool,
) -> None:
    look, size = theme(), pool.block_size
    holders, owners = pool.refcount(block_id), contents.owners.get(block_id, [])
    ink = look.ink if holders else look.quiet
    label = _label(block_id, holders, owners, is_wide)
    label += " · cached" if block_id in contents.cached and not is_wide else ""
    axes.text(x, y - 0.14, label, fontsize=9, color=ink)
    used = contents.filled[block_id] if owners else size * (holders > 0)
    colour = sequence_colour(owners[0]) if owners else look.others
    width = BLOCK_WIDTH / size
    style = {"edgecolor": look.ground, "linewidth": 1.0 if size <= 8 else 0}
    for offset in range(size):
        face = colour if offset < used else look.free
        hatch = SHARED_HATCH if offset < used and holders > 1 else None
        left = x + offset * width
        axes.add_patch(
            Rectangle((left, y), width, 1, facecolor=face, hatch=hatch, **style)
        )
        if word := contents.words.get(block_id * size + offset):
            fontsize = 8.5 if len(word) <= 5 else 7
            centred = {"ha": "center", "va": "center", "fontsize": fontsize}
            ground = {"boxstyle": "square,pad=0.1", "facecolor": face, "linewidth": 0}
            axes.text(
                left + width / 2,
                y + 0.5,
                word,
                color=ink_on(face),
                bbox=ground,
                **centred,
            )
    rim = {"edgecolor": look.quiet, "linewidth": 1}
    if block_id in contents.cached:
        rim = {"edgecolor": CACHED_RIM, "linewidth": 2, "linestyle": "--"}
    axes.add_patch(Rectangle((x, y), BLOCK_WIDTH, 1, fill=False, **rim))


def _label(block_id: int, holders: int, owners: Sequence[str], is_wide: bool) -> str:
    """What stands over a block: its id, whose it is, and how many hold it."""
    if is_wide:
        names = "+".join(owners) if len(owners) <= 4 else f"{owners[0]}+… ×{holders}"
        return f"{block_id} {names}".strip()
    label = f"block {block_id}"
    if owners:
        label += f" · {' '.join(owners)}"
    elif holders:
        label += " · others"
    # Only if not all of them stand there already.
    return label + (f" · {holders} holders" if holders > max(1, len(owners)) else "")
