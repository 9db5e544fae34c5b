"""Lab: how a cache of K and V grows, step by step."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.charts import canvas


def plot_kv_growth(
    words: Sequence[str], stored: Sequence[int], title: str, num_prompt: int
) -> Figure:
    """One row per step: the columns of K and V that were there, and the new ones.

    words: the texts of all tokens. stored: columns in the cache after each step.
    """
    figure, axes = canvas(title, height=0.8 + 0.4 * len(stored))
    axes.barh(range(len(stored)), stored)
    axes.invert_yaxis()
    return figure
