"""Lab: the same terms, added in one part or in several: the sums are not equal."""

from collections.abc import Mapping, Sequence

import torch

from minipaged.draw.letters import counted
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_sum_orders(
    terms: torch.Tensor, cuts: Mapping[str, Sequence[int]], title: str
) -> Figure:
    """Below the terms, for each order, the sum so far, and the sum of its parts.

    terms: [N], in the type that rounds. cuts: for each order, before which terms a new
    part begins. Parts are added one after another.
    """
    picture = Picture(title)
    numbers = [f"{term:.4f}" for term in terms.tolist()]
    air = Cell(wide=2.0)
    above = [Cell(number, soft(0), 2.0) for number in numbers]
    picture.row("terms", str(terms.dtype).removeprefix("torch."), above, is_bold=True)
    for name, starts in cuts.items():
        parts = terms.tensor_split(list(starts))
        cells, sums = [], []
        for tone, part in enumerate(parts):
            so_far = torch.zeros_like(terms[0])
            for term in part:
                so_far = so_far + term
                cells.append(Cell(f"{so_far:.4f}", soft(tone), 2.0))
            sums.append(so_far)
        whole = sums[0]
        for own in sums[1:]:
            whole = whole + own
        remark = counted(len(parts), "part")
        added = picture.row(name, f"{remark}: sums so far", cells, is_bold=True)
        last = [air] * (len(terms) - 1) + [Cell(f"{whole:.4f}", strong(0), 2.0)]
        total = picture.row("", "the sum", last)[-1]
        for stop in (*starts, len(terms)):
            picture.link(added[stop - 1], total)
    return render(picture.scene())
