"""Lab: a context cut into splits, what each of them leaves behind, and the merge."""

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import Tone, behind_words, soft, strong
from minipaged.lab.plots.walk import split_shares

CONTEXT, HEIGHT = 26.0, 26.0  # where the context is drawn, and how high
TOP, ROW, LINE = 128.0, 60.0, 15.0  # above the rows; of a row; of one of its numbers
LOG, SHARE, SHARES = 176.0, 212.0, 132.0  # pixels from left; how wide all shares are
MEAN, PART_OF = 452.0, 640.0  # where the zeros of the bars are
BAR, NUMBER = 48.0, 54.0  # how long a bar is at most, and where its number stands


def plot_split_and_merge(
    context: int,
    tile: int,
    means: torch.Tensor,
    log_totals: torch.Tensor,
    title: str,
    name: str = "A",
    dims: Sequence[int] = (0, 1, 2),
) -> Figure:
    """A row for each split: its positions, what it leaves, what it adds to the result.

    A split counts by the sum of its weights. Shares are drawn one after the other, so
    that all of them fill the column.

    context, tile: how many positions there are, and are read at a time. means: [splits,
    dim], each split's result. log_totals: [splits], log2 of the sum of its weights.
    dims: which of the numbers are drawn.
    """
    shares = split_shares(context, len(means), tile)
    sheet, chosen = Sheet(title), means[:, list(dims)].double()
    counts = (log_totals.double() - log_totals.max()).exp2()
    counts = (counts / counts.sum()).tolist()
    added = [
        [share * number if share else 0.0 for number in row]
        for share, row in zip(counts, chosen.tolist(), strict=True)
    ]
    result = [sum(column) for column in zip(*added, strict=True)]
    most = max(abs(n) for row in [*chosen.tolist(), result] for n in row if n == n)
    _draw_context(sheet, context, shares, name)
    _draw_headings(sheet, f"it leaves; {len(dims)} of {means.shape[1]} numbers")
    y, before = TOP, 0.0
    for number, positions in enumerate(shares):
        _draw_label(sheet, y, number, positions)
        log = float(log_totals[number])
        said = f"{log:.2f}" if log > -math.inf else "−∞"
        sheet.write(LOG, y + ROW / 2 - 8, said, ha="right")
        _draw_share(sheet, y, before, counts[number], name)
        if positions:
            row = chosen[number].tolist()
            _draw_numbers(sheet, y, MEAN, row, most, behind_words(soft(name)))
            _draw_numbers(sheet, y, PART_OF, added[number], most, strong(name))
        before, y = before + counts[number], y + ROW
    sheet.line((0, y - 4), (SPAN, y - 4), alpha=0.5)
    sheet.write(0, y + ROW / 2 - 8, "merged", PART, weight="bold")
    sheet.write(SHARE, y + ROW / 2 - 8, "shares: 1")
    _draw_numbers(sheet, y + 4, PART_OF, result, most, strong(name))
    sheet.finish(y + ROW)
    return sheet.figure


def _draw_context(
    sheet: Sheet, context: int, shares: Sequence[range], name: str
) -> None:
    """All positions, cut where the splits end."""
    sheet.write(
        0, 8, f"A context of {context:,} positions, in {len(shares)} splits", PART
    )
    unit = SPAN / context
    for number, positions in enumerate(shares):
        if positions:
            width = len(positions) * unit
            said = f"split {number}"
            said = said if width_of(said) < width - 8 else ""
            x = positions.start * unit
            sheet.cells(x, CONTEXT, [width], HEIGHT, [soft(name)], [said])


def _draw_headings(sheet: Sheet, of_means: str) -> None:
    quiet = {"color": sheet.look.quiet}
    for x, what, remark, style in (
        (0, "it has read", "", {}),
        (LOG, "log", "log2 of the sum of weights", {"ha": "right"}),
        (SHARE, "counts", "its share of all weights", {}),
        (MEAN - BAR, "mean", of_means, {}),
        (PART_OF - BAR, "share × mean", "what it adds", {}),
    ):
        sheet.write(x, TOP - 48, what, PART, **style)
        sheet.write(x, TOP - 31, remark, **quiet, **style)


def _draw_label(sheet: Sheet, y: float, number: int, positions: range) -> None:
    sheet.write(0, y + ROW / 2 - 16, f"split {number}", PART)
    said = "nothing: it is empty"
    if positions:
        said = f"{positions.start}–{positions.stop - 1}"
    sheet.write(0, y + ROW / 2 + 1, said, color=sheet.look.quiet)


def _draw_share(sheet: Sheet, y: float, before: float, share: float, name: str) -> None:
    """A part of the column, to the right of those of the splits before."""
    top, height = y + ROW / 2 - 18, 20.0
    sheet.box(SHARE, top, SHARES, height, rim=sheet.look.rim)
    sheet.box(SHARE + before * SHARES, top, share * SHARES, height, strong(name))
    sheet.write(SHARE + SHARES + 6, top + height / 2, f"{share:.2f}")


def _draw_numbers(
    sheet: Sheet, y: float, zero: float, row: Sequence[float], most: float, tone: Tone
) -> None:
    """Bars to the left of zero or to the right of it, and the numbers."""
    for line, number in enumerate(row):
        top, width = y + line * LINE, BAR * abs(number) / most
        left = zero if number >= 0 else zero - width
        sheet.box(left, top, max(width, 0.5), LINE - 4, tone)
        said = f"{number:.2f}".replace("-", "−")
        sheet.write(zero + BAR + NUMBER, top + LINE / 2 - 2, said, ha="right")
    sheet.line((zero, y - 3), (zero, y + len(row) * LINE))
