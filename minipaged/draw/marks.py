"""Lab: what a scene consists of: boxes, words, strokes, areas and dots.

Lengths are pixels of the page, y runs downwards. Colours are "#RRGGBB" or "#RRGGBBAA";
"none" is not drawn. Marks of a higher layer lie over those of a lower one, whatever
their order: boxes and arrows in layer 1, lines in 2, words in 3.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

Point = tuple[float, float]


class Box(NamedTuple):
    """A rectangle, its upper left corner at (x, y)."""

    x: float
    y: float
    width: float
    height: float
    face: str = "none"
    rim: str = "none"
    linewidth: float = 0.8  # of the rim, in points
    linestyle: str = "-"  # "-", "--", ":" or "-."
    pattern: str = ""  # lines over it: "//", "\\\\", "..", denser if longer
    hatching: str = "none"  # their colour
    alpha: float = 1.0
    rounding: float = 0.0  # the radius of its corners
    layer: float = 1

    def holds(self, x: float, y: float) -> bool:
        """Does the point lie within it?"""
        return (
            self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height
        )


class Words(NamedTuple):
    """Words of one line: "ha" and "va" say what of them is at (x, y)."""

    x: float
    y: float
    text: str
    size: float  # points
    color: str
    ha: str = "left"  # "left", "center" or "right"
    va: str = "center"  # "center", "top", "bottom"
    weight: str = "normal"  # or "bold"
    family: str = "sans"  # or "monospace"
    rotation: float = 0.0  # degrees, against the clock, about (x, y)
    layer: float = 3


class Stroke(NamedTuple):
    """A line through points; or, if curved, one curve by two handles between them."""

    points: tuple[Point, ...]
    color: str
    linewidth: float = 0.8  # points
    linestyle: str = "-"
    alpha: float = 1.0
    curved: bool = False  # the first four points are those of a Bézier curve
    head: float = 0.0  # of an arrow at its end: how large; 0: none
    cap: str = "square"  # how a line ends: "square", a little longer, or "butt"
    layer: float = 2


class Area(NamedTuple):
    """What lies within these corners."""

    corners: tuple[Point, ...]
    face: str = "none"
    alpha: float = 1.0
    pattern: str = ""
    hatching: str = "none"
    layer: float = 1


class Dots(NamedTuple):
    """The same marker at each of these places."""

    places: tuple[Point, ...]
    marker: str  # "o", "s", "^", "v", "D", "x", "P", "*"
    size: float  # points
    color: str
    rim: str = "none"  # "none": of the same colour
    linewidth: float = 1.0  # of the rim, or of an "x"
    alpha: float = 1.0
    layer: float = 2


class Item(NamedTuple):
    """What a part of a scene stands for, on a page that can point at it.

    keys: the first is its own. While it is pointed at, or has the keyboard's focus,
    all that lacks this key steps back. They are parts of CSS classes: letters, digits,
    "-" and "_".
    """

    keys: tuple[str, ...] = ()
    title: str = ""  # what it says to who points at it, or cannot see it
    role: str = "listitem"
    is_stop: bool = False  # the keyboard stops there
    is_hint: bool = False  # seen only while something with its key is pointed at


class Group(NamedTuple):
    """The marks of an item."""

    item: Item
    marks: list
    layer: float = 1


@dataclass
class RowFacts:
    """What a row of a picture says: for tests, and for readers who cannot see it."""

    label: str
    remark: str
    cells: list  # of `rows.Cell`
    values: list[str]
    aside: str
    # What lies over a lane, and at which number.
    signs: list[tuple[float, str]] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """The word in each cell."""
        return [cell.word for cell in self.cells]

    @property
    def tones(self) -> list:
        """The tone of each cell."""
        return [cell.tone for cell in self.cells]

    @property
    def widths(self) -> list[float]:
        """How wide each cell is."""
        return [cell.wide for cell in self.cells]

    @property
    def above(self) -> list[str]:
        """The words above each cell."""
        return [cell.above for cell in self.cells]

    @property
    def below(self) -> list[str]:
        """The words below each cell."""
        return [cell.below for cell in self.cells]


class Link(NamedTuple):
    """An arrow from a row's cell to another: the labels, and which cells."""

    source: str
    start: int
    target: str
    end: int
    colour: str | None
    words: str = ""
    is_false: bool = False  # it bears a cross


Mark = Box | Words | Stroke | Area | Dots | Group


@dataclass
class Scene:
    """A picture as data: a title, marks, and how much room they take.

    rows, links, curves: what the marks say, if a `Picture` or a `Chart` made them.
    """

    title: str
    width: float
    height: float = 0.0
    ground: str = "none"
    ink: str = "#000000"  # of the title
    plate: str = "none"  # behind the title
    marks: list[Mark] = field(default_factory=list)
    rows: list[RowFacts] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    curves: list = field(default_factory=list)

    def of(self, kind: type) -> list:
        """The marks of a kind, in the order in which they were made."""
        return [mark for mark in self.all if isinstance(mark, kind)]

    @property
    def all(self) -> list[Mark]:
        """All marks; before those of a group, the group."""
        return list(_flat(self.marks))

    @property
    def items(self) -> list[Item]:
        """What its parts stand for."""
        return [group.item for group in self.of(Group)]


def _flat(marks: Iterable[Mark]) -> Iterator[Mark]:
    for mark in marks:
        yield mark
        if isinstance(mark, Group):
            yield from _flat(mark.marks)
