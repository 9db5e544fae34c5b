"""Lab: which sizes `decode_sizes` takes, by how much work a multiprocessor has."""

import math
from collections.abc import Collection, Mapping
from itertools import groupby, pairwise
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.lab.measure.launches import POSITION
from minipaged.lab.plots.signs import SPAN, Sheet, counted, width_of
from minipaged.lab.plots.tones import Tone, strong

LEFT, HIGH, STRIP = 56.0, 170.0, 26.0  # pixels: beside the field, it, and the choices
LOW = 0.3  # the field's lower edge, as a share
ROW = 17.0  # pixels from one row of words to the next
UP, DOWN = 0.85, 0.65  # so far along a line its waves stand, above it or below
STEPS = 100  # within one piece
DASHES = ("-", (0, (5, 2)))
LEAST = 1.5  # pieces: with fewer, small programs are taken


class Kind(NamedTuple):
    """Programs of one size."""

    tile: int
    num_warps: int
    num_stages: int
    tiles_ahead: int
    room: int  # so many at a time on a multiprocessor

    @property
    def kib(self) -> float:
        """KiB of K and V that a program has under way."""
        return self.tile * self.tiles_ahead * POSITION / 1024

    def __str__(self) -> str:
        warps = counted(self.num_warps, "warp")
        ahead = f"{self.kib:.0f} KiB under way"
        return f"tile {self.tile}, {warps}, {self.num_stages} stages: {ahead}"


KINDS = {
    "small": Kind(32, 1, 5, tiles_ahead=2, room=4),
    "medium": Kind(64, 2, 4, tiles_ahead=1, room=4),
    "large": Kind(128, 4, 2, tiles_ahead=1, room=3),
}
IN_WAVES = ("large", "medium")  # of two whose waves are equally full, the first
FIRST, LAST = sorted(IN_WAVES, key=lambda name: KINDS[name].room)  # that need 2 waves
MOST = max(IN_WAVES, key=lambda name: KINDS[name].kib)
REASONS = {  # why it is what is taken, from so many pieces on
    0.0: ("few: split, until", f"{KINDS['small'].room} are on each"),
    LEAST: ("all run at once:", f"{MOST} ones have", "more under way"),
    KINDS[FIRST].room: (f"{FIRST} ones", "need two", "waves"),
    KINDS[LAST].room: ("both run in several waves:", "the emptier waves lose"),
}
COLOURS = {"small": 2, "large": 0, "medium": 1}


def full(pieces: float, at_a_time: int) -> float:
    """How much of its room is used if programs run in waves of so many."""
    return pieces / (at_a_time * math.ceil(pieces / at_a_time))


def chosen(pieces: float) -> str:
    """The kind for so many pieces on each multiprocessor: its waves are fuller."""
    if pieces < LEAST:
        return "small"
    return max(IN_WAVES, key=lambda name: full(pieces, KINDS[name].room))


def plot_size_rule(
    batches: Mapping[str, float],
    title: str,
    examples: Collection[str] = (),
    most: int = 8,
) -> Figure:
    """How full the waves are, by the pieces on each multiprocessor; what is taken, why.

    For even contexts on an H100 or H200, with 16 query heads for each KV head at most,
    of 128 numbers.

    batches: so many pieces on each; marked above. examples: of these batches, which
    have LEAST pieces or more, it is read off the lines how full their waves are. most:
    where the axis ends; on a long one, reasons and numbers of waves have no room.
    """
    sheet = Sheet(title)
    unit, quiet = (SPAN - LEFT) / most, {"color": sheet.look.quiet}
    sheet.write(0, 12, "how full the waves are", **quiet)
    top = _draw_batches(sheet, batches, unit) + 12
    _draw_waves(sheet, top, unit, most)
    for name in examples:
        _read_off(sheet, top, unit, batches[name])
    y = top + HIGH + 6
    _draw_choices(sheet, y, unit, most)
    y += STRIP + 12
    for pieces in range(most + 1):
        x = min(LEFT + pieces * unit, SPAN - width_of(str(pieces)) / 2)
        sheet.write(x, y, str(pieces), ha="center", **quiet)
    sheet.write(LEFT, y + 22, "pieces (sequences × KV heads) on each multiprocessor")
    y += 46
    if _has_room(unit, most):
        y = _draw_reasons(sheet, y - 6, unit) + 28
    for name, kind in KINDS.items():
        sheet.legend(0, y, [(_tone(name), name)])
        ending = f"; no splits; {kind.room} at a time" * (name in IN_WAVES)
        sheet.write(90, y, f"{kind}{ending}", **quiet)
        y += 20
    sheet.finish(y - 10)
    return sheet.figure


def _tone(name: str) -> Tone:
    return strong(COLOURS[name])


def _draw_waves(sheet: Sheet, top: float, unit: float, most: int) -> None:
    """A line for each number of waves of each kind; it ends where they are full.

    It bears their number, if there is room; the first of each kind bears its name.
    """
    for share in (0.5, 0.75, 1.0):
        y = top + _below(share)
        sheet.line((LEFT, y), (SPAN, y), alpha=0.35, zorder=0)
        words = _percent(share)
        sheet.write(LEFT - 8, y, words, ha="right", color=sheet.look.quiet)
    for at, name in enumerate(IN_WAVES):
        style = {"color": _tone(name).face, "linestyle": DASHES[at]}
        room = KINDS[name].room
        for last in range(room, most + room, room):
            ends = max(LEAST, last - room), min(most, last)
            line = [(LEFT + x * unit, top + _below(x / last)) for x in ends]
            sheet.line(*line, linewidth=2.2, zorder=2 + at, **style)
            if _has_room(unit, most):
                is_taken = chosen(ends[0] + UP * (ends[1] - ends[0])) == name
                _count_waves(sheet, line, last // room, is_taken)
            if last == room:
                x, y = line[0]
                sheet.write(x - 5, y - 9, name, ha="right", color=sheet.look.quiet)


def _count_waves(
    sheet: Sheet, line: list[tuple[float, float]], number: int, is_above: bool
) -> None:
    """So many waves, at the left of their line above it, or at its right below."""
    words = counted(number, "wave")
    (x, y), (right, top) = line
    if right - x < 2 * width_of(words):
        return
    along, side, ha = (UP, -1, "right") if is_above else (DOWN, 1, "left")
    x, y = x + along * (right - x), y + along * (top - y)
    sheet.write(x + 5 * side, y + 7.5 * side, words, ha=ha, color=sheet.look.quiet)


def _below(share: float) -> float:
    """Pixels from 100 % down to a share."""
    return HIGH * (1 - share) / (1 - LOW)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _read_off(sheet: Sheet, top: float, unit: float, pieces: float) -> None:
    """A line down to what is taken, and a dot with its number for each kind.

    The number of the kind that is taken stands above its line, the other below.
    """
    x, ink = LEFT + pieces * unit, sheet.look.ink
    sheet.line((x, top), (x, top + HIGH + 6), color=ink, linewidth=1.2)
    for name in IN_WAVES:
        share = full(pieces, KINDS[name].room)
        y, words = top + _below(share), f"{name} {_percent(share)}"
        style = {"color": _tone(name).face, "markeredgecolor": ink, "markersize": 7}
        sheet.axes.plot([x], [y], "o", markeredgewidth=1.6, zorder=5, **style)
        if name == chosen(pieces):
            sheet.write(x - 9, y - 7, words, ha="right")
        else:
            sheet.write(x + 9, y + 9, words)


def _draw_batches(sheet: Sheet, batches: Mapping[str, float], unit: float) -> float:
    """Their names above a sign, some a row higher; where the field begins."""
    last, rows = [-math.inf, -math.inf], []
    for name, pieces in sorted(batches.items(), key=lambda item: item[1]):
        x, half = LEFT + pieces * unit, width_of(name) / 2
        row = 0 if x - half > last[0] + 8 else 1
        last[row] = x + half
        rows.append((name, x, row))
    y = 34.0 + ROW * any(row for *_, row in rows)
    for name, x, row in rows:
        sheet.write(x, y - ROW * row, name, ha="center")
        sheet.line((x, y - ROW * row + 8), (x, y + 12))
        sheet.axes.plot([x], [y + 13], "v", color=sheet.look.ink, markersize=5)
    return y + 12 if rows else 20.0


def _draw_choices(sheet: Sheet, y: float, unit: float, most: int) -> None:
    """A strip below the field: what is taken from where to where."""
    middles = [(n + 0.5) / STEPS for n in range(most * STEPS)]
    x = LEFT
    sheet.write(LEFT - 8, y + STRIP / 2, "taken", ha="right", color=sheet.look.quiet)
    for name, run in groupby(middles, chosen):
        width = len(list(run)) / STEPS * unit
        word = name if width > width_of(name) + 4 else ""
        sheet.cells(x, y, [width], STRIP, [_tone(name)], [word])
        x += width


def _has_room(unit: float, most: int) -> bool:
    """For the words of each reason, below where it holds."""
    return all(
        (end - start) * unit > max(map(width_of, words)) + 8
        for words, (start, end) in zip(
            REASONS.values(), pairwise([*REASONS, most]), strict=True
        )
    )


def _draw_reasons(sheet: Sheet, y: float, unit: float) -> float:
    """Why: a bracket from where to where, words below it; where the words end.

    The last bracket is open: it is so with more pieces, too.
    """
    sheet.write(LEFT - 8, y + 18, "why", ha="right", color=sheet.look.quiet)
    ends = [*(LEFT + pieces * unit for pieces in REASONS), SPAN]
    for words, (left, right) in zip(REASONS.values(), pairwise(ends), strict=True):
        below = [(left + 3, y), (left + 3, y + 5), (right - 3, y + 5)]
        closed = [(right - 3, y)] * (right < SPAN)
        sheet.line(*below, *closed, color=sheet.look.ink)
        for row, said in enumerate(words):
            at = (left + right) / 2, y + 18 + ROW * row
            sheet.write(*at, said, ha="center")
    return y + 18 + ROW * (max(map(len, REASONS.values())) - 1)
