"""Lab: the signs that all drawings share: boxes with words, arrows, headings."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from minipaged.lab.plots.charts import WIDTH, canvas
from minipaged.lab.plots.display import DPI
from minipaged.lab.plots.palette import ink_on, theme
from minipaged.lab.plots.tones import (
    DASHED,
    FOUND,
    KEPT,
    NOTHING,
    Tone,
    behind_words,
    free,
)

SMALL, PART, COUNT = 9.0, 10.0, 15.0  # points: remarks, names of parts, what is counted
LEAST = 6.5  # points: no word is written smaller
MARGIN = 8.0  # pixels
SPAN = WIDTH * DPI - 2 * MARGIN  # pixels of a sheet from left to right
TITLE = 48.0  # pixels above a sheet, for a title of one line
EMPTY_HATCH = "\\\\\\\\"
Point = tuple[float, float]


@lru_cache(maxsize=4096)
def width_of(words: str, size: float = SMALL, bold: bool = False) -> float:
    """Pixels from left to right."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return text_to_path.get_text_width_height_descent(words, font, False)[0] * DPI / 72


def visible(word: str) -> str:
    """A token's text without spaces around it, or a sign if nothing else is there."""
    return word.strip() or word.replace("\n", "⏎").replace(" ", "·") or "∅"


def counted(number: int, thing: str) -> str:
    """So many things, in words."""
    return f"{number:,} {thing}" + "s" * (number != 1)


def fit(word: str, width: float, size: float = SMALL) -> tuple[str, float]:
    """The word and its size: made smaller until it fits, in the end cut."""
    while width_of(word, size) > width and size > LEAST:
        size -= 0.5
    kept = word
    while len(kept) > 1 and width_of(word, size) > width:
        kept = kept[:-1]
        word = kept + "…"
    return word, size


def _beside_words(height: float) -> float:
    """How far lines may come in from the top and bottom of a box with words."""
    return max(3.0, (height - 20) / 2)


class Sheet:
    """A drawing in pixels of the page, y downwards, below its title."""

    def __init__(self, title: str):
        self.figure, self.axes = canvas(title, height=1)
        self.figure.set_layout_engine("none")
        self.axes.set_axis_off()
        self.look = theme()

    def finish(self, height: float) -> None:
        """Cut the sheet off at `height`."""
        (title,) = self.figure.texts
        above = TITLE + 22 * title.get_text().count("\n")
        whole = height + above + MARGIN
        self.figure.set_size_inches(WIDTH, whole / DPI)
        title.set(x=MARGIN / (SPAN + 2 * MARGIN), y=1 - MARGIN / whole, va="top")
        self.axes.set_position((0, 0, 1, (height + MARGIN) / whole))
        self.axes.set(xlim=(-MARGIN, SPAN + MARGIN), ylim=(height + MARGIN, 0))

    def write(
        self, x: float, y: float, words: str, size: float = SMALL, **style: str | float
    ) -> Text:
        """Words whose middle is at height y, in ink; "ha" says what of them is at x."""
        style = {"color": self.look.ink, "va": "center", **style}
        return self.axes.text(x, y, words, fontsize=size, parse_math=False, **style)

    def headline(
        self, y: float, what: str, remark: str, verdict: str, colour: str
    ) -> None:
        """What a part of the sheet shows; at the right edge, how good or bad it is."""
        self.write(0, y, what, PART)
        self.write(width_of(what, PART) + 12, y, remark, color=self.look.quiet)
        self.write(SPAN, y, verdict, PART, ha="right", color=colour)

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
        area = (x, y)
        if tone.face != "none":
            self.axes.add_artist(
                Rectangle(area, width, height, facecolor=tone.face, linewidth=0)
            )
        if tone.hatching:
            self._hatch(x, y, width, height, tone)
        if rim == "none" and tone.line and tone.face == "none":
            inner, style = (
                (x + 0.6, y + 0.6),
                {"edgecolor": tone.line, "linewidth": 1.1},
            )
            sides = width - 1.2, height - 1.2
            self.axes.add_artist(Rectangle(inner, *sides, fill=False, **style))
        if rim != "none":
            style = {"edgecolor": rim, "linewidth": 0.8, **style}
            self.axes.add_artist(Rectangle(area, width, height, fill=False, **style))

    def _hatch(
        self, x: float, y: float, width: float, height: float, tone: Tone
    ) -> None:
        """Lines over a box, or over a part of it."""
        lines = {"hatch": tone.pattern, "edgecolor": tone.hatching, "linewidth": 0}
        self.axes.add_artist(Rectangle((x, y), width, height, fill=False, **lines))

    def frame(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        tone: Tone,
        words: float = 0,
    ) -> None:
        """A box for words so wide: its lines do not run behind them."""
        tone = behind_words(tone)
        if tone.face != "none" or not tone.hatching or not words:
            return self.box(x, y, width, height, tone)
        self.box(x, y, width, height, tone._replace(hatching=None))
        side, edge = max(1.0, (width - words) / 2 - 4), _beside_words(height)
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
                self.frame(*area, tone, width_of(*fit(visible(word), width - 4)))
            else:
                self.box(*area, tone)
            if word:
                self.word(x, y, width, height, word, tone)
            x += width

    def word(
        self, x: float, y: float, width: float, height: float, word: str, tone: Tone
    ) -> None:
        """A word in the middle of a box; over hatching, on a plate of its face."""
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
        lines = {"hatch": EMPTY_HATCH, "edgecolor": self.look.rim, "linewidth": 0}
        gap = width_of(remark) + 14 if remark else 0
        if gap > width:
            remark, gap = "", 0
        side = (width - gap) / 2
        for left in (x, x + side + gap):
            area = Rectangle((left, y), side, height, fill=False, alpha=0.6, **lines)
            self.axes.add_artist(area)
        self.write(x + width / 2, y + height / 2, remark, ha="center")

    def wait(self, x: float, y: float, width: float, height: float) -> None:
        """Time in which somebody who has arrived computes nothing yet."""
        self.box(x, y, width, height, free(), self.look.rim)
        if width > width_of("waits") + 8:
            middle = x + width / 2, y + height / 2
            self.write(*middle, "waits", ha="center", color=self.look.quiet)

    def arrow(
        self,
        start: Point,
        end: Point,
        colour: str | None = None,
        is_followed: bool = False,
        is_upright: bool = False,
    ) -> None:
        """From start to end, leaving and arriving level, or upright."""
        (x0, y0), (x1, y1) = start, end
        middle = (x0 + x1) / 2, (y0 + y1) / 2
        bends = [(middle[0], y0), (middle[0], y1)]
        if is_upright:
            bends = [(x0, middle[1]), (x1, middle[1])]
        path = Path([start, *bends, end], [Path.MOVETO, *[Path.CURVE4] * 3])
        colour = colour or (self.look.ink if is_followed else self.look.rim)
        style = {"linewidth": 2.0 if is_followed else 1.1, "color": colour}
        head = {"arrowstyle": "-|>", "mutation_scale": 11 if is_followed else 8}
        self.axes.add_artist(FancyArrowPatch(path=path, **head, **style))

    def line(self, *points: Point, **style: str | float) -> None:
        """A thin line from point to point."""
        style = {"color": self.look.rim, "linewidth": 0.8, **style}
        for (x0, y0), (x1, y1) in pairwise(points):
            self.axes.plot((x0, x1), (y0, y1), **style)

    def legend(
        self,
        x: float,
        y: float,
        signs: Sequence[tuple[Tone, str]],
        **rim: str | float,
    ) -> float:
        """What the tones mean, side by side; where the next sign would stand.

        Free, found and kept ones have a rim; all have this one, if it is given.
        """
        for tone, meaning in signs:
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
