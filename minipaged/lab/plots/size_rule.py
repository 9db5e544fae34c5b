"""Lab: which sizes `decode_sizes` takes, by how much work a multiprocessor has."""

import math
from collections.abc import Collection, Mapping
from itertools import groupby, pairwise
from typing import NamedTuple

from minipaged.draw.letters import counted
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import KEPT, Tone, free, strong
from minipaged.lab.measure.launches import POSITION
from minipaged.lab.plots.render import Figure, render

STEPS, ENDS = 100, 8  # within one piece; pieces, up to which the axis goes
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
    0.0: f"few: split, until up to {KINDS['small'].room} are on each",
    LEAST: f"all run at once: {MOST} ones have more under way",
    KINDS[FIRST].room: f"{FIRST} ones need two waves",
    KINDS[LAST].room: "both run in several waves: the emptier waves lose",
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
) -> Figure:
    """What is taken, by the pieces on each multiprocessor, and why; then examples.

    For even contexts on an H100 or H200, with 16 query heads for each KV head at most,
    of 128 numbers.

    batches: so many pieces on each; marked above. examples: of these batches, which
    have LEAST pieces or more, waves are drawn: of the kind that is taken, and of the
    other.
    """
    picture = Picture(title)
    lane = picture.lane("taken")
    middles = [(n + 0.5) / STEPS for n in range(ENDS * STEPS)]
    start = 0.0
    for name, run in groupby(middles, chosen):
        stop = start + len([*run]) / STEPS
        lane.bar(start, stop, _tone(name), name)
        start = stop
    last = -math.inf
    for name, pieces in sorted(batches.items(), key=lambda item: item[1]):
        is_below = pieces - last < 1
        lane.point(pieces, name, is_below)
        last = last if is_below else pieces
    words = "pieces (sequences × KV heads) on each multiprocessor"
    picture.axis(words, highest=ENDS, is_bare=True)
    pairs = zip(REASONS.values(), pairwise([*REASONS, ENDS]), strict=True)
    reasons = [Cell(words, free(), end - start) for words, (start, end) in pairs]
    picture.row("why", "", reasons, height=54.0)
    if examples:
        panel = Picture()
        for name in examples:
            _add_example(panel, name, batches[name])
        panel.legend((KEPT, "places of a wave that stay empty"))
        picture.beside(panel)
    return render(picture.scene())


def _tone(name: str) -> Tone:
    return strong(COLOURS[name])


def _add_example(panel: Picture, batch: str, pieces: float) -> None:
    """The waves of both kinds, and what decides.

    If each kind needs but one wave, that is what is under way; if not, how full they
    are. What is taken is heavy, and says so.
    """
    is_one = pieces <= min(KINDS[name].room for name in IN_WAVES)
    words = f"{_number(pieces)} pieces on each multiprocessor"
    panel.headline(batch, words + (ALL_AT_ONCE if is_one else IN_TURNS))
    for name in IN_WAVES:
        room, is_taken = KINDS[name].room, name == chosen(pieces)
        found, blocks = waves(pieces, room), []
        for running in found:
            words = f"{_number(running)} of {room}"
            is_inside = running > 0.4 * room
            used = Cell(words if is_inside else "", _tone(name), running)
            rest = Cell("" if is_inside else words, KEPT, room - running)
            blocks.append([used, rest] if running < room else [used])
        verdict = f"{pieces * KINDS[name].kib:.0f} KiB under way"
        if not is_one:
            share = 100 * full(pieces, room)
            verdict = f"{counted(len(found), 'wave')}, {share:.0f} % full"
        options = {"gap": 3.0, "is_bold": is_taken, "is_heavy": is_taken}
        panel.blocks(name, "", blocks, aside=verdict + ": taken" * is_taken, **options)


def _number(pieces: float) -> str:
    return f"{round(pieces, 2):g}"
