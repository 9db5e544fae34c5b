"""Lab: how boxes are filled: hue says whose it is, tone says since when."""

from collections.abc import Sequence
from typing import NamedTuple

from minipaged.draw.palette import (
    CACHED_RIM,
    HATCHING,
    KINDS_OF_SLOTS,
    SHARED_HATCH,
    hatching_on,
    line_colour,
    sequence_colour,
    soft_colour,
    theme,
)


class Tone(NamedTuple):
    """How a box is filled: its face, and the lines over it if it is hatched.

    A face that lets the page shine through cannot carry words: no ink stands out from
    it on light pages and on dark ones. It has a `line` that replaces it there. `bands`
    are the colours of several faces, one below the other; beside words they are low.
    """

    face: str
    hatching: str | None = None
    line: str | None = None
    pattern: str = SHARED_HATCH
    bands: tuple[str, ...] = ()


class Sign(NamedTuple):
    """A marker in a colour, as of `Sheet.dots`."""

    marker: str
    colour: str
    size: float = 5.4  # points


MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
NOTHING = Tone("none")
FOUND = Tone("found")  # in a legend: free, and its content can still be found
KEPT = Tone("kept")  # in a legend: holds nothing, hatched as by Sheet.empty
DASHED = {"rim": CACHED_RIM, "linewidth": 1.8, "linestyle": "--"}


def strong(name: str | int) -> Tone:
    """Of a sequence, in this step."""
    return Tone(sequence_colour(name))


def soft(name: str | int) -> Tone:
    """Of a sequence, there before; behind words it is a line without a face."""
    return Tone(soft_colour(name), line=line_colour(name))


def shared(tone: Tone, name: str | int) -> Tone:
    """The same tone, held by several."""
    is_strong = tone.face == sequence_colour(name)
    return tone._replace(hatching=HATCHING if is_strong else line_colour(name))


def held(
    names: Sequence[str], hatching: str | None = None, is_new: bool = False
) -> Tone:
    """Of each of these sequences, in bands; hatched, in ink, if they are several."""
    colour_of = sequence_colour if is_new else soft_colour
    lines = (hatching or theme().ink) if len(names) > 1 else None
    return Tone("none", lines, bands=tuple(map(colour_of, names)))


def behind_words(tone: Tone) -> Tone:
    """The same tone where words stand in it: a line if its face is not opaque."""
    return tone._replace(face="none") if tone.line else tone


def kind_of_slot(kind: str) -> Tone:
    """What a slot of contiguous memory is used for."""
    if kind == "external":
        return free()
    face, pattern, _ = KINDS_OF_SLOTS[kind]
    return Tone(face, hatching_on(face) if pattern else None, pattern=pattern)


def free() -> Tone:
    """Nobody's."""
    return Tone(theme().free)


def others() -> Tone:
    """Somebody's who is not drawn."""
    return Tone(theme().others, line=theme().rim)


def sign_of(series: int, size: float = 5.4) -> Sign:
    """A shape and a colour for each series."""
    return Sign(MARKERS[series % len(MARKERS)], line_colour(series), size)
