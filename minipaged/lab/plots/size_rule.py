"""Lab: which sizes `decode_sizes` takes, by how much work a multiprocessor has."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT, Tone, strong
from minipaged.lab.measure.launches import POSITION
from minipaged.lab.plots.render import render

LEFT, STRIP = 72.0, 26.0  # pixels: beside the band, and its height
ROW = 17.0  # pixels from one row of words to the next
PLACE, VERDICT = 44.0, 220.0  # of an example: at most for a place; for words at right
WAVE, BETWEEN, APART = 24.0, 3.0, 8.0  # a wave's height; to the next; between kinds
STEPS = 100  # within one piece
ALL_AT_ONCE = ", all at once: which kind has more under way?"
IN_TURNS = ": whose waves are fuller?"
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


KINDS = {
    "small": Kind(32, 1, 5, tiles_ahead=2, room=4),
    "medium": Kind(64, 2, 4, tiles_ahead=1, room=4),
    "large": Kind(128, 4, 2, tiles_ahead=1, room=3),
}
IN_WAVES = ("large", "medium")  # of two whose waves are equally full, the first
FIRST, LAST = sorted(IN_WAVES, key=lambda name: KINDS[name].room)  # that need 2 waves
MOST = max(IN_WAVES, key=lambda name: KINDS[name].kib)
REASONS = {  # why it is what is taken, from so many pieces on
    0.0: ("few: split, until up", f"to {KINDS['small'].room} are on each"),
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


def waves(pieces: float, at_a_time: int) -> list[float]:
    """How many run in each wave."""
    return [
        min(at_a_time, pieces - at_a_time * before)
        for before in range(math.ceil(pieces / at_a_time))
    ]


def plot_size_rule(
    batches: Mapping[str, float],
    title: str,
    examples: Collection[str] = (),
    most: int = 8,
) -> Figure:
    """What is taken, by the pieces on each multiprocessor, and why; then examples.

    For even contexts on an H100 or H200, with 16 query heads for each KV head at most,
    of 128 numbers.

    batches: so many pieces on each; marked above. examples: of these batches, which
    have LEAST pieces or more, waves are drawn: of the kind that is taken, and of the
    other. most: where the axis ends; on a long one, reasons have no room.
    """
    sheet = Sheet(title)
    unit, quiet = (SPAN - LEFT) / most, {"color": sheet.look.quiet}
    y = _draw_batches(sheet, batches, unit) + 10
    _draw_choices(sheet, y, unit, most)
    y += STRIP + 12
    for pieces in range(most + 1):
        x = min(LEFT + pieces * unit, SPAN - width_of(str(pieces)) / 2)
        sheet.write(x, y, str(pieces), ha="center", **quiet)
    if unit > 60:  # a border between two numbers
        sheet.write(LEFT + LEAST * unit, y, f"{LEAST:g}", ha="center", **quiet)
    sheet.write(LEFT, y + 22, "pieces (sequences × KV heads) on each multiprocessor")
    y += 46
    if _has_room(unit, most):
        y = _draw_reasons(sheet, y - 6, unit) + 28
    else:  # nor has each kind's name
        sheet.legend(LEFT, y, [(_tone(name), name) for name in KINDS])
        y += 26
    y = _draw_examples(sheet, y, {name: batches[name] for name in examples})
    return render(sheet.finish(y - 10))


def _tone(name: str) -> Tone:
    return strong(COLOURS[name])


def _draw_batches(sheet: Sheet, batches: Mapping[str, float], unit: float) -> float:
    """Their names above a sign, some a row higher; where the band begins."""
    last, rows = [-math.inf, -math.inf], []
    for name, pieces in sorted(batches.items(), key=lambda item: item[1]):
        x, half = LEFT + pieces * unit, width_of(name) / 2
        row = 0 if x - half > last[0] + 8 else 1
        last[row] = x + half
        rows.append((name, x, row))
    y = 8.0 + ROW * any(row for *_, row in rows)
    for name, x, row in rows:
        sheet.write(x, y - ROW * row, name, ha="center")
        sheet.line((x, y - ROW * row + 8), (x, y + 12))
        sheet.dots([(x, y + 13)], "v", size=5)
    return y + 12 if rows else 0.0


def _draw_choices(sheet: Sheet, y: float, unit: float, most: int) -> None:
    """A band: what is taken from where to where."""
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


def _draw_examples(sheet: Sheet, y: float, examples: Mapping[str, float]) -> float:
    """Below each other, on one scale; where the last one ends."""
    widest = max((_widest(pieces) for pieces in examples.values()), default=1)
    place = min(PLACE, (SPAN - LEFT - VERDICT) / widest)
    for name, pieces in examples.items():
        y = _draw_example(sheet, y + 16, name, pieces, place)
    if examples:
        sheet.legend(LEFT, y + 8, [(KEPT, "places of a wave that stay empty")])
        y += 26
    return y


def _widest(pieces: float) -> int:
    """Places of all waves, of the kind that has more of them."""
    rooms = [KINDS[name].room for name in IN_WAVES]
    return max(room * len(waves(pieces, room)) for room in rooms)


def _draw_example(
    sheet: Sheet, y: float, batch: str, pieces: float, place: float
) -> float:
    """The waves of both kinds, and what decides; where the next example begins.

    If each kind needs but one wave, that is what is under way; if not, how full they
    are. What is taken is heavy, and says so.
    """
    is_one = pieces <= min(KINDS[name].room for name in IN_WAVES)
    words = f"{_number(pieces)} pieces on each multiprocessor"
    words += ALL_AT_ONCE if is_one else IN_TURNS
    sheet.write(0, y, batch, PART, weight="bold")
    sheet.write(LEFT, y, words, color=sheet.look.quiet)
    y += 14
    for name in IN_WAVES:
        kind = KINDS[name]
        found = waves(pieces, kind.room)
        verdict = f"{pieces * kind.kib:.0f} KiB under way"
        if not is_one:
            share = 100 * full(pieces, kind.room)
            verdict = f"{counted(len(found), 'wave')}, {share:.0f} % full"
        style = {}
        if name == chosen(pieces):
            verdict, style = f"{verdict}: taken", {"weight": "bold"}
        sheet.write(0, y + WAVE / 2, name, **style)
        _draw_waves(sheet, y, name, found, place)
        x = LEFT + _widest(pieces) * place + 14
        sheet.write(x, y + WAVE / 2, verdict, **style)
        y += WAVE + APART
    return y


def _draw_waves(
    sheet: Sheet, y: float, name: str, found: Sequence[float], place: float
) -> None:
    """Side by side, each filled as far as it is used; words where they have room."""
    x, room = LEFT, KINDS[name].room
    width = room * place - BETWEEN
    for running in found:
        used, words = width * running / room, f"{_number(running)} of {room}"
        is_inside = width_of(words) < used - 4
        sheet.empty(x + used, y, width - used, WAVE, "" if is_inside else words)
        sheet.box(x, y, used, WAVE, _tone(name))
        if is_inside:
            sheet.word(x, y, used, WAVE, words, _tone(name))
        sheet.box(x, y, width, WAVE, rim=sheet.look.rim)
        x += room * place


def _number(pieces: float) -> str:
    return f"{round(pieces, 2):g}"
