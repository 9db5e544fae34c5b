"""Lab: what a cache copies that gets a larger tensor in each step."""

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.figure import Figure

from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, strong
from minipaged.lab.plots.render import render

LEFT, COUNTS = 112.0, 128.0  # pixels beside the rows: names of steps, and counts
LOWEST, HIGHEST, WIDEST = 6.0, 20.0, 44.0  # pixels of a row and of a token
HEIGHT = 400.0  # pixels of all rows, if they are many
LINE = 20.0  # pixels from one written row to the next, at least
MOVED = Tone(f"{BAD}A6", line=BAD)


def plot_copies(copies: Sequence[int], title: str, name: str = "A") -> Figure:
    """One row per decode step: the tokens that were moved, and the new one behind them.

    copies: tokens that each step copied into its new tensor. name: whose they are.
    """
    sheet = Sheet(title)
    token = min(WIDEST, (SPAN - LEFT - COUNTS) / (max(copies) + 1))
    row = min(HIGHEST, max(LOWEST, HEIGHT / len(copies)))
    signs = [(MOVED, "moved into a new tensor"), (strong(name), "new in this step")]
    sheet.legend(LEFT, 8, signs)
    quiet = {"color": sheet.look.quiet, "ha": "right"}
    sheet.write(SPAN - 62, 8, "moved", **quiet)
    sheet.write(SPAN, 8, "so far", **quiet)
    every = -(-LINE // row)
    for step, (moved, so_far) in enumerate(
        zip(copies, accumulate(copies), strict=True)
    ):
        y = 30 + step * row
        sheet.box(LEFT, y, moved * token, row - 1, MOVED)
        sheet.box(LEFT + moved * token, y, token, row - 1, strong(name))
        left = len(copies) - 1 - step
        if (step % every == 0 and left >= every) or not left:
            middle = y + row / 2
            sheet.write(0, middle, f"decode {step + 1}")
            sheet.write(SPAN - 62, middle, f"{moved:,}", ha="right")
            sheet.write(SPAN, middle, f"{so_far:,}", ha="right", weight="bold")
    return render(sheet.finish(30 + len(copies) * row + 4))
