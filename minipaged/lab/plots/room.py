"""Lab: where a line of words has room beside a sign, in a field with other things."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.path import Path
from matplotlib.transforms import Bbox

HALF = 9.0  # pixels from the middle of a line of words to its edge
RIGHT, LOWER = (12.0, 26.0), (11.0, 24.0, -6.0)  # pixels from a sign to words beside it
BELOW, ABOVE = (22.0, 30.0, 38.0), -20.0  # and to words under it, or over it
STRUCK = 0.5  # how much a thin line through words is in the way
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
        best = min(self._beside(*place, wide, is_top), key=self._in_way)
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
