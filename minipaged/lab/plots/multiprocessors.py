"""Lab: which multiprocessors of a GPU have a program, and which have nothing to do."""

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import free, strong

ROWS, HEAD, BETWEEN = 4, 26.0, 22.0  # of squares; pixels above them and below


def plot_multiprocessors(
    num_programs: Mapping[str, int], title: str, num_multiprocessors: int = 132
) -> Figure:
    """For each batch a square for each multiprocessor, with the programs on it.

    They are dealt out evenly, as a GPU does it if there is room for all of them at the
    same time.
    """
    sheet, y = Sheet(title), 0.0
    columns = math.ceil(num_multiprocessors / ROWS)
    side = min(24.0, SPAN / columns)
    for name, count in num_programs.items():
        busy = min(count, num_multiprocessors)
        sheet.write(0, y + 8, name, PART)
        said = f"{count:,} program" + "s" * (count != 1)
        quiet = {"color": sheet.look.quiet}
        sheet.write(width_of(name, PART) + 12, y + 8, said, **quiet)
        is_full = busy == num_multiprocessors
        said, colour = f"{busy} of {num_multiprocessors} busy", GOOD if is_full else BAD
        sheet.write(SPAN, y + 8, said, PART, ha="right", color=colour)
        y += HEAD
        for number in range(num_multiprocessors):
            row, column = divmod(number, columns)
            area = column * side + 1, y + row * side + 1, side - 2, side - 2
            here = len(range(number, count, num_multiprocessors))
            if not here:
                sheet.box(*area, free(), sheet.look.rim)
                continue
            sheet.box(*area, strong(0))
            if width_of(str(here)) < side - 2:
                sheet.word(*area, str(here), strong(0))
        y += math.ceil(num_multiprocessors / columns) * side + BETWEEN
    signs = [(strong(0), "has so many programs")]
    sheet.legend(0, y, [*signs, (free(), "has nothing to do")])
    sheet.finish(y + 8)
    return sheet.figure
