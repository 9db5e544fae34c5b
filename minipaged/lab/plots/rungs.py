"""Lab: the rungs that lead to lesson 6's kernel, and what each of them gains."""

from collections.abc import Mapping
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD
from minipaged.lab.plots.signs import PART, SPAN, Sheet, fit, width_of
from minipaged.lab.plots.tones import soft, strong

ROW, TOP = 38.0, 64.0  # pixels from rung to rung; above them
BAR, GAP = 10.0, 16.0  # pixels: how high a bar is; between the columns of two batches
SLOWER = 0.97  # times as fast: marked, as it is no chance


def plot_ladder(
    shares: Mapping[str, Mapping[str, float]],
    title: str,
    unit: str = "GB/s of K and V, in % of the read ceiling",
    whole: int | None = None,
) -> Figure:
    """A column for each batch, in it a bar for each rung; a full bar is the ceiling.

    The soft part of a bar is what the rung before has reached, the strong part is what
    this rung adds. Above the bar stand the share and how many times as fast the rung is
    as the one before, if there is room; the largest factor of a batch is bold, and what
    takes more time than before is orange.

    shares: by batch and rung, in %. whole: how many rungs there will be, so that the
    picture keeps its size while they are added one by one.
    """
    sheet, rungs = Sheet(title), list(next(iter(shares.values())))
    labels = [f"{number}  {name}" for number, name in enumerate(rungs, start=1)]
    left = max(map(width_of, labels)) + GAP
    wide = (SPAN - left + GAP) / len(shares) - GAP
    bottom = TOP + ROW * max(len(rungs), whole or 0)
    sheet.write(0, 8, f"{unit}; and times the rung before")
    for row, label in enumerate(labels):
        sheet.write(0, TOP + row * ROW + 16, label)
    for index, (batch, path) in enumerate(shares.items()):
        x = left + index * (wide + GAP)
        words, size = fit(batch, 0.86 * wide, PART)  # bold is wider
        sheet.write(x, TOP - 22, words, size, weight="bold")
        _draw_bars(sheet, x, wide, list(path.values()))
    signs = [(soft(0), "as far as the rung before"), (strong(0), "what this rung adds")]
    x = sheet.legend(0, bottom + 12, signs)
    sheet.box(x, bottom + 6, 18, 12, rim=sheet.look.rim)
    sheet.write(x + 24, bottom + 12, "the read ceiling", color=sheet.look.quiet)
    sheet.finish(bottom + 20)
    return sheet.figure


def _draw_bars(sheet: Sheet, x: float, wide: float, path: list[float]) -> None:
    """Of a batch: how far each rung gets, and what it adds to the one before."""
    factors = [after / before for before, after in pairwise(path)]
    reached = [
        f"{share:.0f} %" if share >= 9.95 else f"{share:.1f} %" for share in path
    ]
    times = ["", *(f"× {factor:.1f}" for factor in factors)]
    has_room = all(
        width_of(share) + width_of(factor, bold=True) + 8 < wide
        for share, factor in zip(reached, times, strict=True)
    )
    before = 0.0
    for row, share in enumerate(path):
        y = TOP + row * ROW
        old, new = min(before, share) * wide / 100, share * wide / 100
        sheet.box(x, y + 14, wide, BAR, rim=sheet.look.rim)
        sheet.box(x, y + 14, old, BAR, soft(0))
        if old > 2:  # an edge, as a soft tone is nearly that of a dark page
            inside = x + 0.6, y + 14.6, old - 1.2, BAR - 1.2
            sheet.box(*inside, rim=soft(0).line, linewidth=1.2)
        sheet.box(x + old, y + 14, new - old, BAR, strong(0))
        sheet.write(x, y + 3, reached[row])
        if row and has_room:
            factor = factors[row - 1]
            style = {"weight": "bold" if factor == max(factors) else "normal"}
            style["color"] = BAD if factor < SLOWER else sheet.look.quiet
            sheet.write(x + wide, y + 3, times[row], ha="right", **style)
        before = share
