"""Lab: what becomes of a block of which a query sees nothing, as written and mended."""

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.figure import Figure

from minipaged.draw.letters import PART, SMALL
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import free
from minipaged.lab.plots.recurrence_steps import Triple
from minipaged.lab.plots.render import render

LEFT, TOP, ROW, BOX = 92.0, 50.0, 54.0, 28.0  # pixels: names; headings; rows; boxes
WIDE, GAP = 42.0, 28.0  # of a box; from a group of boxes to the next
SUBTRACTED = 78.0  # of the box with the number that is subtracted


def plot_hidden_block(
    logits: torch.Tensor,
    ways: Mapping[str, tuple[float, Sequence[Triple]]],
    title: str,
    blocks: Sequence[int],
) -> Figure:
    """A row for each way: what is subtracted, the weights, and s after each block.

    logits: of the first block, all minus infinity. ways: for each, the least number
    that is subtracted, and (maximum, sum of weights, weighted values) after each block.
    blocks: their ids.
    """
    sheet, count = Sheet(title), len(logits)
    subtracted = LEFT + count * WIDE + GAP
    weights = subtracted + SUBTRACTED + GAP
    sums = weights + count * WIDE + GAP
    for x, part, remark in (
        (LEFT, "logits x", f"block {blocks[0]}, hidden"),
        (subtracted, "subtracted", "from each x"),
        (weights, "weights", "e^(x − subtracted)"),
        (sums, "s, after block", ""),
    ):
        sheet.write(x, 8, part, PART)
        sheet.write(x, 25, remark, color=sheet.look.quiet)
    for number, block in enumerate(blocks):
        style = {"ha": "center", "color": sheet.look.quiet}
        sheet.write(sums + (number + 0.5) * WIDE, 25, str(block), **style)
    for row, (way, (least, states)) in enumerate(ways.items()):
        y = TOP + row * ROW
        sheet.write(0, y + BOX / 2, way, PART)
        number = max(states[0][0].item(), least)
        found = (logits - number).exp().tolist()
        _draw_numbers(sheet, LEFT, y, logits.tolist())
        _draw_numbers(sheet, subtracted, y, [number], SUBTRACTED)
        _draw_numbers(sheet, weights, y, found)
        _draw_numbers(sheet, sums, y, [float(s) for _, s, _ in states])
        for end in (subtracted, weights, sums):
            middle = y + BOX / 2
            sheet.arrow((end - GAP + 4, middle), (end - 4, middle))
    return render(sheet.finish(TOP + len(ways) * ROW - (ROW - BOX) + 10))


def _draw_numbers(
    sheet: Sheet, x: float, y: float, numbers: Sequence[float], width: float = WIDE
) -> None:
    """Boxes side by side; NaN is red, a number above 0 is green."""
    for number in numbers:
        colour = BAD if math.isnan(number) else GOOD if number > 0 else sheet.look.ink
        rim = sheet.look.rim if colour == sheet.look.ink else colour
        sheet.box(x + 1, y, width - 2, BOX, free(), rim)
        style = {} if colour == sheet.look.ink else {"weight": "bold"}
        middle = x + width / 2, y + BOX / 2
        sheet.write(*middle, _said(number), SMALL, ha="center", color=colour, **style)
        x += width


def _said(number: float) -> str:
    """Two digits behind the point; infinity and large numbers as one writes them."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "−∞" if number < 0 else "∞"
    said = f"{number:.1e}" if abs(number) >= 1e6 else f"{number:.2f}"
    return said.removesuffix(".00").replace("e+", "e").replace("-", "−")
