"""Lab: a kernel that waits for another one, launched after it or beside it."""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import SPAN, Sheet, width_of
from minipaged.lab.plots.tones import free, others, strong

LEFT, LANE, HEIGHT = 104.0, 30.0, 24.0  # pixels beside a lane, to the next, and of it
HEAD, BETWEEN = 30.0, 20.0  # above the lanes of a panel; between panels
DASHES = {"linewidth": 1.4, "linestyle": (0, (4, 3))}


class Launch(NamedTuple):
    """A kernel that is launched, may have to wait, and runs; moments on one clock."""

    name: str
    begin: float  # the launch begins
    there: float  # its programs could run
    start: float
    end: float


def splits_and_merge(
    launch: float, reading: float, merging: float, is_early: bool
) -> tuple[Launch, Launch]:
    """The splits, and the merge that needs all of them.

    launch: from the beginning of a launch until programs run. is_early: the merge is
    launched as soon as the splits run; otherwise once they have ended.
    """
    splits = Launch("splits", 0.0, launch, launch, launch + reading)
    begin = splits.start if is_early else splits.end
    start = max(begin + launch, splits.end)
    return splits, Launch("merge", begin, begin + launch, start, start + merging)


def plot_early_merge(runs: Mapping[str, tuple[Launch, ...]], title: str) -> Figure:
    """A panel for each run, a lane for each kernel: launched, waiting, running.

    All panels have one clock, without numbers. A dashed line stands where the last
    kernel of the slowest run ends; what a quicker run saves is written before it.
    """
    sheet, y = Sheet(title), 0.0
    ends = {name: max(kernel.end for kernel in run) for name, run in runs.items()}
    longest = max(ends.values())
    unit = (SPAN - LEFT) / longest
    for name, run in runs.items():
        is_slow = ends[name] == longest
        said = "the launch is waited for" if is_slow else "the launch is hidden"
        sheet.headline(y + 8, name, "", said, BAD if is_slow else GOOD)
        y += HEAD
        top = y
        for kernel in run:
            sheet.write(0, y + HEIGHT / 2, kernel.name, color=sheet.look.quiet)
            _draw_kernel(sheet, y, kernel, unit)
            y += LANE
        if not is_slow:
            _draw_saved(sheet, (top, y), LEFT + ends[name] * unit)
        y += BETWEEN
    y -= BETWEEN - 8
    sheet.line((LEFT, y), (SPAN, y))
    remark = "time →  (lengths are not measured)"
    sheet.write(SPAN, y + 14, remark, ha="right", color=sheet.look.quiet)
    signs = [(others(), "is launched"), (free(), "is there, and waits")]
    sheet.legend(0, y + 38, [*signs, (strong(0), "runs")])
    sheet.finish(y + 46)
    return sheet.figure


def _draw_kernel(sheet: Sheet, y: float, kernel: Launch, unit: float) -> None:
    """Launched, waiting, running; each as long as it takes."""
    spans = (
        (others(), kernel.begin, kernel.there, ""),
        (free(), kernel.there, kernel.start, "waits"),
        (strong(0), kernel.start, kernel.end, "runs"),
    )
    for tone, start, end, word in spans:
        x, width = LEFT + start * unit, (end - start) * unit
        if width < 0.5:
            continue
        word = word if width > width_of(word) + 8 else ""
        sheet.cells(x, y, [width], HEIGHT, [tone], [word])
        if tone == free():
            sheet.box(x + 1, y + 0.5, width - 2, HEIGHT - 1, rim=sheet.look.rim)


def _draw_saved(sheet: Sheet, lanes: tuple[float, float], x: float) -> None:
    """From the end of a run to that of the slowest, in the last lane."""
    top, bottom = lanes
    style = {"color": sheet.look.ink, **DASHES}
    sheet.line((SPAN, top), (SPAN, bottom), **style)
    middle = (x + SPAN) / 2, bottom - LANE + HEIGHT / 2
    if SPAN - x > width_of("saved") + 8:
        sheet.write(*middle, "saved", ha="center", color=GOOD)
