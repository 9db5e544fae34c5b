"""Lab: from a position to its slot, through the block table (paper, figure 6)."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.charts import canvas
from minipaged.memory.block_table import BlockTable


def plot_address(
    table: BlockTable,
    position: int,
    title: str,
    name: str = "A",
    words: Sequence[str] = (),
) -> Figure:
    """The path of one position: logical block, table entry, physical block, slot."""
    figure, axes = canvas(title, height=2)
    size = table.pool.block_size
    index, offset = divmod(position, size)
    block_id, slot = table.block_ids[index], table.slot(position)
    axes.text(0, 0.5, f"slot = {block_id} * {size} + {offset} = {slot}")
    return figure
