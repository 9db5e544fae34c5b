"""Lab: what becomes of a block of which a query sees nothing, as written and mended."""

import math
from collections.abc import Mapping, Sequence

import torch

from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, free
from minipaged.lab.plots.recurrence_steps import Triple
from minipaged.lab.plots.render import Figure, render


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
    picture, count, rows = Picture(title), len(logits), []
    for way, (least, states) in ways.items():
        number = max(states[0][0].item(), least)
        found = (logits - number).exp().tolist()
        cells = [*_cells(logits.tolist()), *_cells([number], 2.6), *_cells(found)]
        sums = _cells([float(s) for _, s, _ in states])
        for block, cell in zip(blocks, sums, strict=False):
            cells.append(cell._replace(above="" if rows else str(block)))
        for at in (2 * count + 1, count + 1, count):
            cells.insert(at, Cell("→", wide=0.7))
        rows.append(picture.row(way, "", cells))
        picture.space(2)
    for span, said in (
        (rows[0][:count], f"logits x: block {blocks[0]}, hidden"),
        (rows[0][count + 1], "subtracted"),
        (rows[0][count + 3 : 2 * count + 3], "weights e^(x − subtracted)"),
        (rows[0][2 * count + 4 :], "s, after block"),
    ):
        picture.over(span, said, "none")
    return render(picture.scene())


def _cells(numbers: Sequence[float], wide: float = 1.0) -> list[Cell]:
    """NaN is orange, a number above 0 green."""
    return [Cell(_said(number), _tone(number), wide) for number in numbers]


def _tone(number: float) -> Tone:
    if math.isnan(number):
        return Tone(BAD)
    return Tone(GOOD) if number > 0 else free()


def _said(number: float) -> str:
    """Two digits behind the point; infinity and large numbers as one writes them."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "−∞" if number < 0 else "∞"
    said = f"{number:.1e}" if abs(number) >= 1e6 else f"{number:.2f}"
    return said.removesuffix(".00").replace("e+", "e").replace("-", "−")
