"""Lab: how boxes are filled: hue says whose it is, tone says since when."""

from typing import NamedTuple

from minipaged.lab.plots.palette import (
    CACHED_RIM,
    HATCHING,
    line_colour,
    sequence_colour,
    soft_colour,
    theme,
)


class Tone(NamedTuple):
    """How a box is filled: its face, and the lines over it if it is hatched."""

    face: str
    hatching: str | None = None


NOTHING = Tone("none")
FOUND = Tone("found")  # in a legend: free, and its content can still be found
DASHED = {"rim": CACHED_RIM, "linewidth": 1.8, "linestyle": "--"}


def strong(name: str | int) -> Tone:
    """Of a sequence, in this step."""
    return Tone(sequence_colour(name))


def soft(name: str | int) -> Tone:
    """Of a sequence, there before."""
    return Tone(soft_colour(name))


def shared(tone: Tone, name: str | int) -> Tone:
    """The same tone, held by several."""
    is_strong = tone.face == sequence_colour(name)
    return Tone(tone.face, HATCHING if is_strong else line_colour(name))


def free() -> Tone:
    """Nobody's."""
    return Tone(theme().free)


def others() -> Tone:
    """Somebody's who is not drawn."""
    return Tone(theme().others)
