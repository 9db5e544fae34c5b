"""Lab: the rungs that lead to lesson 6's kernel, and what each of them gains."""

from collections.abc import Mapping
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.lab.plots.dots import (
    draw_axis,
    draw_reference,
    draw_series,
    marker_of,
)
from minipaged.lab.plots.palette import BAD, line_colour
from minipaged.lab.plots.scales import scale_of
from minipaged.lab.plots.signs import SPAN, Sheet, width_of

ROW, TOP = 30.0, 54.0  # pixels from rung to rung; above them
COLUMN, GAP = 58.0, 14.0  # of the factors of a batch; between them and the axis
SLOWER = 0.97  # times as fast: marked, as it is no chance
MOST = 5  # batches whose factors have columns


def plot_ladder(
    shares: Mapping[str, Mapping[str, float]],
    title: str,
    xlabel: str = "GB/s of K and V, in % of the read ceiling",
    whole: int | None = None,
) -> Figure:
    """A path for each batch, down the rungs and to the right, to the ceiling.

    Equal factors are equally long. Beside the path stands how many times as fast a rung
    is as the one before; the largest factor of a batch is bold, and
    what takes more time than before is orange.

    shares: by batch and rung, in %. whole: how many rungs there will be, so that the
    picture keeps its size while they are added one by one.
    """
    sheet, rungs = Sheet(title), list(next(iter(shares.values())))
    labels = [f"{number}  {name}" for number, name in enumerate(rungs, start=1)]
    left = max(map(width_of, labels)) + 18
    columns = COLUMN * len(shares) + GAP if len(shares) <= MOST else 0.0
    values = [share for row in shares.values() for share in row.values()]
    scale = scale_of([*values, 1.0, 100.0], left, SPAN - left - columns, True)
    bottom = TOP + ROW * max(len(rungs), whole or 0)
    draw_axis(sheet, scale, [(TOP, bottom)], xlabel)
    draw_reference(sheet, scale, 100.0, (TOP, bottom), "the read ceiling")
    draw_series(sheet, list(shares))
    for row, label in enumerate(labels):
        sheet.write(0, TOP + (row + 0.5) * ROW, label)
    for index, path in enumerate(shares.values()):
        places = [scale.x(share) for share in path.values()]
        heights = [TOP + (row + 0.5) * ROW for row in range(len(places))]
        style = {"color": line_colour(index), "linewidth": 1.6, "alpha": 0.7}
        sheet.line(*zip(places, heights, strict=True), **style)
        sheet.axes.plot(places, heights, zorder=3, **marker_of(index))
        if columns:
            right = SPAN - columns + GAP + (index + 1) * COLUMN
            sheet.axes.plot([right - 12], [TOP - 9], **marker_of(index))
            _draw_factors(sheet, right, list(path.values()), bottom)
    if columns:
        style = {"ha": "right", "color": sheet.look.quiet}
        said = "times the rung before" if len(shares) > 2 else "factor"
        sheet.write(SPAN, TOP + 0.5 * ROW, said, **style)
    sheet.finish(bottom + 44)
    return sheet.figure


def _draw_factors(sheet: Sheet, right: float, path: list[float], bottom: float) -> None:
    """Of a batch: each rung beside the one before, and below where it ends."""
    factors = [after / before for before, after in pairwise(path)]
    for row, factor in enumerate(factors, start=1):
        style = {"weight": "bold" if factor == max(factors) else "normal"}
        if factor < SLOWER:
            style["color"] = BAD
        y = TOP + (row + 0.5) * ROW
        sheet.write(right, y, f"× {factor:.2f}", ha="right", **style)
    sheet.write(right, bottom + 10, f"at {path[-1]:.0f} %", ha="right")
