"""Lab: a context cut into splits, what each of them leaves behind, and the merge."""

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, soft, strong
from minipaged.lab.plots.render import render
from minipaged.lab.plots.walk import split_shares

NARROW = 0.05  # of the whole


def plot_split_and_merge(
    context: int,
    tile: int,
    means: torch.Tensor,
    log_totals: torch.Tensor,
    title: str,
    name: str = "A",
    dims: Sequence[int] = (0,),
) -> Figure:
    """How long the splits are, how much weight they have, and how that merges them.

    A split counts by the sum of its weights, and not by its length: of both there is a
    band, cut where the splits end. Below is a row for each split: the logarithm that it
    leaves, the sum that this stands for, the share of all sums, and the mean that is
    multiplied by this share.

    context, tile: how many positions there are, and are read at a time. means: [splits,
    dim], each split's result. log_totals: [splits], log2 of the sum of its weights.
    dims: which of the numbers are written.
    """
    splits = split_shares(context, len(means), tile)
    chosen, logs = means[:, list(dims)].double().tolist(), log_totals.double()
    counts = (logs - logs.max()).exp2()  # lowered, so that none is infinite
    counts = (counts / counts.sum()).tolist()
    sums, total = _written(logs.exp2().tolist())
    added = [
        [share * number if share else 0.0 for number in row]
        for share, row in zip(counts, chosen, strict=True)
    ]
    result = [sum(column) for column in zip(*added, strict=True)]
    picture = Picture(title)
    picture.beside(_bands(splits, counts, sums, total, name))
    of = f"its mean, {len(dims)} of {means.shape[1]} numbers"
    picture.heads("its log2", "sum of weights", "share of weights", of, "share × mean")
    for number, positions in enumerate(splits):
        log = float(logs[number])
        said = f"{log:.3f}".replace("-", "−") if log > -math.inf else "−∞"
        share = f"{sums[number]} / {total} = {counts[number]:.2f}"
        values = [said, sums[number], share]
        if positions:
            values += [_said(chosen[number]), _said(added[number])]
        read = f"{positions.start}–{positions.stop - 1}" if positions else "nothing"
        picture.row(f"split {number}", read, values=values)
    picture.rule()
    picture.row("merged", values=["", total, "1", "", _said(result)], is_bold=True)
    return render(picture.scene())


def _written(sums: Sequence[float]) -> tuple[list[str], str]:
    """Each with all digits before the point, at least three in all; and their sum."""
    digits = max(0, 2 - math.floor(math.log10(max(sums))))
    whole = sum(round(number, digits) for number in sums)
    return [f"{number:,.{digits}f}" for number in sums], f"{whole:,.{digits}f}"


def _said(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.2f}" for number in numbers).replace("-", "−")


def _bands(
    splits: Sequence[range],
    counts: Sequence[float],
    sums: Sequence[str],
    total: str,
    name: str,
) -> Picture:
    """All positions, and all their weights, cut where the splits end."""
    panel, context = Picture(), splits[-1].stop
    upper, lower = [], []
    for number, positions in enumerate(splits):
        if has := len(positions):
            upper.append(_cell(number, f"{has:,}", soft(name), has / context))
            lower.append(_cell(number, sums[number], strong(name), counts[number]))
    of = f"in {len(splits)} splits"
    one = panel.row(f"{context:,} positions", of, upper, fills=True)
    two = panel.row("their weights", f"sum: {total}", lower, fills=True)
    for at in range(len(upper)):
        panel.link(one[at], two[at])
    return panel


def _cell(number: int, has: str, tone: Tone, share: float) -> Cell:
    """Without words if it is narrow."""
    said = f"split {number}: {has}" if share > NARROW else ""
    return Cell(said, tone, share, short=has)
