"""Lab: the blocks that a run holds, step by step, beside those without sharing."""

from collections.abc import Sequence
from itertools import pairwise

from minipaged.lab.measure.watch import Moment
from minipaged.lab.plots.charts import chart_of
from minipaged.lab.plots.render import Figure, render


def plot_blocks_held(moments: Sequence[Moment], block_size: int, title: str) -> Figure:
    """Draw both counts as stairs, for blocks are whole; say how many blocks come free.

    moments: of each forward, as `watch` gives them.
    """
    held = [moment.num_blocks for moment in moments]
    unshared = [moment.num_unshared for moment in moments]
    lines = {"with sharing": held, "without sharing": unshared}
    words = title, "step", f"blocks of {block_size}"
    chart = chart_of(range(len(held)), lines, *words, is_stairs=True)
    for step, (before, now) in enumerate(pairwise(held), 1):
        if now < before:
            chart.note(step + 1, now, f"−{before - now}")
    return render(chart.scene())
