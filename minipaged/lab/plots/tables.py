"""Lab: block tables side by side: who shares which block (paper, figure 9)."""

from collections.abc import Mapping
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minipaged.lab.plots.charts import canvas
from minipaged.lab.plots.palette import (
    HATCHING,
    SHARED_HATCH,
    ink_on,
    sequence_colour,
    theme,
)
from minipaged.lab.plots.signs import SPAN, width_of
from minipaged.memory.block_table import BlockTable


def plot_shared_tables(tables: Mapping[str, BlockTable], title: str) -> Figure:
    """Each table a row, each entry a box with its block; neighbours share one box.

    A box has its holders' colours, each in its row, and is hatched if they are several.
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
                pool = tables[names[min(held)]].pool
                is_shared = pool.refcount(block_ids[0]) > 1
                _draw_block(axes, block_ids[0], left + column, held, is_shared, span)
        label = f"entry {column}" if span <= 10 else str(column)
        style = {"ha": "center", "color": look.quiet, "fontsize": 9}
        axes.text(left + column + 0.475, -0.15, label, **style)
    legend = "a box is a block; if several hold it, it is hatched, in all their colours"
    axes.text(0, len(names) + 0.45, legend, fontsize=9, color=look.quiet)
    axes.set(xlim=(-0.02, left + span), ylim=(len(names) + 0.5, -0.6))
    return figure


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
