"""Lab: all sizes of a kernel that were tried, as maps of how fast they are."""

from collections.abc import Collection, Mapping

from minipaged.draw.letters import DPI, PART, width_of
from minipaged.draw.palette import ink_on, mix
from minipaged.draw.scales import scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone
from minipaged.lab.plots.render import Figure, render

HEIGHT = 28.0  # of a cell
WIDEST = 60.0  # of a cell: its width, at most
BESIDE, HEAD, BETWEEN, GAP = 34.0, 48.0, 20.0, 16.0  # pixels around a map's cells
PALE, DEEP = "#E4E9ED", "#003F66"  # of the slowest and of the fastest
BEND = 1.8  # sizes are mostly fast: so the upper end has most of the colours
UNIT = "K and V read in a second, in % of the read ceiling"
LONG, FLAT = 330.0, 14.0  # of the bar that explains the colours
Cell = tuple[int, int]  # row and column
Cells = Mapping[Cell, float]
Marked = Mapping[str, Collection[Cell]]  # by map
SIGNS_WIDE, RIM = (5.0, 9.0), 2.5  # pixels: at least and at most; from other things
SIGNS = {  # a marker, left or right of the number, in the upper half or the lower
    "o": (-1, 1),
    "v": (-1, -1),
    "s": (1, -1),
}
FRAME, INSET = 1.6, 3.0  # points: how wide a frame is; pixels from a cell's edge
KEY = 30.0, 20.0  # pixels: a cell in the legend


def plot_sweep(
    shares: Mapping[str, Cells],
    title: str,
    rows: str,
    columns: str,
    signs: Mapping[str, Marked] | None = None,
    in_row: int = 2,
) -> Figure:
    """A map for each batch: a cell for each pair of sizes, and how fast it is.

    The best number of a map is bold, in a frame. What was not measured, or did not run,
    is left out. All maps share one scale of colours.

    shares: by map, by (row, column), in percent. rows, columns: what the sizes are, as
    "tile". signs: by what they mean, at most three; which cells have them in a corner.
    in_row: how many maps stand side by side.
    """
    names = rows, columns
    drawing = _Sweep(shares, names, signs or {}, in_row, Sheet(title))
    for at, name in enumerate(shares):
        drawing.draw(at, name)
    return drawing.finish()


class _Sweep:
    """The maps, all of one size, from left to right and below each other."""

    def __init__(
        self,
        shares: Mapping[str, Cells],
        names: tuple[str, str],
        signs: Mapping[str, Marked],
        in_row: int,
        sheet: Sheet,
    ):
        self.shares, self.names, self.sheet = shares, names, sheet
        self.signs = {
            said: (marker, cells)
            for marker, (said, cells) in zip(SIGNS, signs.items(), strict=False)
            if any(cells.get(name) for name in shares)
        }
        self.rows = sorted({row for cells in shares.values() for row, _ in cells})
        self.columns = {
            name: sorted({column for _, column in cells})
            for name, cells in shares.items()
        }
        count, self.in_row = max(map(len, self.columns.values())), in_row
        room = (SPAN + GAP) / in_row - GAP - BESIDE
        self.cell = min(WIDEST, room / count)
        self.step = BESIDE + self.cell * count + GAP
        self.high = HEAD + HEIGHT * len(self.rows) + BETWEEN
        known = [_rounded(n) for cells in shares.values() for n in cells.values()]
        self.least, self.most = min(known), max(known)
        widest = max(width_of(_in_cell(n), PART, True) for n in known)
        self.beside = (self.cell - widest) / 2  # a number, for signs
        least, most = SIGNS_WIDE
        self.sign = max(least, min(most, self.beside - RIM))

    def colour(self, share: float) -> str:
        """From pale to strong; cells with the same number have the same colour."""
        span = self.most - self.least or 1.0
        return mix(DEEP, PALE, ((_rounded(share) - self.least) / span) ** BEND)

    def draw(self, at: int, name: str) -> None:
        """One map: its heading, what its rows and columns are, its cells."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        x, y = at % self.in_row * self.step, at // self.in_row * self.high
        left, top = x + BESIDE, y + HEAD
        sheet.write(left, y + 8, name, PART, weight="bold")
        sheet.write(left - 8, y + 36, self.names[0], ha="right", **quiet)
        columns, cells = self.columns[name], self.shares[name]
        end = left + self.cell * len(columns)
        if width_of(name, PART, True) + width_of(self.names[1]) + 16 < end - left:
            sheet.write(end, y + 8, f"{self.names[1]} →", ha="right", **quiet)
        for index, size in enumerate(columns):
            middle = left + (index + 0.5) * self.cell
            sheet.write(middle, y + 36, str(size), ha="center", **quiet)
        for index, size in enumerate(self.rows):
            middle = top + (index + 0.5) * HEIGHT
            sheet.write(left - 8, middle, str(size), ha="right", **quiet)
        fastest = max(cells.values())
        for (row, column), share in cells.items():
            place = (
                left + columns.index(column) * self.cell,
                top + self.rows.index(row) * HEIGHT,
            )
            self._draw_cell(*place, share, share == fastest)
            for marker, marked in self.signs.values():
                if (row, column) in marked.get(name, ()):
                    corner = self._corner(*place, marker)
                    self._draw_sign(*corner, marker, self.colour(share))

    def _corner(self, x: float, y: float, marker: str) -> tuple[float, float]:
        """Where a cell's sign stands: clear of the number, and of the other signs."""
        right, below = SIGNS[marker]
        from_edge = max(self.beside / 2, self.sign / 2 + RIM)
        across, down = self.cell / 2 - from_edge, (HEIGHT - self.sign) / 2 - RIM
        return x + self.cell / 2 + right * across, y + HEIGHT / 2 + below * down

    def _draw_sign(self, x: float, y: float, marker: str, behind: str) -> None:
        """A ring, so that it is no square, or a filled sign."""
        wide, edge = self.sign * 72 / DPI, 1.3  # points
        style = {"color": ink_on(behind), "size": wide, "linewidth": 0}
        if marker == "o":
            style = {"color": "none", "rim": ink_on(behind)}
            style |= {"size": wide - edge, "linewidth": edge}
        self.sheet.dots([(x, y)], marker, layer=4, **style)

    def _draw_cell(self, x: float, y: float, share: float, is_best: bool) -> None:
        area = x + 1, y + 1, self.cell - 2, HEIGHT - 2
        if is_best:
            self._draw_best(*area, share, PART)
            return
        colour = self.colour(share)
        self.sheet.box(*area, Tone(colour))
        style = {"ha": "center", "color": ink_on(colour)}
        place = x + self.cell / 2, y + HEIGHT / 2
        self.sheet.write(*place, _in_cell(share), PART, **style)

    def _draw_best(
        self, x: float, y: float, width: float, height: float, share: float, size: float
    ) -> None:
        """Bold; inside the cell a frame in the number's ink, seen on any page."""
        colour, number = self.colour(share), _in_cell(share)
        ink = ink_on(colour)
        gap = min(INSET, (width - width_of(number, size, True)) / 2 - FRAME)
        self.sheet.box(x, y, width, height, Tone(colour))
        frame = x + gap, y + gap, width - 2 * gap, height - 2 * gap
        self.sheet.box(*frame, rim=ink, linewidth=FRAME)
        style = {"ha": "center", "color": ink, "weight": "bold"}
        self.sheet.write(x + width / 2, y + height / 2, number, size, **style)

    def finish(self) -> Figure:
        """What the colours and the signs mean."""
        sheet, (width, height), strong = self.sheet, KEY, self.colour(self.most)
        y = -(-len(self.shares) // self.in_row) * self.high + 6
        self._draw_bar(y)
        y += 46
        self._draw_best(0.0, y - height / 2, *KEY, self.most, 8.0)
        words = "the best" if len(self.shares) == 1 else "the best of its map"
        x = self._explain(0.0, y, words)
        for words, (marker, _) in self.signs.items():
            sheet.box(x, y - height / 2, *KEY, Tone(strong))
            self._draw_sign(x + width / 2, y, marker, strong)
            x = self._explain(x, y, words)
        return render(sheet.finish(y + 14))

    def _explain(self, x: float, y: float, words: str) -> float:
        """Beside a sign at x; where the next one stands."""
        left = x + KEY[0] + 6
        self.sheet.write(left, y, words, color=self.sheet.look.quiet)
        return left + width_of(words) + 20

    def _draw_bar(self, y: float) -> None:
        """The colours from the slowest to the fastest, with numbers."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        sheet.write(0, y, UNIT, **quiet)
        left = width_of(UNIT) + 24
        ends = self.least, max(self.most, self.least + 1)
        scale = scale_of(ends, left, LONG, False, limits=ends)
        steps = int(LONG)
        for step in range(steps):
            share = ends[0] + (step + 0.5) / steps * (ends[1] - ends[0])
            width = min(2.0, left + LONG - left - step)  # no gap before the next
            sheet.box(left + step, y - FLAT / 2, width, FLAT, Tone(self.colour(share)))
        for tick in scale.ticks:
            x = scale.x(tick)
            sheet.line((x, y + FLAT / 2), (x, y + FLAT / 2 + 4))
            sheet.write(x, y + FLAT / 2 + 12, f"{tick:g}", ha="center", **quiet)


def _rounded(share: float) -> float:
    """As it is written."""
    return float(_in_cell(share))


def _in_cell(share: float) -> str:
    return f"{share:.0f}" if share >= 9.95 else f"{share:.1f}"
