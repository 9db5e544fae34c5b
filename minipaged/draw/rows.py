"""Lab: a row of cells: what it is, its boxes with words, and values at its right."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from minipaged.draw.letters import PART, SMALL, fit, visible, width_of
from minipaged.draw.marks import Item, RowFacts
from minipaged.draw.palette import ink_on
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import (
    DASHED,
    FOUND,
    KEPT,
    NOTHING,
    Tone,
    behind_words,
    free,
    others,
)

if TYPE_CHECKING:
    from minipaged.draw.picture import Picture

HEIGHT = 26.0  # pixels of a cell
TWO_LINES = 28.0  # pixels that a label with a remark needs
CAPTION, BRACKET = 20.0, 30.0  # pixels that words above or below cells take
ALONE = 8.0  # pixels of a bracket without words
SMALLER = 7.0  # points: of words below or above narrow cells
STRIP = 12.0  # pixels of a tone's bands, if words stand below them
UPRIGHT = 90.0  # pixels that upright words take, at most
AIR = 14.0  # pixels between words and what is beside them
PLATE = 6.0  # pixels of a label's tone at its left and right


class Cell(NamedTuple):
    """A box of a row: its word, its tone, and how many units wide it is.

    tone: `KEPT` is hatched, `FOUND` has a dashed rim. rim: the colour of a frame, or
    "dashed". high: which part of the row's height it has, from below. short: what
    stands in it instead of the word, if there is no room for that. ink: the colour of
    the words above and below it, which are bold then.
    """

    word: str = ""
    tone: Tone = NOTHING
    wide: float = 1.0
    rim: str = "none"
    above: str = ""
    below: str = ""
    high: float = 1.0
    short: str = ""
    ink: str = ""


class Span(NamedTuple):
    """Cells `start` to `stop - 1` of a row."""

    row: "Row"
    start: int
    stop: int


class Area(NamedTuple):
    """Where something lies, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """From the left, in pixels."""
        return self.x + self.width / 2


class Band:
    """What takes the whole width of a picture; the next band lies below it."""

    apart = 10.0  # pixels to the next band, if no links lead there

    def measure(self, width: float) -> float:
        """How high it is, if it is so wide."""
        raise NotImplementedError

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """Draw it, its upper left corner at (x, y)."""
        raise NotImplementedError


@dataclass(eq=False)
class Row(Band):
    """Cells side by side, what they are at their left, values at their right.

    `row[2]` and `row[2:5]` say which cells a link, a bracket or a frame is for.
    """

    cells: Sequence[Cell]
    picture: "Picture"
    _: KW_ONLY
    label: str = ""
    remark: str = ""  # quiet, below the label
    tone: Tone | None = None  # behind the label
    values: Sequence[str] = ()  # at the right edge, each below its head
    aside: str = ""  # words behind the last cell
    aside_high: float = 0.5  # where they stand, in parts of the height from below
    aside_colour: str | None = None
    height: float = HEIGHT  # pixels, as those that follow
    gap: float = 0.0  # between cells, or blocks
    apart: float = Band.apart  # to the next row
    unit: float | None = None  # of a unit; by default the same for all rows
    start: float = 0.0  # units before the first cell
    fills: bool = False  # it takes all the room
    is_bold: bool = False  # of the label
    is_heavy: bool = False  # the values and the words behind the cells are bold, too
    is_upright: bool = False  # of words above cells
    rim: str = "none"  # the colour of a frame around all cells, or around each block
    starts: Sequence[int] = ()  # the first cell of each block
    handle: Item | None = None  # what the label stands for, on a page
    items: Sequence[Item] = ()  # what the cells, or blocks, stand for
    part: Item | None = None  # the list that they are in, also of other rows

    def __post_init__(self):
        self.cells = list(self.cells)
        self.brackets: list[tuple[Span, str, str | None, bool]] = []
        # Of each tone that was drawn: was it a line without a face, everywhere?
        self.is_line: dict[Tone, bool] = {}
        self.x = self.y = self.left = 0.0  # of the label, of the cells

    def __getitem__(self, at: int | slice) -> Span:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self.cells))
        else:
            start = range(len(self.cells))[at]
            stop = start + 1
        if stop <= start:
            raise IndexError(f"no cells from {start} to {stop}")
        return Span(self, start, stop)

    def block(self, at: int) -> Span:
        """The cells of a block, if it is a row of `Picture.blocks`."""
        stops = [*self.starts[1:], len(self.cells)]
        return Span(self, self.starts[at], stops[at])

    @property
    def _starts(self) -> Sequence[int]:
        return self.starts or range(len(self.cells))

    @property
    def gaps(self) -> float:
        """Pixels between all its blocks, or cells."""
        return self.gap * (len(self._starts) - 1)

    @property
    def units(self) -> float:
        """How many units wide it is."""
        return self.start + sum(cell.wide for cell in self.cells)

    @property
    def above(self) -> float:
        """Pixels that words above its cells take."""
        return self._height_of_words(True)

    @property
    def below(self) -> float:
        """Pixels that words below its cells take."""
        return self._height_of_words(False)

    def reach(self, x: float, is_over: bool) -> float:
        """How far words keep an arrow away from the cells at x: 0 if none are there."""
        said = [b[:2] for b in self.brackets if b[3] == is_over]
        for span, words in [*self._captions(is_over), *said]:
            area = self.area(span.start, span.stop)
            if 2 * abs(area.middle - x) < max(area.width, width_of(words) + 8):
                return self.above if is_over else self.below
        return 0.0

    def _captions(self, is_over: bool) -> list[tuple[Span, str]]:
        """The words above or below single cells."""
        words = [cell.above if is_over else cell.below for cell in self.cells]
        return [(self[at], said) for at, said in enumerate(words) if said]

    def _alone(self, is_over: bool) -> list[tuple[Span, str]]:
        """The words above or below cells that have no bracket."""
        return [b[:2] for b in self.brackets if b[2:] == ("none", is_over)]

    def _height_of_words(self, is_over: bool) -> float:
        brackets = [
            BRACKET if words else ALONE
            for _, words, colour, over in self.brackets
            if over == is_over and colour != "none"
        ]
        return self._height_of_captions(is_over) + max(brackets, default=0.0)

    def _height_of_captions(self, is_over: bool) -> float:
        """Of words of cells, and of words alone: between the cells and brackets."""
        captions, is_alone = self._captions(is_over), bool(self._alone(is_over))
        if is_over and self.is_upright:
            widths = [width_of(*fit(words, UPRIGHT)) for _, words in captions]
            return max(widths, default=0.0) + 8 + CAPTION * is_alone
        return CAPTION * (bool(captions) + is_alone)

    def measure(self, width: float) -> float:
        """Cells, and the words above and below them; a remark takes a second line."""
        return self.above + max(self.height, TWO_LINES * bool(self.remark)) + self.below

    def area(self, start: int, stop: int) -> Area:
        """Where these cells lie; known once the picture is laid out."""
        wide = sum(cell.wide for cell in self.cells[start:stop])
        first, last = (bisect_right(self._starts, at) - 1 for at in (start, stop - 1))
        x = self.left + self._edges[start] * self.unit_now + self.gap * first
        across = wide * self.unit_now + self.gap * (last - first)
        return Area(x, self.y, across, self.height)

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """Draw it; from now on its cells have their places."""
        picture = self.picture
        extra = max(0.0, TWO_LINES * bool(self.remark) - self.height)
        self.y = y + self.above + extra / 2
        self.x, self.left = x, x + picture.room_left
        widths = (cell.wide for cell in self.cells)
        self._edges = list(accumulate(widths, initial=self.start))
        room = width - picture.room_left - picture.room_right
        self.unit_now = self.unit or picture.unit(width)
        if self.fills:
            self.unit_now = (room - self.gaps) / self.units
        with sheet.group(self.handle):
            self._say(sheet, x, width)
        with sheet.group(self.part):
            self._draw_cells(sheet, x + width)

    def _draw_cells(self, sheet: Sheet, right: float) -> None:
        has_words = self._has_words()
        for at in range(len(self.cells)):
            area = self.area(at, at + 1)
            with sheet.group(self._item(at)):
                self._draw_cell(sheet, area, self._shown(at), has_words)
                if self._is_pale(at):
                    self._draw_pale_rim(sheet, at)
                if self.cells[at].rim == "dashed":
                    self._draw_dashes(sheet, at)
        if self.rim != "none":
            blocks = map(self.block, range(len(self.starts)))
            for _, start, stop in blocks if self.starts else [self[:]]:
                area = self.area(start, stop)
                if self.cells[start].tone != FOUND and area.width > 4:
                    with sheet.group(self._item(start)):
                        sheet.box(*area, rim=self.rim)
        low = self.y + self.height + 13
        for is_over, y, away in ((True, self.y - 12, -CAPTION), (False, low, CAPTION)):
            captions, alone = self._captions(is_over), self._alone(is_over)
            if is_over and self.is_upright:
                self._draw_upright(sheet)
            else:
                self._draw_captions(sheet, captions, y, right)
            self._draw_captions(sheet, alone, y + away * bool(captions), right)
        for span, words, colour, is_over in self.brackets:
            if colour != "none":
                self._draw_bracket(sheet, span, words, colour, is_over)

    def edge(self, at: int) -> float:
        """Where a cell's block begins, in pixels, once the picture is laid out."""
        first = self._starts[bisect_right(self._starts, at) - 1]
        return self.area(first, first + 1).x

    def _item(self, at: int) -> Item | None:
        """What a cell, or its block, stands for."""
        which = bisect_right(self._starts, at) - 1
        return self.items[which] if self.items else None

    def _say(self, sheet: Sheet, x: float, width: float) -> None:
        """What it is, at the left; its values, each in its column at the right."""
        weight = {"weight": "bold" if self.is_bold else "normal"}
        heavy = {"weight": "bold" if self.is_heavy else "normal"}
        # Without cells to stand beside, it stands beside the words below them.
        middle = self.y + (self.height / 2 or 11)
        line = middle - 8 * bool(self.remark)
        if self.tone:
            wide = width_of(self.label, PART, self.is_bold) + 2 * PLATE
            sheet.box(x, line - 9, wide, 18, self.tone)
            weight["color"] = ink_on(self.tone.face)
        sheet.write(x + PLATE * bool(self.tone), line, self.label, PART, **weight)
        if self.remark:
            sheet.write(x, middle + 9, self.remark, color=sheet.look.quiet)
        if self.aside:
            after = self.area(0, len(self.cells))
            colour = self.aside_colour or sheet.look.quiet
            behind = after.x + after.width + AIR
            level = middle + self.height * (0.5 - self.aside_high)
            sheet.write(behind, level, self.aside, color=colour, **heavy)
        ends = self.picture.ends_of_values(x + width)
        for at, value in enumerate(self.values):
            sheet.write(ends[at], middle, value, ha="right", **heavy)

    def _has_words(self) -> bool:
        """Are there words in its cells, and room for at least two letters of each?"""
        words = [self._shown(at).word for at in range(len(self.cells))]
        return any(words) and all(
            width_of(*fit(visible(word)[:2], 0)) <= self.area(at, at + 1).width - 2
            for at, word in enumerate(words)
            if word
        )

    def _shown(self, at: int) -> Cell:
        """The cell, with its short word if there is no room for the other one."""
        cell = self.cells[at]
        if not cell.short or width_of(cell.word) <= self.area(at, at + 1).width - 4:
            return cell
        return cell._replace(word=cell.short)

    def _is_pale(self, at: int) -> bool:
        """Does the cell need a rim, as its face is hardly seen?"""
        if not 0 <= at < len(self.cells):
            return False
        cell = self.cells[at]
        is_pale = cell.tone.face == free().face or bool(cell.tone.bands)
        return is_pale and cell.rim == "none"

    def _draw_pale_rim(self, sheet: Sheet, at: int) -> None:
        """Neighbours share a line."""
        x, y, wide, high = self.area(at, at + 1)
        inset = 0.5 if wide > 8 else 0.0
        left = 0.0 if self._is_pale(at - 1) and not self.gap else inset
        right = 0.0 if self._is_pale(at + 1) and not self.gap else inset
        part = self.cells[at].high
        area = x + left, y + (1 - part) * high, wide - left - right, part * high
        sheet.box(*area, rim=sheet.look.rim)

    def _draw_dashes(self, sheet: Sheet, at: int) -> None:
        """Around all dashed cells of a block side by side; thin lines between them."""
        if self._goes_on(at):
            x, y, _, high = self.area(at, at + 1)
            return sheet.line((x, y + 1), (x, y + high - 1))
        stops = range(at + 1, len(self.cells))
        stop = next((n for n in stops if not self._goes_on(n)), len(self.cells))
        x, y, wide, high = self.area(at, stop)
        part = self.cells[at].high
        sheet.box(x, y + (1 - part) * high, wide, part * high, **DASHED)

    def _goes_on(self, at: int) -> bool:
        """Is the cell dashed, and the one before it in its block, too?"""
        pair = self.cells[at - 1 : at + 1]
        is_inner = at not in self._starts
        return is_inner and all(cell.rim == "dashed" for cell in pair)

    def _are_lines(self, tone: Tone) -> bool:
        """Are cells of this tone lines, word or not? If most soft cells bear words.

        Words need the page's ground, and cells of a kind should look alike.
        """
        words = [bool(c.word) for c in self.cells if c.tone.line and c.tone != others()]
        return tone != others() and 2 * sum(words) >= len(words)

    def _draw_cell(self, sheet: Sheet, area: Area, cell: Cell, has_words: bool) -> None:
        x, y, wide, high = area
        y, high = y + (1 - cell.high) * high, cell.high * high
        word = cell.word if has_words else ""
        is_line = bool(word) or (has_words and self._are_lines(cell.tone))
        self.is_line[cell.tone] = is_line and self.is_line.get(cell.tone, True)
        if cell.tone == KEPT:
            sheet.empty(x, y, wide, high, word)
            sheet.box(x + 0.5, y, wide - 1, high, rim=sheet.look.rim)
        elif cell.tone == FOUND:
            sheet.box(x, y, wide, high, free(), **DASHED)
        elif word and cell.tone.bands:
            sheet.box(x, y, wide, STRIP, cell.tone)
            sheet.word(x, y + STRIP, wide, high - STRIP, word, NOTHING)
        elif word:
            sheet.cells(x, y, [wide], high, [cell.tone], [word])
        else:
            # Beside words, soft cells are lines: ink needs the page's ground.
            tone = behind_words(cell.tone) if is_line else cell.tone
            sheet.cells(x, y, [wide], high, [tone])
        if word and cell.tone == FOUND:
            sheet.word(x, y, wide, high, word, free())
        if cell.rim not in ("none", "dashed"):
            inner = x + 1.5, y - 2, wide - 3, high + 4
            sheet.box(*inner, rim=cell.rim, linewidth=2.2)

    def _draw_captions(
        self, sheet: Sheet, captions: Sequence[tuple[Span, str]], y: float, right: float
    ) -> None:
        """Words above or below: smaller, or of every second one, if need be."""
        pairs = []
        for span, words in captions:
            half = width_of(words, bold=bool(self.cells[span.start].ink)) / 2
            middle = min(self.area(span.start, span.stop).middle, right - half)
            pairs.append((max(middle, self.x + half), words))
        step, size = 1, SMALL
        while not _stand_apart(pairs[::step], size):
            step, size = (step, SMALLER) if size == SMALL else (step + 1, SMALL)
        for at in range(0, len(pairs), step):
            start = captions[at][0].start
            ink = self.cells[start].ink
            style = {"ha": "center", "weight": "bold" if ink else "normal"}
            with sheet.group(self._item(start)):
                x, words = pairs[at]
                sheet.write(x, y, words, size, color=ink or sheet.look.quiet, **style)

    def _draw_upright(self, sheet: Sheet) -> None:
        """Words above the cells, from below upwards."""
        style = {"rotation": 90}
        for at, cell in enumerate(self.cells):
            area = self.area(at, at + 1)
            shown, size = fit(cell.above, UPRIGHT, min(SMALL, 0.6 * area.width))
            sheet.write(area.middle, self.y - 4, shown, size, **style)

    def _draw_bracket(
        self, sheet: Sheet, span: Span, words: str, colour: str | None, is_over: bool
    ) -> None:
        area = self.area(span.start, span.stop)
        captions = self._height_of_captions(is_over)
        line = self.y - captions - 7 if is_over else self.y + self.height + captions + 7
        ends = area.x + 2, area.x + area.width - 2
        style = {"color": colour or sheet.look.rim, "linewidth": 2.0 if words else 1.2}
        corners = [(ends[0], line), (ends[1], line)]
        if not words:  # ends that are turned to the cells tell neighbours apart
            tick = line + 5 if is_over else line - 5
            corners = [(ends[0], tick), *corners, (ends[1], tick)]
        sheet.line(*corners, **style)
        text = line - 13 if is_over else line + 13
        shown, size = fit(words, area.width)
        if self._is_alone(span, words, is_over):
            shown, size = words, SMALL
        if width_of(shown, size) <= area.width or shown == words:
            sheet.write(area.middle, text, shown, size, ha="center")

    def _is_alone(self, span: Span, words: str, is_over: bool) -> bool:
        """Do a bracket's words have room, even if they are wider than the bracket?"""
        middle = self.area(span.start, span.stop).middle
        half = width_of(words) / 2
        others_too = [
            (self.area(one.start, one.stop).middle, width_of(said) / 2)
            for one, said, colour, over in self.brackets
            if over == is_over and one != span and colour != "none"
        ]
        return middle - half > self.left and all(
            abs(middle - other) > half + wide + 4 for other, wide in others_too
        )

    @property
    def facts(self) -> RowFacts:
        """What it says: for tests, and for readers who cannot see it."""
        said = self.label, self.remark, self.cells, [*self.values], self.aside
        return RowFacts(*said)


def _stand_apart(pairs: Sequence[tuple[float, str]], size: float) -> bool:
    """Do words around these middles leave air between each other?"""
    return all(
        (width_of(one, size) + width_of(other, size)) / 2 + 3 < b - a
        for (a, one), (b, other) in pairwise(pairs)
    )
