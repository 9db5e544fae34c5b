"""Lab: which sizes a rule takes, by how much work a multiprocessor has."""

import math
from collections.abc import Mapping
from itertools import groupby

from matplotlib.figure import Figure

from minipaged.lab.plots.signs import SPAN, Sheet, width_of
from minipaged.lab.plots.tones import Tone, strong

LEFT, HIGH, STRIP = 56.0, 130.0, 26.0  # pixels: beside the field, it, and the choices
LOW = 0.3  # the field's lower edge, as a share
ROW = 17.0  # pixels from one row of names to the next
STEPS = 100  # within one piece
DASHES = ("-", (0, (5, 2)))


def _tone(kind: int) -> Tone:
    """Of a kind, by its number; of what is taken for few pieces, -1."""
    return strong(kind if kind >= 0 else 2)


def full(pieces: float, at_a_time: int) -> float:
    """How much of its room is used if programs run in waves of so many."""
    return pieces / (at_a_time * math.ceil(pieces / at_a_time))


def chosen(pieces: float, kinds: Mapping[str, int], least: float) -> str | None:
    """The kind whose waves are fuller, the first of equals; None below `least`."""
    if pieces < least:
        return None
    return max(kinds, key=lambda kind: full(pieces, kinds[kind]))


def plot_size_rule(
    kinds: Mapping[str, int],
    title: str,
    few: tuple[float, str],
    remarks: Mapping[str, str],
    batches: Mapping[str, float] | None = None,
    most: int = 12,
) -> Figure:
    """How full the waves are, by the pieces on each multiprocessor; and what is taken.

    kinds: how many programs of a kind a multiprocessor has room for. few: below so many
    pieces, this is taken, and no wave is asked. remarks: what the kinds are, for the
    legend. batches: so many pieces on each; marked above. most: where the axis ends.
    """
    sheet, (least, small) = Sheet(title), few
    unit = (SPAN - LEFT) / most
    quiet = {"color": sheet.look.quiet}
    sheet.write(0, 12, "waves filled", **quiet)
    top = _draw_batches(sheet, batches or {}, unit) + 12

    def height(share: float) -> float:
        return top + HIGH * (1 - share) / (1 - LOW)

    for share in (0.5, 0.75, 1.0):
        sheet.line((LEFT, height(share)), (SPAN, height(share)), alpha=0.35, zorder=0)
        sheet.write(LEFT - 8, height(share), f"{share:.0%}", ha="right", **quiet)
    for at, room in enumerate(kinds.values()):
        style = {"color": _tone(at).face, "linestyle": DASHES[at % 2]}
        for last in range(room, most + room, room):  # of a whole number of waves
            ends = max(least, last - room), min(most, last)
            if ends[0] < ends[1]:
                line = [(LEFT + x * unit, height(x / last)) for x in ends]
                sheet.line(*line, linewidth=2.2, zorder=3 - at, **style)
    y = top + HIGH + 6
    _draw_choices(sheet, y, (kinds, least, small), unit, most)
    y += STRIP + 12
    for pieces in range(most + 1):
        x = min(LEFT + pieces * unit, SPAN - width_of(str(pieces)) / 2)
        sheet.write(x, y, str(pieces), ha="center", **quiet)
    sheet.write(LEFT, y + 22, "pieces (sequences × KV heads) on each multiprocessor")
    y += 46
    for at, name in enumerate([small, *kinds]):
        sheet.legend(0, y, [(_tone(at - 1), name)])
        sheet.write(24 + 66, y, remarks[name], **quiet)
        y += 20
    sheet.finish(y - 10)
    return sheet.figure


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


def _draw_choices(
    sheet: Sheet,
    y: float,
    rule: tuple[Mapping[str, int], float, str],
    unit: float,
    most: int,
) -> None:
    """A strip below the field: what is taken from where to where."""
    kinds, least, small = rule
    middles = [(n + 0.5) / STEPS for n in range(most * STEPS)]
    x = LEFT
    sheet.write(LEFT - 8, y + STRIP / 2, "taken", ha="right", color=sheet.look.quiet)
    for kind, run in groupby(middles, lambda at: chosen(at, kinds, least)):
        width = len(list(run)) / STEPS * unit
        word, tone = kind or small, _tone(list(kinds).index(kind) if kind else -1)
        shown = word if width > width_of(word) + 4 else ""
        sheet.cells(x, y, [width], STRIP, [tone], [shown])
        x += width
