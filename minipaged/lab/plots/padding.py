"""Lab: prompts filled up to one length: the tokens and the pairs that this adds."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import PART
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import others, strong
from minipaged.lab.plots.render import render

LEFT, MIDDLE, GAP = 22.0, 316.0, 16.0  # pixels: the rows, the triangles, between them
ROW, CELL, PAIR = 42.0, 12.5, 6.4  # pixels of a row; of a token and a pair, at most
TOP = 26.0  # pixels above rows and triangles


def plot_padding(counts: Mapping[str, int], title: str) -> Figure:
    """At the left the rectangle; at the right, for each row, who looks at whom.

    counts: the tokens of each prompt. A line of a triangle is a token: it looks at
    itself and at all before.
    """
    sheet, longest = Sheet(title), max(counts.values())
    token = min(CELL, (MIDDLE - LEFT - 40) / longest)
    room = (SPAN - MIDDLE + GAP) / len(counts) - GAP
    pair = min(PAIR, room / longest)
    _say(sheet, 0, "tokens", sum(counts.values()), len(counts) * longest)
    pairs = sum(map(_pairs, counts.values()))
    _say(sheet, MIDDLE, "pairs", pairs, len(counts) * _pairs(longest))
    for row, (name, count) in enumerate(counts.items()):
        tones = [strong(name)] * count + [others()] * (longest - count)
        y, x = TOP + row * ROW, MIDDLE + row * (room + GAP)
        sheet.write(0, y + ROW / 2 - 3, name, PART, weight="bold")
        sheet.cells(LEFT, y, [token] * longest, ROW - 6, tones)
        for line, tone in enumerate(tones):
            y = TOP + line * pair
            sheet.box(x, y, (line + 1) * pair, max(0.5, pair - 0.6), tone)
        sheet.write(x + room, TOP + 8, name, PART, ha="right", weight="bold")
    bottom = TOP + max(len(counts) * ROW, longest * pair) + 16
    sheet.legend(0, bottom, [(others(), "padding: computed for nothing")])
    said = "each line: a token, with all that it looks at"
    sheet.write(MIDDLE, bottom, said, color=sheet.look.quiet)
    return render(sheet.finish(bottom + 10))


def _pairs(num_tokens: int) -> int:
    """Each token with itself and with all before."""
    return num_tokens * (num_tokens + 1) // 2


def _say(sheet: Sheet, x: float, what: str, used: int, computed: int) -> None:
    said = f"{computed - used:,} of {computed:,} {what} are padding"
    sheet.write(x, 8, said, PART, color=BAD if used < computed else sheet.look.ink)
