"""Lab: the turns of a rung: how long they are, and when the large memory is busy."""

from collections.abc import Sequence
from itertools import groupby

from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Picture
from minipaged.draw.tones import KEPT, strong
from minipaged.lab.measure.rung_tables import Turn
from minipaged.lab.plots.render import Figure, render

LEAST = 0.006  # of the longest row: what the memory does is never invisible


def plot_turns(turns: Sequence[Turn], title: str) -> Figure:
    """A heading for each batch; below it a row for each rung, all on one clock.

    A row has as many turns as give a program the positions of the widest tile: so its
    end says when they are there. In each turn, the large memory is busy for as long as
    all bytes of the turn take at the read ceiling. That part is drawn first, wherever
    it lies in the turn.

    turns: those of a batch one after the other, as `turns_of` gives them.
    """
    picture, widest = Picture(title), max(turn.tile for turn in turns)
    longest = max(-(-widest // turn.tile) * turn.us for turn in turns)
    for batch, group in groupby(turns, lambda turn: turn.batch):
        rows = list(group)
        more = rows[-1].nbytes / rows[0].nbytes
        longer = rows[-1].us / rows[0].us
        said = f"{more:g} times the bytes in {longer:.1f} times the time"
        programs = (
            f"{counted(rows[0].programs, 'program')}; in a turn, each gets a tile"
        )
        colour = GOOD if longer < more else BAD
        picture.headline(batch, programs, said if rows[1:] else "", colour)
        picture.heads("turns", "of the ceiling")
        for turn in rows:
            _draw_row(picture, turn, -(-widest // turn.tile), LEAST * longest)
    picture.axis(f"µs until each program has got {widest} positions")
    signs = (strong(0), "what the bytes need at the read ceiling")
    picture.legend(signs, (KEPT, "the rest of a turn"))
    picture.text("the parts of a turn are in no order")
    return render(picture.scene())


def _draw_row(picture: Picture, turn: Turn, count: int, least: float) -> None:
    """So many turns, with lines where they begin and end: first what is read."""
    share = 100 * turn.reading / turn.us
    values = f"{count} of {turn.us:.2f} µs", f"{share:.1f} %"
    what = f"rung {turn.rung}", f"{turn.tile} positions"
    lane = picture.lane(*what, values=values)
    for number in range(count):
        start, end = number * turn.us, (number + 1) * turn.us
        middle = start + min(max(turn.reading, least), turn.us)
        lane.bar(start, middle, strong(0))
        lane.bar(middle, end, KEPT)
        lane.line(start, linewidth=1.2)
    lane.line(end, linewidth=1.2)
