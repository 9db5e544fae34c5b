"""Lab: what a cache copies that gets a larger tensor in each step."""

from collections.abc import Sequence
from itertools import accumulate

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, strong
from minipaged.lab.plots.render import Figure, render

MOVED = Tone(f"{BAD}A6", line=BAD)
LOWEST, HIGHEST = 6.0, 20.0  # pixels of a row
HEIGHT, LINE = 400.0, 20.0  # pixels of all rows, if they are many; of a written one


def plot_copies(copies: Sequence[int], title: str, name: str = "A") -> Figure:
    """One row per decode step: the tokens that were moved, and the new one behind them.

    copies: tokens that each step copied into its new tensor. name: whose they are.
    """
    picture = Picture(title)
    signs = (MOVED, "moved into a new tensor"), (strong(name), "new in this step")
    picture.legend(*signs)
    picture.heads("moved", "so far")
    row = min(HIGHEST, max(LOWEST, HEIGHT / len(copies)))
    every, last = -int(-LINE // row), len(copies)
    for step, (moved, so_far) in enumerate(
        zip(copies, accumulate(copies), strict=True)
    ):
        left = last - 1 - step
        is_said = (step % every == 0 and left >= every) or not left
        cells = [Cell("", MOVED, wide=moved), Cell("", strong(name))]
        said = [f"{moved:,}", f"{so_far:,}"] if is_said else []
        label = f"decode {step + 1}" if is_said else ""
        style = {"height": row - 1, "apart": 1, "is_heavy": not left}
        picture.row(label, "", cells, values=said, **style)
    return render(picture.scene())
