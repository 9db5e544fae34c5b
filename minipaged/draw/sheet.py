"""Lab: pens for a scene: boxes with words, arrows, headings, a legend."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from textwrap import fill

from minipaged.draw.letters import (
    DPI,
    PART,
    SMALL,
    fit,
    lines_of,
    visible,
    width_of,
)
from minipaged.draw.marks import (
    Area,
    Box,
    Dots,
    Group,
    Item,
    Point,
    Scene,
    Stroke,
    Words,
)
from minipaged.draw.palette import ink_on, theme
from minipaged.draw.tones import (
    DASHED,
    FOUND,
    KEPT,
    NOTHING,
    Sign,
    Tone,
    behind_words,
    free,
)

WIDTH = 7.6  # inches; as many hundreds of pixels in a notebook
MARGIN = 8.0  # pixels
SPAN = WIDTH * DPI - 2 * MARGIN  # pixels of a sheet from left to right
TITLE_LETTERS = 74  # of a line; longer titles go on below
LINE = 16.0  # pixels of a line of words
EMPTY_HATCH = "\\\\\\\\"


def _lines_in(word: str, width: float, height: float) -> list[str]:
    """A box's words: in lines, if they are too wide and there is room for lines."""
    most = int(height // LINE)
    is_wide = most > 1 and width_of(word) > width - 10
    return lines_of(word, width - 10, most) if is_wide else [word]


def _beside_words(height: float) -> float:
    """How far lines may come in from the top and bottom of a box with words."""
    return max(3.0, (height - 20) / 2)


class Sheet:
    """A drawing in pixels of the page, y downwards, below its title.

    Attributes: scene, what was drawn; look, the theme.
    """

    def __init__(self, title: str, span: float = SPAN):
        self.look = theme()
        self._groups: dict[Item, Group] = {}
        self.scene = Scene(
            fill(title, TITLE_LETTERS),
            span,
            ground=self.look.ground,
            ink=self.look.title,
            plate=self.look.plate,
        )

    def finish(self, height: float) -> Scene:
        """Cut the sheet off at `height`; the scene that was drawn."""
        self.scene.height = height
        return self.scene

    @contextmanager
    def group(self, item: Item | None) -> Iterator[None]:
        """What is drawn meanwhile stands for this item, besides what did before.

        Without an item it stands for nothing.
        """
        outer = self.scene.marks
        if item is not None:
            if item not in self._groups:
                self._groups[item] = Group(item, [])
                outer.append(self._groups[item])
            self.scene.marks = self._groups[item].marks
        yield
        self.scene.marks = outer

    def write(
        self, x: float, y: float, words: str, size: float = SMALL, **style: str | float
    ) -> Words:
        """Words whose middle is at height y, in ink; "ha" says what of them is at x."""
        written = Words(x, y, words, size, **{"color": self.look.ink, **style})
        self.scene.marks.append(written)
        return written

    def label(
        self, y: float, height: float, what: str, remark: str, **style: str | float
    ) -> None:
        """What a row is, at its left; a remark below."""
        self.write(0, y + height / 2 - 8, what, PART, **style)
        self.write(0, y + height / 2 + 9, remark, color=self.look.quiet)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        tone: Tone = NOTHING,
        rim: str = "none",
        **style: str | float,
    ) -> None:
        """A rectangle, its upper left corner at (x, y)."""
        add = self.scene.marks.append
        if tone.face != "none":
            add(Box(x, y, width, height, tone.face))
        for at, face in enumerate(tone.bands):
            high = height / len(tone.bands)
            add(Box(x, y + at * high, width, high, face))
        if tone.hatching:
            self._hatch(x, y, width, height, tone)
        if rim == "none" and tone.line and tone.face == "none":
            inner = (x + 0.6, y + 0.6, width - 1.2, height - 1.2)
            add(Box(*inner, rim=tone.line, linewidth=1.1))
        if rim != "none":
            add(Box(x, y, width, height, rim=rim, **style))

    def _hatch(
        self, x: float, y: float, width: float, height: float, tone: Tone
    ) -> None:
        """Lines over a box, or over a part of it."""
        lines = {"pattern": tone.pattern, "hatching": tone.hatching}
        self.scene.marks.append(Box(x, y, width, height, **lines))

    def frame(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        tone: Tone,
        words: float = 0,
        num_lines: int = 1,
    ) -> None:
        """A box for words so wide, in lines: its hatching does not run behind them."""
        tone = behind_words(tone)
        if tone.face != "none" or not tone.hatching or not words:
            return self.box(x, y, width, height, tone)
        self.box(x, y, width, height, tone._replace(hatching=None))
        side = max(1.0, (width - words) / 2 - 4)
        edge = max(1.0, _beside_words(height) - LINE * (num_lines - 1) / 2)
        for left in (x, x + width - side):
            self._hatch(left, y, side, height, tone)
        for top in (y, y + height - edge):
            self._hatch(x + side, top, width - 2 * side, edge, tone)

    def cells(
        self,
        x: float,
        y: float,
        widths: Sequence[float],
        height: float,
        tones: Sequence[Tone],
        words: Sequence[str] = (),
    ) -> None:
        """Boxes side by side with a hair's breadth between them, words inside.

        If there are words at all, soft boxes are lines, as ink needs the page's ground.
        """
        has_words = any(words)
        words = [*words, *[""] * (len(widths) - len(words))]
        for width, tone, word in zip(widths, tones, words, strict=True):
            gap = 1.0 if width > 8 else 0.0
            area = x + gap / 2, y, width - gap, height
            if has_words:
                lines = _lines_in(word, width, height)
                words_wide = max(width_of(*fit(visible(n), width - 4)) for n in lines)
                self.frame(*area, tone, words_wide, len(lines))
            else:
                self.box(*area, tone)
            if word:
                self.word(x, y, width, height, word, tone)
            x += width

    def word(
        self, x: float, y: float, width: float, height: float, word: str, tone: Tone
    ) -> None:
        """A word in the middle of a box; over hatching, on a plate of its face.

        Several words stand in lines, if they are too wide and there is room for lines.
        """
        lines = _lines_in(word, width, height)
        if len(lines) > 1:
            top = y + (height - LINE * len(lines)) / 2
            for at, line in enumerate(lines):
                self.word(x, top + LINE * at, width, LINE, line, tone)
            return
        shown, size = fit(visible(word), width - 4)
        if tone.hatching and not tone.line:
            plate = min(width - 2, width_of(shown, size) + 8)
            left, edge = x + (width - plate) / 2, _beside_words(height)
            self.box(left, y + edge, plate, height - 2 * edge, Tone(tone.face))
        is_clear = tone.face.startswith("#") and len(tone.face) == 7
        ink = ink_on(tone.face) if is_clear else self.look.ink
        self.write(x + width / 2, y + height / 2, shown, size, ha="center", color=ink)

    def empty(
        self, x: float, y: float, width: float, height: float, remark: str = ""
    ) -> None:
        """Slots that are kept and hold nothing: hatched, but not behind the remark."""
        lines = {"pattern": EMPTY_HATCH, "hatching": self.look.rim, "alpha": 0.6}
        gap = width_of(remark) + 8 if remark else 0
        if gap > width:
            remark, gap = "", 0
        side = (width - gap) / 2
        for left in (x, x + side + gap):
            self.scene.marks.append(Box(left, y, side, height, **lines))
        self.write(x + width / 2, y + height / 2, remark, ha="center")

    def arrow(
        self,
        start: Point,
        end: Point,
        colour: str | None = None,
        is_followed: bool = False,
        is_upright: bool = False,
        is_straight: bool = False,
        bends: Sequence[Point] = (),
    ) -> None:
        """From start to end, leaving and arriving level, or upright; or straight.

        bends: points between both, as of a `curve`, by which it goes instead.
        """
        (x0, y0), (x1, y1) = start, end
        middle = (x0 + x1) / 2, (y0 + y1) / 2
        if not bends:
            bends = [(middle[0], y0), (middle[0], y1)]
            if is_upright:
                bends = [(x0, middle[1]), (x1, middle[1])]
        colour = colour or (self.look.ink if is_followed else self.look.rim)
        linewidth, head = (2.0, 11) if is_followed else (1.1, 8)
        style = {"color": colour, "linewidth": linewidth, "head": head, "layer": 1}
        if is_straight:
            self.line(start, end, **style)
        else:
            self.curve((start, *bends, end), **style)

    def curve(self, points: Sequence[Point], **style: str | float) -> None:
        """A curve from the first to the fourth point, drawn towards those between.

        Straight lines lead on to further points.
        """
        style = {"color": self.look.rim, "layer": 1, **style}
        self.scene.marks.append(Stroke(tuple(points), curved=True, **style))

    def line(self, *points: Point, **style: str | float) -> None:
        """A thin line from point to point."""
        style = {"color": self.look.rim, **style}
        for pair in pairwise(points):
            self.scene.marks.append(Stroke(pair, **style))

    def path(self, points: Sequence[Point], **style: str | float) -> None:
        """One line through all points."""
        style = {"color": self.look.rim, **style}
        self.scene.marks.append(Stroke(tuple(points), **style))

    def area(self, *corners: Point, **style: str | float) -> None:
        """What lies within these corners."""
        self.scene.marks.append(Area(corners, **style))

    def dots(self, places: Sequence[Point], marker: str, **style: str | float) -> None:
        """The same marker at each of the places."""
        style = {"color": self.look.ink, "size": 6.0, **style}
        self.scene.marks.append(Dots(tuple(places), marker, **style))

    def legend(
        self,
        x: float,
        y: float,
        signs: Sequence[tuple[Tone | Sign, str]],
        **rim: str | float,
    ) -> float:
        """What the tones mean, side by side; where the next sign would stand.

        Free, found and kept ones have a rim; all have this one, if it is given.
        """
        for tone, meaning in signs:
            if isinstance(tone, Sign):
                style = {"color": tone.colour, "size": tone.size, "linewidth": 0}
                self.dots([(x + 5, y)], tone.marker, **style)
                self.write(x + 14, y, meaning, color=self.look.quiet)
                x += 14 + width_of(meaning) + 20
                continue
            is_empty = tone.face == free().face
            style = rim or {"rim": self.look.rim if is_empty else tone.line or "none"}
            if tone == FOUND:
                tone, style = free(), DASHED
            if tone == KEPT:
                self.empty(x, y - 6, 18, 12)
                tone, style = NOTHING, {"rim": self.look.rim}
            self.box(x, y - 6, 18, 12, tone, **style)
            self.write(x + 24, y, meaning, color=self.look.quiet)
            x += 24 + width_of(meaning) + 20
        return x
