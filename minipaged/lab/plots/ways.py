"""Lab: as many bytes under way, in many small programs or in few large ones."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted, fit, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import strong
from minipaged.lab.measure.launches import AIM, Launch
from minipaged.lab.plots.render import render

HEAD, HIGH, BETWEEN = 32.0, 34.0, 24.0  # pixels above all rows, of one, between two
LABEL, RESULT = 260.0, 152.0  # of a launch's name, at most; of its time and its share
GAP = 18.0  # between name, boxes and time
HAIR = 2.0  # between two programs


def plot_ways(launches: Mapping[str, Launch], title: str) -> Figure:
    """A row for each launch: the programs of a multiprocessor, side by side.

    A box is as wide as what its program has under way, in KiB; all rows have the same
    scale. An upright line is at the aim. At the right is how long the launch takes, and
    its share of the read ceiling.

    launches: by name. Drawn is a multiprocessor that has as many programs as any other.
    """
    sheet, aim = Sheet(title), AIM / 1024
    left = GAP + max(_width_of_label(*launch) for launch in launches.items())
    most = max(aim, *(one.running * kib_of(one) for one in launches.values()))
    unit, y = (SPAN - RESULT - GAP - left) / most, HEAD
    for name, launch in launches.items():
        sheet.write(0, y + HIGH / 2 - 8, *fit(name, LABEL, PART))
        sheet.write(0, y + HIGH / 2 + 9, _programs(launch), color=sheet.look.quiet)
        _draw_programs(sheet, left, y, unit, launch)
        _write_result(sheet, y, launch)
        y += HIGH + BETWEEN
    y -= BETWEEN
    line, style = left + aim * unit, {"color": sheet.look.ink, "linewidth": 1.6}
    sheet.line((line, HEAD - 10), (line, y + 10), **style)
    said = f"{aim:g} KiB on each multiprocessor"
    sheet.write(line, HEAD - 22, said, ha="right")
    meaning = "a program of a multiprocessor, and what it has under way"
    sheet.legend(0, y + 34, [(strong(0), meaning)])
    return render(sheet.finish(y + 42))


def kib_of(launch: Launch) -> float:
    """KiB that a program has under way; all that run at first have the same."""
    return launch.under_way * 1e6 / launch.waves[0] / 1024


def _programs(launch: Launch) -> str:
    """How many a launch has, and how many of them a multiprocessor has at a time."""
    whole = launch.running * launch.places == launch.waves[0] * launch.fit
    on_each = f"{launch.running} on each"
    on_each = on_each if whole else f"at most {on_each}"
    return f"{counted(sum(launch.waves), 'program')}, {on_each}"


def _width_of_label(name: str, launch: Launch) -> float:
    return max(width_of(*fit(name, LABEL, PART)), width_of(_programs(launch)))


def _draw_programs(
    sheet: Sheet, left: float, y: float, unit: float, launch: Launch
) -> None:
    """The programs of a multiprocessor, and what each has under way if it fits."""
    wide, kib = kib_of(launch) * unit, kib_of(launch)
    words = f"{kib:.0f} KiB"
    words = words if width_of(words) < wide - HAIR - 4 else ""
    for number in range(launch.running):
        place = left + number * wide, y, wide - HAIR, HIGH
        sheet.box(*place, strong(0))
        if words:
            sheet.word(*place, words, strong(0))


def _write_result(sheet: Sheet, y: float, launch: Launch) -> None:
    """How long a launch takes, and how near that is to the ceiling."""
    x, middle = SPAN - RESULT, y + HIGH / 2
    sheet.write(x, middle - 8, f"{launch.us:.1f} µs", PART, weight="bold")
    said = f"{launch.percent:.0f} % of the read ceiling"
    sheet.write(x, middle + 9, said, color=sheet.look.quiet)
