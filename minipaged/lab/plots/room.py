"""Lab: where a line of words has room beside a sign, in a field with other things."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from matplotlib.path import Path
from matplotlib.transforms import Bbox

HALF = 9.0  # pixels from the middle of a line of words to its edge
RIGHT, LOWER = (12.0, 26.0), (11.0, 24.0, -6.0)  # pixels from a sign to words beside it
BELOW, ABOVE = (22.0, 30.0, 38.0), -20.0  # and to words under it, or over it
STRUCK = 0.5  # how much a thin line through words is in the way
HIGH, SIGN = 13.0, 4.0  # pixels: of words; from the middle of a sign to its edge
SHARES = 0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8  # of a line, to the middle of its words
Place = tuple[float, float]


class Box(NamedTuple):
    """A part of the field."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def corners(self) -> tuple[Place, Place, Place, Place]:
        """From the upper left one downwards, and on around it."""
        left, top, right, bottom = self
        return (left, top), (left, bottom), (right, bottom), (right, top)


def line_of_words(x: float, y: float, wide: float) -> Box:
    """What they cover, about their middle."""
    return Box(x - wide / 2, y - HALF, x + wide / 2, y + HALF)


def around(place: Place, half: float) -> Box:
    """What a sign there covers."""
    x, y = place
    return Box(x - half, y - half, x + half, y + half)


class Slanted(NamedTuple):
    """Words along a line."""

    middle: Place  # of their edge beside the line
    angle: float  # of the line, upwards
    half: float  # of their width
    is_above: bool

    def num_hidden(self, places: Sequence[Place]) -> int:
        """How many signs at these places lie behind the words."""
        (x0, y0), cos, sin = self.middle, math.cos(self.angle), math.sin(self.angle)
        side, found = -1 if self.is_above else 1, 0
        for x, y in places:
            along = (x - x0) * cos - (y - y0) * sin
            away = side * ((x - x0) * sin + (y - y0) * cos)
            found += abs(along) < self.half + SIGN and -SIGN < away < HIGH + SIGN
        return found

    def struck(self, xs: Sequence[float], ys: Sequence[float]) -> float:
        """How much thin lines at these places, upright and level, are in the way."""
        (x, y), cos, sin = self.middle, math.cos(self.angle), math.sin(self.angle)
        high = -HIGH if self.is_above else HIGH
        wide = self.half * cos, self.half * sin
        left, right = sorted((x, x + high * sin))
        top, bottom = sorted((y, y + high * cos))
        found = sum(left - wide[0] < at < right + wide[0] for at in xs)
        found += sum(top - wide[1] < at < bottom + wide[1] for at in ys)
        return STRUCK * found


def along_line(start: Place, end: Place, wide: float, gap: float) -> list[Slanted]:
    """Where words so wide may stand along a rising line; in its middle first.

    gap: pixels from it to the words, which stand above it if that is negative.
    """
    (x0, y0), (x1, y1) = start, end
    angle, long = math.atan2(y0 - y1, x1 - x0), math.dist(start, end)
    right, down = gap * math.sin(angle), gap * math.cos(angle)
    shares = [n for n in SHARES if wide / 2 <= min(n, 1 - n) * long] or SHARES[:1]
    places = [(x0 + n * (x1 - x0) + right, y0 + n * (y1 - y0) + down) for n in shares]
    return [Slanted(place, angle, wide / 2, gap < 0) for place in places]


class Room:
    """Words give way to what is taken, and if they can to thin level `lines`."""

    def __init__(self, field: Box, lines: Sequence[float] = ()):
        self.field, self.lines, self.taken = field, lines, list[Path]()

    def take(self, *points: Place) -> None:
        """A line from point to point."""
        self.taken.append(Path(points))

    def take_box(self, box: Box) -> None:
        """All within it."""
        self.taken.append(Path([*box.corners, box.corners[0]], closed=True))

    def take_beside(self, place: Place, wide: float, is_top: bool = False) -> Box:
        """The best part for words so wide beside a sign; taken from now on.

        is_top: nothing leads upwards from there, so above is best.
        """
        return self.take_best(self._beside(*place, wide, is_top))

    def take_best(self, boxes: Iterable[Box]) -> Box:
        """The first of these parts that least is in the way of; taken from now on."""
        best = min(boxes, key=self._in_way)
        self.take_box(best)
        return best

    def _beside(self, x: float, y: float, wide: float, is_top: bool) -> Iterator[Box]:
        """The best first."""
        shifts = [shift * wide for shift in (-1 / 2, -1 / 6, -5 / 6, 0, -1)]
        above = [(shift, ABOVE) for shift in shifts]
        places = [(right, lower) for right in RIGHT for lower in LOWER]
        places += [(shift, below) for below in BELOW for shift in shifts]
        for right, below in [*above, *places] if is_top else [*places, *above]:
            left = max(self.field.left, min(x + right, self.field.right - wide))
            yield line_of_words(left + wide / 2, y + below, wide)

    def _in_way(self, box: Box) -> float:
        """How much of what is taken meets it; outside of the field, everything."""
        area = Bbox([box[:2], box[2:]])
        number = sum(path.intersects_bbox(area) for path in self.taken)
        if box.top < self.field.top or box.bottom > self.field.bottom:
            number += len(self.taken)
        is_struck = any(box.top + 2 < y < box.bottom - 2 for y in self.lines)
        return number + STRUCK * is_struck
