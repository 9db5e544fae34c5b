"""Lab: the turns of a rung: how long they are, and when the large memory is busy."""

from collections.abc import Sequence
from itertools import groupby

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT, behind_words, soft, strong
from minipaged.lab.measure.rung_tables import Turn
from minipaged.lab.plots.render import render

STRIP, WIDE = 86.0, 60.0  # pixels beside the strip of a tile, and of the widest one
LEFT, RIGHT = 162.0, 148.0  # pixels beside the bars, for words
HEAD, HIGH, ROW, BETWEEN = 32.0, 26.0, 46.0, 16.0  # of a bar; to the next; and so on
OVER = 4.0  # pixels that the ends of turns stand out from a bar
LEAST = 1.5  # pixels: what the memory does is never invisible


def plot_turns(turns: Sequence[Turn], title: str) -> Figure:
    """A heading for each batch; below it a row for each rung, all on one clock.

    A row has as many turns as give a program the positions of the widest tile: so its
    end says when they are there. In each turn, the large memory is busy for as long as
    all bytes of the turn take at the read ceiling. That part is drawn first, wherever
    it lies in the turn.

    turns: those of a batch one after the other, as `turns_of` gives them.
    """
    sheet, y = Sheet(title), 0.0
    widest, narrowest = (most(turn.tile for turn in turns) for most in (max, min))
    longest = max(_count(turn, widest) * turn.us for turn in turns)
    clock = scale_of([0], LEFT, SPAN - LEFT - RIGHT, False, (0, longest))
    for batch, group in groupby(turns, lambda turn: turn.batch):
        rows = list(group)
        _draw_head(sheet, y + 8, batch, rows)
        y += HEAD
        for turn in rows:
            _draw_tile(sheet, y, turn.tile // narrowest, WIDE * narrowest / widest)
            _draw_row(sheet, clock, y, turn, _count(turn, widest))
            y += ROW
        y += BETWEEN
    y = _draw_clock(sheet, clock, y - BETWEEN, widest)
    signs = [(strong(0), "what the bytes need at the read ceiling")]
    x = sheet.legend(0, y + 26, [*signs, (KEPT, "the rest of a turn")])
    sheet.write(x, y + 26, "parts of a turn, in no order", color=sheet.look.quiet)
    return render(sheet.finish(y + 36))


def _count(turn: Turn, widest: int) -> int:
    """Turns that give a program as many positions as the widest tile has."""
    return -(-widest // turn.tile)


def _draw_head(sheet: Sheet, y: float, batch: str, rows: Sequence[Turn]) -> None:
    """The batch; at the right, how much more the last rung gets, and how much later."""
    first, last = rows[0], rows[-1]
    more, longer = last.nbytes / first.nbytes, last.us / first.us
    said = f"{more:g} times the bytes in {longer:.1f} times the time"
    programs = f"{counted(first.programs, 'program')}; in a turn, each gets a tile"
    colour = GOOD if longer < more else BAD
    sheet.headline(y, batch, programs, said if len(rows) > 1 else "", colour)


def _draw_tile(sheet: Sheet, y: float, cells: int, width: float) -> None:
    """How wide it is; the narrowest tile is one cell."""
    tones = [behind_words(soft(0))] * cells
    sheet.cells(STRIP, y + 4, [width] * cells, HIGH - 8, tones)


def _draw_row(sheet: Sheet, clock: Scale, y: float, turn: Turn, count: int) -> None:
    """So many turns, with lines where they begin and end; their time in words."""
    sheet.label(y, HIGH, f"rung {turn.rung}", f"{turn.tile} positions")
    for number in range(count + 1):
        x = clock.x(number * turn.us)
        ink = {"color": sheet.look.ink, "linewidth": 1.6, "layer": 0.5}
        sheet.line((x, y - OVER), (x, y + HIGH + OVER), **ink)
    for number in range(count):
        _draw_turn(sheet, clock, y, turn, number * turn.us)
    x, middle = clock.x(count * turn.us) + 12, y + HIGH / 2
    said = f"{counted(count, 'turn')} of {turn.us:.2f} µs"
    sheet.write(x, middle - 8, said, PART)
    said = f"{100 * turn.reading / turn.us:.1f} % of the ceiling"
    sheet.write(x, middle + 9, said, color=sheet.look.quiet)


def _draw_turn(sheet: Sheet, clock: Scale, y: float, turn: Turn, start: float) -> None:
    """First what the memory reads, then nothing."""
    ends = start, start + min(turn.reading, turn.us), start + turn.us
    left, middle, right = map(clock.x, ends)
    middle = max(middle, left + LEAST)
    sheet.empty(middle, y, right - middle, HIGH)
    sheet.box(left, y, right - left, HIGH, rim=sheet.look.rim)
    sheet.box(left, y, middle - left, HIGH, strong(0))


def _draw_clock(sheet: Sheet, clock: Scale, y: float, widest: int) -> float:
    """A line with ticks below all rows; where its words end."""
    quiet, end = {"color": sheet.look.quiet}, clock.x(clock.highest)
    sheet.line((LEFT, y), (end, y))
    for tick in clock.ticks:
        x = clock.x(tick)
        sheet.line((x, y), (x, y + 5))
        sheet.write(x, y + 14, f"{tick:g}", ha="center", **quiet)
    said = f"µs until each program has got {widest} positions"
    sheet.write(LEFT, y + 32, said)
    return y + 32
