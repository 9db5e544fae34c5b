"""Lab: which multiprocessors of a GPU have programs, and which have nothing to do."""

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import SPAN, Sheet, counted, width_of
from minipaged.lab.plots.tones import behind_words, free, soft, strong

ROWS, HEAD, BETWEEN, GAP = 3, 26.0, 22.0, 10.0  # of squares; pixels around them
MOST_WAVES = 3  # that are drawn


def plot_multiprocessors(
    num_programs: Mapping[str, int | tuple[int, int]],
    title: str,
    num_multiprocessors: int = 132,
) -> Figure:
    """For each launch a square for each multiprocessor, with the programs on it.

    They are dealt out evenly. What finds no room waits: it is drawn below, as if all
    began together once the first have ended.

    num_programs: by launch; or (programs, how many fit on a multiprocessor).
    """
    sheet, y = Sheet(title), 0.0
    columns = math.ceil(num_multiprocessors / ROWS)
    side = min(24.0, SPAN / columns)
    has_waves = False
    for name, value in num_programs.items():
        count, fitting = value if isinstance(value, tuple) else (value, value)
        waves = _waves(count, max(1, fitting) * num_multiprocessors)
        _draw_head(sheet, y, name, waves, num_multiprocessors)
        y += HEAD
        for number, running in enumerate(waves[:MOST_WAVES]):
            area = y, side, columns
            _draw_wave(sheet, area, running, num_multiprocessors, is_first=not number)
            y += math.ceil(num_multiprocessors / columns) * side + GAP
            has_waves |= number > 0
        y += BETWEEN - GAP
    signs = [(strong(0), "programs on it"), (free(), "has nothing to do")]
    if has_waves:
        signs.insert(1, (behind_words(soft(0)), "waits until they end"))
    sheet.legend(0, y, signs)
    sheet.finish(y + 8)
    return sheet.figure


def _waves(count: int, room: int) -> list[int]:
    """How many programs run at first, then, and so on."""
    waves = [room] * (count // room)
    return [*waves, count % room] if count % room else waves


def _draw_head(
    sheet: Sheet, y: float, name: str, waves: list[int], num_multiprocessors: int
) -> None:
    """The launch, and what of the GPU is busy; how full the last wave is."""
    count = sum(waves)
    busy = min(waves[0], num_multiprocessors)
    said, colour = f"{busy} of {num_multiprocessors} busy", GOOD
    if len(waves) > 1:
        full = waves[-1] / waves[0]
        said = f"{waves[0]:,} run, {count - waves[0]:,} wait: {full:.0%} of a wave"
        if len(waves) > 2:
            said = f"{len(waves)} waves of {waves[0]:,}, the last {full:.0%} full"
        colour = GOOD if full > 0.5 else BAD
    elif busy < num_multiprocessors:
        colour = BAD
    sheet.headline(y + 8, name, counted(count, "program"), said, colour)


def _draw_wave(
    sheet: Sheet,
    area: tuple[float, float, int],
    running: int,
    num_multiprocessors: int,
    is_first: bool,
) -> None:
    """A square for each multiprocessor, and how many of the programs are on it."""
    y, side, columns = area
    tone = strong(0) if is_first else soft(0)
    for number in range(num_multiprocessors):
        row, column = divmod(number, columns)
        place = column * side + 1, y + row * side + 1, side - 2, side - 2
        here = len(range(number, running, num_multiprocessors))
        if not here:
            sheet.box(*place, free(), sheet.look.rim)
            continue
        words = str(here) if width_of(str(here)) < side - 2 else ""
        sheet.cells(*place[:2], [place[2]], place[3], [tone], [words])
