"""Lab: what a launch is: programs, the places of each, and the mask."""

import torch
from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT, NOTHING, free, soft, strong
from minipaged.lab.plots.render import render

LEFT = 104.0  # pixels beside the places
WIDEST, HEIGHT = 44.0, 26.0  # of a place
NUMBERS, PROGRAMS, RESULT = 42.0, 132.0, 230.0  # the upper edges of the rows


def plot_launch(
    x: torch.Tensor, out: torch.Tensor, tile: int, num_programs: int, title: str
) -> Figure:
    """Above, what is loaded; then each program's places; below, what it has stored.

    A place that lies past the end of x is masked: nothing is loaded there, and nothing
    stored. What no program has stored is pale.

    x, out: [N] each, after the launch. tile: the places of a program.
    """
    return _Launch(x, out, tile, num_programs, Sheet(title)).draw()


class _Launch:
    """A column for each place, of x, of out or of a program."""

    def __init__(
        self,
        x: torch.Tensor,
        out: torch.Tensor,
        tile: int,
        num_programs: int,
        sheet: Sheet,
    ):
        self.numbers = list(map(_written, x.tolist()))
        self.results = list(map(_written, out.tolist()))
        self.tile, self.num_programs, self.sheet = tile, num_programs, sheet
        num_places = max(len(x), len(out), tile * num_programs)
        self.cell = min(WIDEST, (SPAN - LEFT) / num_places)
        words = [*self.numbers, *self.results, str(num_places)]
        self.has_words = max(map(width_of, words)) < 1.2 * self.cell

    def x(self, place: int) -> float:
        """The left edge of a place."""
        return LEFT + place * self.cell

    def _words(self, words: list[str]) -> list[str]:
        """None at all if there is no room for one of them."""
        return words if self.has_words else []

    def draw(self) -> Figure:
        """Arrows first, so that the boxes lie over their ends."""
        sheet, size = self.sheet, len(self.numbers)
        for program in range(self.num_programs):
            self._draw_program(program)
        everywhere = [self.cell] * size
        tones = [soft(place // self.tile) for place in range(size)]
        sheet.cells(LEFT, NUMBERS, everywhere, HEIGHT, tones, self._words(self.numbers))
        reached = min(size, self.tile * self.num_programs)
        tones = [strong(place // self.tile) for place in range(reached)]
        tones += [free()] * (len(self.results) - reached)
        widths = [self.cell] * len(self.results)
        sheet.cells(LEFT, RESULT, widths, HEIGHT, tones, self._words(self.results))
        for place in range(reached, len(self.results)):
            area = self.x(place) + 0.5, RESULT, self.cell - 1, HEIGHT
            sheet.box(*area, NOTHING, sheet.look.rim)
        self._label()
        return render(sheet.finish(RESULT + 90))

    def _draw_program(self, program: int) -> None:
        """Its places, those past the end hatched; where they are loaded and stored."""
        sheet, size = self.sheet, len(self.numbers)
        first, stop = program * self.tile, (program + 1) * self.tile
        seen = max(0, min(stop, size) - first)
        left, whole = self.x(first), self.tile * self.cell
        if seen:
            middle = left + seen * self.cell / 2
            for start, end in (
                (NUMBERS + HEIGHT + 3, PROGRAMS - 23),
                (PROGRAMS + HEIGHT + 23, RESULT - 3),
            ):
                sheet.arrow((middle, start), (middle, end), is_upright=True)
        name = f"program {program}" if whole > width_of("program 00") else str(program)
        sheet.write(left + whole / 2, PROGRAMS - 13, name, PART, ha="center")
        for place in range(first, stop):
            area = self.x(place), PROGRAMS, self.cell, HEIGHT
            words = self._words([str(place)])
            if place < size:
                sheet.cells(*area[:2], [self.cell], HEIGHT, [soft(program)], words)
            else:
                self._draw_masked(*area, words)
        frame = {"rim": sheet.look.ink, "linewidth": 2.0}
        sheet.box(left + 1.5, PROGRAMS - 3, whole - 3, HEIGHT + 6, **frame)
        y, mark = PROGRAMS + HEIGHT + 14, {"ha": "center", "color": sheet.look.quiet}
        hidden = self.tile - seen
        if seen:
            sheet.write(left + seen * self.cell / 2, y, "exists", **mark)
        if hidden:
            middle = self.x(stop) - hidden * self.cell / 2
            sheet.write(middle, y, "masked", **mark)

    def _draw_masked(
        self, x: float, y: float, width: float, height: float, words: list[str]
    ) -> None:
        """Hatched as far as its number leaves room."""
        sheet, word = self.sheet, words[0] if words else ""
        side = (width - width_of(word) - 4) / 2 if word else width / 2
        for left in (x, x + width - side):
            sheet.empty(left, y, side, height)
        sheet.write(x + width / 2, y + height / 2, word, ha="center")

    def _label(self) -> None:
        """What the rows are, and what the tones mean."""
        sheet = self.sheet
        quiet = {"color": sheet.look.quiet}
        for y, name, remark in (
            (NUMBERS, "x", counted(len(self.numbers), "number")),
            (PROGRAMS, "place", f"grid ({self.num_programs},)"),
            (RESULT, "out", counted(len(self.results), "number")),
        ):
            sheet.label(y, HEIGHT, name, remark, weight="bold")
        for y, step in (
            ((NUMBERS + HEIGHT + PROGRAMS - 10) / 2, "load"),
            ((PROGRAMS + HEIGHT + 12 + RESULT) / 2, "store"),
        ):
            sheet.write(0, y, step, **quiet)
        sheet.write(0, 12, "A launch", PART)
        programs = counted(self.num_programs, "program")
        said = f"{programs}, TILE = {self.tile} places each"
        sheet.write(width_of("A launch", PART) + 12, 12, said, **quiet)
        bottom = RESULT + HEIGHT + 44
        signs = [(strong(0), "stored by program 0")]
        signs += [(KEPT, "masked: not loaded, not stored"), (free(), "as it was")]
        sheet.legend(0, bottom, signs)


def _written(number: float) -> str:
    return f"{number:g}"
