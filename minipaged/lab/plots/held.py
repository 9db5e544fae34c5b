"""Lab: the blocks that a run holds, step by step, beside those without sharing."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.palette import theme
from minipaged.lab.measure.watch import Moment
from minipaged.lab.plots.charts import plot_lines


def plot_blocks_held(moments: Sequence[Moment], block_size: int, title: str) -> Figure:
    """Draw both counts as stairs, for blocks are whole; say how many blocks come free.

    moments: of each forward, as `watch` gives them.
    """
    held = [moment.num_blocks for moment in moments]
    unshared = [moment.num_unshared for moment in moments]
    lines = {"with sharing": held, "without sharing": unshared}
    axes = "step", f"blocks of {block_size}"
    figure = plot_lines(range(len(held)), lines, title, *axes, logarithmic=False)
    (plot,) = figure.axes
    for line in plot.lines:
        line.set_drawstyle("steps-post")
    for step, (before, now) in enumerate(pairwise(held), 1):
        if now < before:
            place, ink = (step + 0.5, now + 1), theme().ink
            plot.annotate(f"−{before - now}", place, color=ink, fontsize=9)
    return figure
