"""Lab: block tables side by side: who shares which block (paper, figure 9)."""

from collections.abc import Mapping
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minipaged.lab.plots.charts import canvas
from minipaged.lab.plots.palette import SHARED_HATCH, ink_on, sequence_colour, theme
from minipaged.memory.block_table import BlockTable


def plot_shared_tables(tables: Mapping[str, BlockTable], title: str) -> Figure:
    """Each table a row, each entry a box with its block; neighbours share one box.

    A box has the colour of the block's first holder, and is hatched if there are more.
    """
    columns = max(len(table.block_ids) for table in tables.values())
    figure, axes = canvas(title, height=0.9 + 0.42 * len(tables))
    axes.set_axis_off()
    names = list(tables)
    for row, name in enumerate(names):
        patch = Rectangle((0, row + 0.2), 0.12, 0.6, facecolor=sequence_colour(name))
        axes.add_patch(patch)
        label = {"color": theme().ink, "fontsize": 10, "va": "center"}
        axes.text(0.2, row + 0.5, name, **label)
    for column in range(columns):
        entries = [tables[name].block_ids[column : column + 1] for name in names]
        rows = groupby(range(len(names)), key=lambda row: entries[row])
        for block_ids, group in rows:
            span = list(group)
            if block_ids:
                first = next(n for n in names if block_ids[0] in tables[n].block_ids)
                is_shared = tables[first].pool.refcount(block_ids[0]) > 1
                _draw_block(axes, block_ids[0], column, span, first, is_shared)
    legend = "a box is a block; hatched: several holders, in the first one's colour"
    axes.text(0, len(names) + 0.4, legend, fontsize=9, color=theme().quiet)
    axes.set(xlim=(-0.02, columns + 0.5), ylim=(len(names) + 0.5, -0.6))
    return figure


def _draw_block(
    axes: Axes,
    block_id: int,
    column: int,
    rows: list[int],
    holder: str,
    is_shared: bool,
) -> None:
    """One block, over the rows of all neighbours that hold it."""
    look, colour = theme(), sequence_colour(holder)
    corner = column + 0.5, rows[0] + 0.06
    hatch = SHARED_HATCH if is_shared else None
    style = {"facecolor": colour, "edgecolor": look.ground, "hatch": hatch}
    axes.add_patch(Rectangle(corner, 0.95, len(rows) - 0.12, **style))
    middle = column + 0.975, rows[0] + len(rows) / 2
    box = {"boxstyle": "round,pad=0.2", "facecolor": colour, "linewidth": 0}
    text = {"ha": "center", "va": "center", "fontsize": 10, "bbox": box}
    axes.text(*middle, f"block {block_id}", color=ink_on(colour), **text)
    if rows[0] == 0:
        text = {"ha": "center", "color": look.quiet, "fontsize": 9}
        axes.text(middle[0], -0.15, f"entry {column}", **text)
