"""Lab: block tables side by side: who shares which block (paper, figure 9)."""

from collections.abc import Mapping
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minipaged.draw.letters import width_of
from minipaged.draw.palette import (
    HATCHING,
    SHARED_HATCH,
    Theme,
    ink_on,
    sequence_colour,
    theme,
)
from minipaged.draw.sheet import SPAN
from minipaged.lab.plots.charts import canvas
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable


def plot_shared_tables(
    tables: Mapping[str, BlockTable], title: str, pool: BlockPool | None = None
) -> Figure:
    """Each table a row, each entry a box with its block; neighbours share one box.

    A box has its holders' colours, each in its row, and is hatched if they are several.
    pool: if given, its free blocks stand on the right.
    """
    columns = max(len(table.block_ids) for table in tables.values())
    figure, axes = canvas(title, height=1.2 + 0.4 * len(tables))
    axes.set_axis_off()
    look, names = theme(), list(tables)
    # In units of a box: as wide as the longest name needs, but no less than a box.
    span = max(6, columns)
    left = 0.36 + max(map(width_of, names)) * (span + 2) / SPAN
    for row, name in enumerate(names):
        patch = Rectangle((0, row + 0.2), 0.14, 0.6, facecolor=sequence_colour(name))
        axes.add_patch(patch)
        axes.text(0.22, row + 0.5, name, color=look.ink, fontsize=9, va="center")
    for column in range(columns):
        entries = [tables[name].block_ids[column : column + 1] for name in names]
        rows = groupby(range(len(names)), key=lambda row: entries[row])
        for block_ids, group in rows:
            if block_ids:
                held = {row: sequence_colour(names[row]) for row in group}
                is_shared = tables[names[min(held)]].pool.refcount(block_ids[0]) > 1
                _draw_block(axes, block_ids[0], left + column, held, is_shared, span)
        label = f"entry {column}" if span <= 10 else str(column)
        style = {"ha": "center", "color": look.quiet, "fontsize": 9}
        axes.text(left + column + 0.475, -0.15, label, **style)
    if pool is not None:
        span = max(span, columns + 2)
        _draw_free(axes, pool, left + columns + 0.5, len(names), look)
    legend = "a box is a block; if several hold it, it is hatched, in all their colours"
    axes.text(0, len(names) + 0.45, legend, fontsize=9, color=look.quiet)
    axes.set(xlim=(-0.02, left + span), ylim=(len(names) + 0.5, -0.6))
    return figure


def _draw_free(
    axes: Axes, pool: BlockPool, x: float, num_rows: int, look: Theme
) -> None:
    """The pool's free blocks, by id: one below the other, as many as there are rows."""
    free = [block for block in range(pool.num_blocks) if not pool.refcount(block)]
    wide = min(0.6, 1.4 / max(1, -(-len(free) // num_rows)))
    style = {"ha": "center", "va": "center", "color": look.quiet, "fontsize": 9}
    for at, block in enumerate(free):
        column, row = divmod(at, num_rows)
        corner = x + column * wide, row + 0.06
        line = {"facecolor": "none", "edgecolor": look.rim}
        axes.add_patch(Rectangle(corner, wide - 0.06, 0.88, **line))
        axes.text(corner[0] + wide / 2 - 0.03, row + 0.5, str(block), **style)
    style |= {"ha": "left", "va": "baseline"}
    axes.text(x, -0.15, f"{len(free)} free blocks", **style)


def _draw_block(
    axes: Axes,
    block_id: int,
    x: float,
    held: Mapping[int, str],
    is_shared: bool,
    span: int,
) -> None:
    """One block, over the rows of all neighbours that hold it, in their colours."""
    first, last = min(held), max(held)
    for row, colour in held.items():
        top, bottom = row + 0.06 * (row == first), row + 1 - 0.06 * (row == last)
        face = {"facecolor": colour, "linewidth": 0, "antialiased": False}
        axes.add_patch(Rectangle((x, top), 0.95, bottom - top, **face))
    lines = {"edgecolor": HATCHING, "linewidth": 0, "fill": False}
    lines["hatch"] = SHARED_HATCH if is_shared else None
    height = last - first + 1 - 0.12
    axes.add_patch(Rectangle((x, first + 0.06), 0.95, height, **lines))
    # No ink suits the colours of several holders: there, the word has a white plate.
    plate = "#FFFFFF" if len(held) > 1 else held[first]
    box = {"boxstyle": "round,pad=0.3", "facecolor": plate, "linewidth": 0}
    text = {"ha": "center", "va": "center", "fontsize": 9 if span <= 12 else 7}
    words = f"block {block_id}" if span <= 9 else str(block_id)
    middle = x + 0.475, (first + last + 1) / 2
    axes.text(*middle, words, color=ink_on(plate), bbox=box, **text)
