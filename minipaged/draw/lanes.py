"""Lab: lanes over an axis: a lane is a row whose places are numbers.

For example:

    picture = Picture("B waits until A has ended")
    a, b = picture.lane("A"), picture.lane("B")
    a.bar(0, 3.5, strong("A"))
    b.bar(3.5, 5, strong("B"))
    b.point(1, "B comes")
    picture.axis("seconds")
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

from minipaged.draw.letters import LEAST, visible, width_of
from minipaged.draw.marks import RowFacts
from minipaged.draw.rows import Area, Band, Cell, Row, Span
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import Sign, Tone, others

AIR = 1.03  # from the outermost dots to the ends of a logarithmic axis
POINT, SAID = 9.0, 18.0  # pixels that a triangle takes; that it takes with words
HALF = 5.0  # pixels above and below a lane: half of what is between two
GOLDEN = 0.618034  # its multiples spread evenly between 0 and 1
FAINT = 0.45  # how opaque dots are that hide each other


class Lane(Row):
    """A row whose places are numbers, counted from its left end, or on an axis."""

    def __post_init__(self):
        super().__post_init__()
        self.axis: Axis | None = None
        self.room = 0.0
        self.are_many = False
        self.signs: list[tuple[float, Sign]] = []
        self.lines: list[tuple[float, str | None, float, float]] = []
        self.points: list[tuple[float, str, bool]] = []
        self.levels: list[tuple[float, dict]] = []

    def bar(
        self,
        start: float,
        stop: float,
        tone: Tone,
        word: str = "",
        high: float = 1.0,
        rim: str = "none",
    ) -> Span | None:
        """A box from number to number, behind those that are there; its span.

        None if it has no length. high, rim: as of a cell.
        """
        if stop <= start:
            return None
        if start > super().units:
            self.cells.append(Cell(wide=start - super().units))
        self.cells.append(Cell(word, tone, stop - start, rim, high=high))
        return self[-1]

    def dots(
        self, numbers: Sequence[float], sign: Sign, are_many: bool = False
    ) -> None:
        """A sign at each number. Up and down says nothing: dots give way to others.

        are_many: too many for that; they are spread over the lane's height, and faint.
        """
        self.signs += [(number, sign) for number in numbers]
        self.are_many = are_many

    def line(
        self,
        number: float,
        colour: str | None = None,
        linewidth: float = 2.0,
        reach: float = 4.0,
    ) -> None:
        """An upright line, so many pixels higher and lower than the lane."""
        self.lines.append((number, colour, linewidth, reach))

    def level(self, share: float, words: str = "", **style: str | float) -> None:
        """A line across, at a share of its height from below; words behind it."""
        self.levels.append((share, style))
        self.aside, self.aside_high = words, share

    def point(self, number: float, words: str = "", is_below: bool = False) -> None:
        """A triangle that points to the lane; words beside it, if they have room."""
        self.points.append((number, words, is_below))

    @property
    def numbers(self) -> list[float]:
        """Where dots, lines and triangles are."""
        return [number for number, *_ in (*self.signs, *self.lines, *self.points)]

    @property
    def units(self) -> float:
        """As long as the axis, if it says how long it is."""
        longest = self.axis.highest if self.axis else None
        return max(super().units, longest or 0.0, *self.numbers, 0.0)

    def _room_of_points(self, is_below: bool) -> float:
        heights = [
            SAID if words else POINT
            for _, words, below in self.points
            if below == is_below
        ]
        return max(heights, default=0.0)

    @property
    def above(self) -> float:
        """With room for triangles."""
        return super().above + self._room_of_points(False)

    @property
    def below(self) -> float:
        """With room for triangles."""
        return super().below + self._room_of_points(True)

    def reach(self, x: float, is_over: bool) -> float:
        """With room for triangles."""
        return max(super().reach(x, is_over), self._room_of_points(is_over))

    def place(self, number: float) -> float:
        """Where a number lies, once the picture is laid out."""
        if self.axis and self.axis.is_logarithmic:
            return self.axis.scale(self).x(number)
        return self.left + number * self.unit_now

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """Boxes, then what lies over them."""
        self.room = width - self.picture.room_left - self.picture.room_right
        super().draw(sheet, x, y, width)
        for number, colour, linewidth, reach in self.lines:
            ends = self.y - reach, self.y + self.height + reach
            style = {"color": colour or sheet.look.ink, "linewidth": linewidth}
            place = self.place(number)
            sheet.path([(place, end) for end in ends], cap="butt", layer=3, **style)
        for share, style in self.levels:
            y, end = self.y + self.height * (1 - share), self.place(super().units)
            sheet.line((self.left, y), (end, y), **style)
        self._draw_dots(sheet)
        for is_below in (False, True):
            self._draw_points(sheet, is_below, x + width)

    def _draw_dots(self, sheet: Sheet) -> None:
        places = [self.place(number) for number, _ in self.signs]
        apart = 1.45 * max((sign.size for _, sign in self.signs), default=0.0)
        offs = [(n * GOLDEN % 1 - 0.5) * self.height for n in range(len(places))]
        if not self.are_many:
            offs = spread(places, apart)
        alpha = FAINT if self.are_many else 1.0
        middle = self.y + self.height / 2
        for place, off, (_, sign) in zip(places, offs, self.signs, strict=True):
            style = {"color": sign.colour, "size": sign.size, "linewidth": 0}
            where = [(place, middle + off)]
            sheet.dots(where, sign.marker, alpha=alpha, layer=3, **style)

    def _draw_points(self, sheet: Sheet, is_below: bool, right: float) -> None:
        found = [(at, words) for at, words, below in self.points if below == is_below]
        found.sort()
        ends = [self.place(at) - 8 for at, _ in found[1:]]
        away = self._room_of_points(is_below) / 2
        y = self.y + self.height + away if is_below else self.y - away
        used = self.x  # as far as there are words or triangles
        for (at, words), end in zip(found, [*ends, right], strict=False):
            place, wide = self.place(at), width_of(words)
            marker = "^" if is_below else "v"
            sheet.dots([(place, y)], marker, size=5, linewidth=0, layer=3)
            if place + 10 + wide <= end:
                sheet.write(place + 10, y, words)
                used = place + 10 + wide
            elif place - 10 - wide >= used:
                sheet.write(place - 10, y, words, ha="right")
            used = max(used, place + 8)

    def _has_words(self) -> bool:
        return True

    def _draw_cell(self, sheet: Sheet, area: Area, cell: Cell, has_words: bool) -> None:
        """With its word if it has room; without one, soft boxes have a rim too."""
        least = width_of(visible(cell.word)[:2], LEAST)
        has_word = bool(cell.word) and least <= area.width - 4
        super()._draw_cell(sheet, area, cell, has_word)
        is_soft = cell.tone.line and cell.tone != others()
        if is_soft and not has_word and area.width > 6:
            high = cell.high * area.height
            low = area.y + area.height
            sheet.box(
                area.x + 0.5, low - high, area.width - 1, high, rim=cell.tone.line
            )

    @property
    def facts(self) -> RowFacts:
        """With the numbers of all that lies over it."""
        said = [(number, sign.marker) for number, sign in self.signs]
        said += [(number, "line") for number, *_ in self.lines]
        said += [(number, words) for number, words, _ in self.points]
        return replace(super().facts, signs=said)


class Axis(Band):
    """Numbers below lanes, and thin lines through them."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        words: str,
        highest: float | None,
        is_logarithmic: bool,
        marks: Mapping[float, str],
        is_bare: bool,
        ticks: Sequence[float] | None,
    ):
        self.lanes, self.words, self.highest = lanes, words, highest
        self.is_logarithmic, self.marks = is_logarithmic, marks
        self.is_bare, self.ticks = is_bare, ticks
        for lane in lanes:
            lane.axis = self

    def scale(self, lane: Lane) -> Scale:
        """From numbers to pixels."""
        if self.is_logarithmic:
            found = [n for each in self.lanes for n in each.numbers] + [*self.marks]
            limits = min(found) / AIR, max(found) * AIR
            return scale_of(found, lane.left, lane.room, True, limits)
        limits = 0.0, max(each.units for each in self.lanes)
        wide = limits[1] * lane.unit_now
        return scale_of(limits, lane.left, wide, False, limits)

    def measure(self, width: float) -> float:
        """Numbers, and what they are."""
        return 16.0 + 20.0 * bool(self.words)

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """Lines in all lanes; the words of marks replace numbers that are near."""
        scale, quiet = self.scale(self.lanes[0]), {"color": sheet.look.quiet}
        for number, words in self.marks.items():
            style = {"color": sheet.look.ink, "linewidth": 1.6, "layer": 1}
            self._draw_line(sheet, scale.x(number), **style)
            half = width_of(words, bold=True) / 2
            middle = min(max(scale.x(number), x + half), x + width - half)
            sheet.write(middle, y + 8, words, ha="center", weight="bold")
        for tick in scale.ticks if self.ticks is None else self.ticks:
            place, words = scale.x(tick), f"{tick:,g}"
            if not self.is_bare:
                self._draw_line(sheet, place, alpha=0.35, layer=0)
            half = width_of(words) / 2
            if all(
                abs(place - scale.x(mark)) > half + width_of(said, bold=True) / 2 + 6
                for mark, said in self.marks.items()
            ):
                middle = min(max(place, x + half), x + width - half)
                sheet.write(middle, y + 8, words, ha="center", **quiet)
        sheet.line((scale.left, y - 3), (scale.left + scale.width, y - 3), layer=1)
        left = min(scale.left, x + width - width_of(self.words))
        sheet.write(max(x, left), y + 28, self.words)

    def _draw_line(self, sheet: Sheet, x: float, **style: float | str) -> None:
        for lane in self.lanes:
            top, bottom = lane.y - HALF, lane.y + lane.height + HALF
            sheet.line((x, top), (x, bottom), **style)


def spread(places: Sequence[float], apart: float) -> list[float]:
    """How far each dot is moved up or down, so that all are at least so far apart.

    places: from left to right, in any order. Each dot is moved as little as those to
    its left allow.
    """
    moved: dict[int, float] = {}
    for at in sorted(range(len(places)), key=places.__getitem__):
        near = [
            (sqrt(apart**2 - (places[at] - places[other]) ** 2), off)
            for other, off in moved.items()
            if places[at] - places[other] < apart
        ]
        tries = [0.0, *(off + sign * way for way, off in near for sign in (-1, 1))]
        free = [y for y in tries if all(abs(y - off) > way - 1e-9 for way, off in near)]
        moved[at] = min(free, key=abs)
    return [moved[at] for at in range(len(places))]
