"""Lab: all sizes of a kernel that were tried, as maps of how fast they are."""

import math
from collections.abc import Collection, Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import ink_on, mix
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import Tone

HEIGHT, LEAST, WIDEST = 28.0, 32.0, 60.0  # of a cell: its height, and its width
BESIDE, HEAD, BETWEEN, GAP = 40.0, 48.0, 20.0, 20.0  # pixels around a map's cells
PALE, DEEP = "#DDE3E8", "#003F66"  # of the slowest and of the fastest
BEND = 1.6  # sizes are mostly fast: so the upper end has most of the colours
Cells = Mapping[tuple[int, int], float | None]
Marked = Mapping[str, Collection[tuple[int, int]]]  # by batch
CORNER = 8.5  # pixels from the corners of a cell to its signs
MARKERS = ((-1, "v"), (1, "o"))  # left and right; what a sign looks like


def plot_sweep(
    shares: Mapping[str, Cells],
    title: str,
    rows: str,
    columns: str,
    chosen: Mapping[str, tuple[int, int]] | None = None,
    unit: str = "GB/s of K and V, in % of the read ceiling",
    in_row: int | None = None,
    signs: Mapping[str, Marked] | None = None,
) -> Figure:
    """A map for each batch: a cell for each pair of sizes, and how fast it is.

    The best cell has a frame; the one that a rule chooses is underlined. What a
    multiprocessor has no room for is hatched; what was not measured is left out. All
    maps share one scale of colours.

    shares: by batch, by (row, column). rows, columns: what the sizes are, as "tile".
    chosen: (row, column) by batch. in_row: how many maps stand side by side. signs: by
    what they mean, at most two; the cells that have them in a corner.
    """
    drawing = _Sweep(shares, rows, columns, in_row, signs or {}, Sheet(title))
    for at, name in enumerate(shares):
        drawing.draw(at, name, (chosen or {}).get(name))
    drawing.finish(unit, bool(chosen))
    return drawing.sheet.figure


class _Sweep:
    """The maps, all of one size, from left to right and below each other."""

    def __init__(
        self,
        shares: Mapping[str, Cells],
        rows: str,
        columns: str,
        in_row: int | None,
        signs: Mapping[str, Marked],
        sheet: Sheet,
    ):
        self.shares, self.names, self.sheet = shares, (rows, columns), sheet
        self.signs = dict(
            zip(signs, zip(MARKERS, signs.values(), strict=False), strict=False)
        )
        keys = [key for cells in shares.values() for key in cells]
        self.rows = sorted({row for row, _ in keys})
        self.columns = {
            name: sorted({column for _, column in cells})
            for name, cells in shares.items()
        }
        count = max(map(len, self.columns.values()))
        fitting = int((SPAN + GAP) // (BESIDE + LEAST * count + GAP))
        fitting = max(1, min(len(shares), fitting))
        even = math.ceil(len(shares) / math.ceil(len(shares) / fitting))
        self.in_row = in_row or even  # no map alone in the last line
        room = (SPAN + GAP) / self.in_row - GAP - BESIDE
        self.cell = min(WIDEST, room / count)
        self.step = BESIDE + self.cell * count + GAP
        self.high = HEAD + HEIGHT * len(self.rows) + BETWEEN
        found = [n for cells in shares.values() for n in cells.values()]
        known = [_rounded(n) for n in found if n is not None]
        self.least, self.most = min(known), max(known)

    def colour(self, share: float) -> str:
        """From pale to strong; cells with the same number have the same colour."""
        span = self.most - self.least or 1.0
        return mix(DEEP, PALE, ((_rounded(share) - self.least) / span) ** BEND)

    def draw(self, at: int, name: str, chosen: tuple[int, int] | None) -> None:
        """One map: its heading, what its rows and columns are, its cells."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        x, y = at % self.in_row * self.step, at // self.in_row * self.high
        left, top = x + BESIDE, y + HEAD
        sheet.write(left, y + 8, name, PART, weight="bold")
        sheet.write(left - 8, y + 36, self.names[0], ha="right", **quiet)
        end = left + self.cell * len(self.columns[name])
        if width_of(name, PART, True) + width_of(self.names[1]) + 16 < end - left:
            sheet.write(end, y + 8, f"{self.names[1]} →", ha="right", **quiet)
        columns = self.columns[name]
        for index, size in enumerate(columns):
            middle = left + (index + 0.5) * self.cell
            sheet.write(middle, y + 36, str(size), ha="center", **quiet)
        for index, size in enumerate(self.rows):
            middle = top + (index + 0.5) * HEIGHT
            sheet.write(left - 8, middle, str(size), ha="right", **quiet)
        cells = self.shares[name]
        fastest = max((n for n in cells.values() if n is not None), default=None)
        for (row, column), share in cells.items():
            place = (
                left + columns.index(column) * self.cell,
                top + self.rows.index(row) * HEIGHT,
            )
            is_best = share is not None and share == fastest
            self._draw_cell(*place, share, is_best, (row, column) == chosen)
            for side, marker in self._signs_of(name, (row, column)):
                middle = place[0] + self.cell / 2
                x = middle + side * (self.cell / 2 - CORNER)
                behind = self.colour(self.least if share is None else share)
                self._draw_sign(x, place[1] + CORNER, marker, behind)

    def _signs_of(self, name: str, cell: tuple[int, int]) -> list[tuple[int, str]]:
        return [sign for sign, cells in self.signs.values() if cell in cells[name]]

    def _draw_sign(self, x: float, y: float, marker: str, behind: str) -> None:
        style = {"color": ink_on(behind), "markersize": 3.6, "markeredgewidth": 0}
        self.sheet.axes.plot([x], [y], marker, zorder=4, **style)

    def _draw_cell(
        self, x: float, y: float, share: float | None, is_best: bool, is_chosen: bool
    ) -> None:
        sheet, area = self.sheet, (x + 1, y + 1, self.cell - 2, HEIGHT - 2)
        if share is None:
            sheet.empty(*area)
            sheet.box(*area, rim=sheet.look.rim)
            return
        colour = self.colour(share)
        ink = ink_on(colour)
        sheet.box(*area, Tone(colour))
        if is_best:
            inner = x + 3.5, y + 3.5, self.cell - 7, HEIGHT - 7
            sheet.box(*inner, rim=ink, linewidth=1.6)
        style = {"weight": "bold" if is_best else "normal", "color": ink}
        middle, words = x + self.cell / 2, _in_cell(share)
        sheet.write(middle, y + HEIGHT / 2 - is_chosen, words, ha="center", **style)
        if is_chosen:
            self._underline(middle, y + HEIGHT / 2 + 6.5, ink)

    def _underline(self, middle: float, y: float, colour: str) -> None:
        """Below a number of two digits."""
        style = {"color": colour, "linewidth": 1.6, "solid_capstyle": "butt"}
        self.sheet.line((middle - 8, y), (middle + 8, y), **style)

    def finish(self, unit: str, has_choice: bool) -> None:
        """What the colours and the signs mean."""
        sheet, quiet = self.sheet, {"color": self.sheet.look.quiet}
        y = -(-len(self.shares) // self.in_row) * self.high + 6
        row_name, column_name = self.names
        said = f"down: {row_name}; across: {column_name}; in the cells: {unit}"
        sheet.write(0, y, said, **quiet)
        x, y = 0.0, y + 24
        strong = Tone(self.colour(self.most))
        for words, kind in (
            ("the best" if len(self.shares) == 1 else "the best of its map", "frame"),
            ("what the rule chooses", "line"),
            ("no room for it", "empty"),
        ):
            if kind == "line" and not has_choice:
                continue
            if kind == "empty":
                if all(n is not None for c in self.shares.values() for n in c.values()):
                    continue
                sheet.empty(x, y - 8, 24, 16)
                sheet.box(x, y - 8, 24, 16, rim=sheet.look.rim)
            else:
                sheet.box(x, y - 8, 24, 16, strong)
            if kind == "frame":
                inner = x + 2.5, y - 5.5, 19, 11
                sheet.box(*inner, rim=ink_on(strong.face), linewidth=1.6)
            if kind == "line":
                self._underline(x + 12, y + 3, ink_on(strong.face))
            sheet.write(x + 30, y, words, **quiet)
            x += 30 + width_of(words) + 22
        for words, ((_, marker), _) in self.signs.items():
            sheet.box(x, y - 8, 24, 16, strong)
            self._draw_sign(x + 12, y, marker, strong.face)
            sheet.write(x + 30, y, words, **quiet)
            x += 30 + width_of(words) + 22
        sheet.finish(y + 12)


def _rounded(share: float) -> float:
    """As it is written."""
    return float(_in_cell(share))


def _in_cell(share: float) -> str:
    return f"{share:.0f}" if share >= 9.95 else f"{share:.1f}"
