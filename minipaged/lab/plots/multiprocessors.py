"""Lab: which multiprocessors of a GPU have programs, and which have nothing to do."""

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import counted, width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, strong
from minipaged.lab.plots.render import render

ROWS, HEAD, BETWEEN = 3, 26.0, 22.0  # of squares; pixels above them and below


def plot_multiprocessors(
    num_programs: Mapping[str, int], title: str, num_multiprocessors: int = 132
) -> Figure:
    """For each launch a square for each multiprocessor, with the programs on it.

    num_programs: by launch; they are dealt out evenly, as if all ran at a time.
    """
    sheet, y = Sheet(title), 0.0
    columns = math.ceil(num_multiprocessors / ROWS)
    side = min(24.0, SPAN / columns)
    for name, count in num_programs.items():
        busy = min(count, num_multiprocessors)
        said = f"{busy} of {num_multiprocessors} busy"
        colour = GOOD if busy == num_multiprocessors else BAD
        sheet.headline(y + 8, name, counted(count, "program"), said, colour)
        y += HEAD
        for number in range(num_multiprocessors):
            row, column = divmod(number, columns)
            place = column * side + 1, y + row * side + 1
            here = len(range(number, count, num_multiprocessors))
            _draw_multiprocessor(sheet, place, side - 2, here)
        y += math.ceil(num_multiprocessors / columns) * side + BETWEEN
    signs = [(strong(0), "programs on it"), (free(), "has nothing to do")]
    sheet.legend(0, y, signs)
    return render(sheet.finish(y + 8))


def _draw_multiprocessor(
    sheet: Sheet, place: tuple[float, float], side: float, here: int
) -> None:
    """A square, and how many programs are on it, if the number fits."""
    if not here:
        return sheet.box(*place, side, side, free(), sheet.look.rim)
    words = str(here) if width_of(str(here)) < side else ""
    sheet.cells(*place, [side], side, [strong(0)], [words])
