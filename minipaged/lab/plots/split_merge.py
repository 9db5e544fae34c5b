"""Lab: a context cut into splits, what each of them leaves behind, and the merge."""

import math
from collections.abc import Sequence

import torch

from minipaged.draw.letters import PART, signed, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, behind_words, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.plots.walk import split_shares

LEFT, BAND = 120.0, 26.0  # pixels beside the two bands at the top; how high each is
POSITIONS, WEIGHTS, TOP = 2.0, 56.0, 162.0  # where the bands begin, and the rows
ROW, LINE = 42.0, 15.0  # of a row; of one of its numbers, if there are several
LOG, ARROW, SUM = 138.0, 144.0, 210.0  # pixels from left: ends of numbers; between them
SHARE, DIGITS, WIDE = 356.0, 37.0, 96.0  # its end; of it; of the division before it
MEAN, PART_OF = 454.0, 646.0  # where the zeros of the bars are
BAR, NUMBER = 54.0, 44.0  # how long a bar is at most, and where its number ends
TIMES, EQUALS = 377.0, 573.0  # signs between a share, a mean, and what they make


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
    multiplied by this share. What is hollow was not yet weighed.

    context, tile: how many positions there are, and are read at a time. means: [splits,
    dim], each split's result. log_totals: [splits], log2 of the sum of its weights.
    dims: which of the numbers are drawn, one bar for each.
    """
    splits = split_shares(context, len(means), tile)
    sheet, chosen = Sheet(title), means[:, list(dims)].double()
    logs = log_totals.double()
    counts = (logs - logs.max()).exp2()  # lowered, so that none is infinite
    counts = (counts / counts.sum()).tolist()
    sums, total = _written(logs.exp2().tolist())
    of_weights = _divisions(sums, total)
    added = [
        [share * number if share else 0.0 for number in row]
        for share, row in zip(counts, chosen.tolist(), strict=True)
    ]
    result = [sum(column) for column in zip(*added, strict=True)]
    most = max(abs(n) for row in [*chosen.tolist(), result] for n in row if n == n)
    _draw_bands(sheet, splits, counts, sums, total, name)
    _draw_headings(sheet, f"{len(dims)} of {means.shape[1]} numbers")
    y, high = TOP, max(ROW, LINE * len(dims) + 12)
    for number, positions in enumerate(splits):
        middle = y + high / 2
        _draw_label(sheet, middle, number, positions)
        _draw_sum(sheet, middle, float(logs[number]), sums[number])
        share = f"{counts[number]:.2f}"
        sheet.write(SHARE, middle, share, ha="right", weight="bold")
        sheet.write(SHARE - DIGITS, middle, of_weights[number], ha="right")
        if positions:
            row = chosen[number].tolist()
            _draw_numbers(sheet, middle, MEAN, row, most, behind_words(soft(name)))
            _draw_numbers(sheet, middle, PART_OF, added[number], most, strong(name))
            for x, sign in ((TIMES, "×"), (EQUALS, "=")):
                sheet.write(x, middle, sign, PART, ha="center")
        y += high
    sheet.line((0, y + 2), (SPAN, y + 2), alpha=0.5)
    middle = y + 4 + high / 2
    sheet.write(0, middle, "merged", PART, weight="bold")
    for end, said in ((SUM, total), (SHARE, "1")):
        sheet.write(end, middle, said, ha="right")
    _draw_numbers(sheet, middle, PART_OF, result, most, strong(name))
    signs = [(behind_words(soft(name)), "not weighted yet")]
    signs += [(strong(name), "weighted")]
    sheet.legend(0, y + high + 20, signs)
    return render(sheet.finish(y + high + 28))


def _written(sums: Sequence[float]) -> tuple[list[str], str]:
    """Each with all digits before the point, at least three in all; and their sum."""
    digits = max(0, 2 - math.floor(math.log10(max(sums))))
    whole = sum(round(number, digits) for number in sums)
    return [f"{number:,.{digits}f}" for number in sums], f"{whole:,.{digits}f}"


def _draw_bands(
    sheet: Sheet,
    splits: Sequence[range],
    counts: Sequence[float],
    sums: Sequence[str],
    total: str,
    name: str,
) -> None:
    """All positions, and all their weights, cut where the splits end."""
    context, wide = splits[-1].stop, SPAN - LEFT
    lengths = [len(positions) for positions in splits]
    sheet.label(POSITIONS, BAND, f"{context:,} positions", f"in {len(splits)} splits")
    sheet.label(WEIGHTS, BAND, "their weights", f"sum: {total}")
    upper = lower = LEFT
    for number, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        widths = length / context * wide, count * wide
        for x, y, width, has, tone in (
            (upper, POSITIONS, widths[0], f"{length:,}", soft(name)),
            (lower, WEIGHTS, widths[1], sums[number], strong(name)),
        ):
            said = f"split {number}: {has}"
            said = said if width_of(said) < width - 8 else has
            said = said if width_of(said) < width - 4 else ""
            if length:
                sheet.cells(x, y, [width], BAND, [tone], [said])
        upper, lower = upper + widths[0], lower + widths[1]
        if any(lengths[number + 1 :]):
            sheet.line((upper, POSITIONS + BAND + 3), (lower, WEIGHTS - 3))


def _draw_headings(sheet: Sheet, of_means: str) -> None:
    quiet = {"color": sheet.look.quiet}
    for x, what, remark, style in (
        (0, "it read", "", {}),
        (SUM, "sum of weights", "2^log2", {"ha": "right"}),
        (LOG, "", "its log2", {"ha": "right"}),
        (SHARE, "share of weights", "", {"ha": "right"}),
        (MEAN - BAR, "its mean", of_means, {}),
        (PART_OF - BAR, "share × mean", "what it adds", {}),
    ):
        sheet.write(x, TOP - 42, what, PART, **style)
        sheet.write(x, TOP - 25, remark, **quiet, **style)


def _draw_label(sheet: Sheet, middle: float, number: int, positions: range) -> None:
    sheet.write(0, middle - 8, f"split {number}", PART)
    said = f"{positions.start}–{positions.stop - 1}" if positions else "nothing"
    sheet.write(0, middle + 9, said, color=sheet.look.quiet)


def _draw_sum(sheet: Sheet, middle: float, log: float, total: str) -> None:
    """The logarithm that a split leaves, and the sum of weights that it stands for."""
    said = signed(log, 3) if log > -math.inf else "−∞"
    sheet.write(LOG, middle, said, ha="right")
    if SUM - width_of(total) > ARROW + 24:
        sheet.arrow((ARROW, middle), (ARROW + 22, middle))
    sheet.write(SUM, middle, total, ha="right")


def _divisions(parts: Sequence[str], whole: str) -> list[str]:
    """Each part divided by the whole: written alike, and not at all without room."""
    for over in (" / ", "/"):
        divisions = [f"{part}{over}{whole} =" for part in parts]
        if max(map(width_of, divisions)) < WIDE:
            return divisions
    return [""] * len(parts)


def _draw_numbers(
    sheet: Sheet,
    middle: float,
    zero: float,
    row: Sequence[float],
    most: float,
    tone: Tone,
) -> None:
    """Bars to the left of zero or to the right of it, and the numbers."""
    first = middle - LINE * len(row) / 2
    for line, number in enumerate(row):
        top, width = first + line * LINE, BAR * abs(number) / most
        left = zero if number >= 0 else zero - width
        sheet.box(left, top + 1, max(width, 0.5), LINE - 2, tone)
        end = zero + BAR + NUMBER
        sheet.write(end, top + LINE / 2, signed(number), ha="right")
    sheet.line((zero, first - 3), (zero, first + len(row) * LINE + 3))
