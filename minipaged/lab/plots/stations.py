"""Lab: the stations of a step in their order, and the way back to the first."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, fit, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free
from minipaged.lab.plots.render import render

TOP, HEIGHT, GAP = 36.0, 32.0, 22.0  # above the boxes; of a box; between two
LINE, BACK = 16.0, 34.0  # pixels of a line of words; that the way back goes down


def plot_stations(
    stations: Mapping[str, tuple[Callable[..., Any], str]],
    title: str,
    again: str,
    before: int = 1,
) -> Figure:
    """A box for each station, what happens there, and the function that does it.

    stations: name to its function, and what happens in short lines. before: how many
    come once for each request; the others are a step. again: when the step is repeated.
    """
    sheet, width = Sheet(title), (SPAN + GAP) / len(stations) - GAP
    places = [at * (width + GAP) for at in range(len(stations))]
    lines = max(text.count("\n") + 1 for _, text in stations.values())
    low = TOP + HEIGHT + 22 + LINE * (lines + 1)
    for at, (x, (name, (function, text))) in enumerate(
        zip(places, stations.items(), strict=True)
    ):
        middle = x + width / 2
        rim = sheet.look.rim if at < before else sheet.look.ink
        sheet.box(x, TOP, width, HEIGHT, free(), rim, linewidth=1.4)
        shown, size = fit(f"{at + 1} · {name}", width - 4, PART)
        style = {"ha": "center", "weight": "bold"}
        sheet.write(middle, TOP + HEIGHT / 2, shown, size, **style)
        words = text.split("\n")
        for row, line in enumerate(words):
            y = TOP + HEIGHT + 16 + row * LINE
            shown, size = fit(line, width + GAP - 12)
            sheet.write(middle, y, shown, size, ha="center")
        is_inside = 0 < at < len(stations) - 1  # its name may be wider than its box
        room = (0.94 if is_inside else 0.8) * (width + GAP)
        shown, size = fit(f"{function.__name__}()", room)
        style = {"ha": "center", "family": "monospace", "color": sheet.look.quiet}
        sheet.write(middle, low - LINE, shown, size, **style)
        if at:
            y = TOP + HEIGHT / 2
            sheet.arrow((x - GAP + 2, y), (x - 2, y), is_followed=True)
    _draw_step(sheet, places[before], places[-1] + width)
    _draw_way_back(sheet, places[before], places[-1], width, low, again)
    return render(sheet.finish(low + BACK + 12))


def _draw_step(sheet: Sheet, left: float, right: float) -> None:
    """A bracket over the stations that are repeated."""
    sheet.write((left + right) / 2, 6, "one step", PART, ha="center")
    y = 20.0
    sheet.line((left, y + 6), (left, y), (right, y), (right, y + 6))


def _draw_way_back(
    sheet: Sheet, first: float, last: float, width: float, y: float, again: str
) -> None:
    """From below the last station to below the first of a step, with its condition."""
    start, end, low = last + width / 2, first + width / 2, y + BACK - 12
    half, middle = width_of(again) / 2 + 10, (start + end) / 2
    style = {"color": sheet.look.ink, "linewidth": 1.6}
    sheet.line((start, y), (start, low), (middle + half, low), **style)
    sheet.line((middle - half, low), (end, low), **style)
    sheet.arrow((end, low), (end, y - 2), is_followed=True, is_upright=True)
    sheet.write(middle, low, again, ha="center")
