"""Lab: a store without a mask, and the neighbour in memory whom it hits."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, line_colour
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import NOTHING, Tone, soft, strong

LEFT, HEIGHT, WIDEST = 104.0, 26.0, 44.0  # beside the places; of a place
BEFORE, PROGRAMS, AFTER = 42.0, 122.0, 208.0  # the upper edges of the rows


def plot_neighbour(
    before: Sequence[float],
    after: Sequence[float],
    size: int,
    tile: int,
    title: str,
    names: tuple[str, str] = ("A", "B"),
) -> Figure:
    """A memory before and after a launch; between them, where each program stores.

    The first `size` places are of the first sequence, for whom the kernel was launched;
    what follows is the neighbour's. A place of the neighbour that has changed has a
    thick rim, above it stands which program reached it.

    before, after: [N] each. tile: the places of a program.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} places before, but {len(after)} after")
    return _Neighbour(list(before), list(after), size, tile, names, Sheet(title)).draw()


class _Neighbour:
    """A column for each place."""

    def __init__(
        self,
        before: list[float],
        after: list[float],
        size: int,
        tile: int,
        names: tuple[str, str],
        sheet: Sheet,
    ):
        self.before, self.after, self.size, self.tile = before, after, size, tile
        self.names, self.sheet = names, sheet
        self.num_programs = -(-size // tile)
        num_places = max(len(before), self.num_programs * tile)
        self.cell = min(WIDEST, (SPAN - LEFT) / num_places)
        behind = range(size, len(before))
        self.hit = [place for place in behind if before[place] != after[place]]

    def x(self, place: int) -> float:
        """The left edge of a place."""
        return LEFT + place * self.cell

    def owner(self, place: int) -> str:
        """Whose place this is."""
        return self.names[place >= self.size]

    def draw(self) -> Figure:
        """Arrows first, so that the boxes lie over their ends."""
        sheet = self.sheet
        for program in range(self.num_programs):
            self._draw_program(program)
        self._draw_memory(BEFORE, self.before, is_after=False)
        self._draw_memory(AFTER, self.after, is_after=True)
        for y, name, remark in (
            (BEFORE, "before", "the memory"),
            (PROGRAMS, "place", "no mask"),
            (AFTER, "after", "the memory"),
        ):
            sheet.label(y, HEIGHT, name, remark, weight="bold")
        first, second = self.names
        self._bracket(0, self.size, f"{first}: {self.size} numbers", first)
        end = len(self.before)
        self._bracket(self.size, end, f"{second}: {end - self.size}", second)
        y, count = AFTER + HEIGHT + 26, len(self.hit)
        said = f"{count} of {second}'s {end - self.size} numbers are lost"
        sheet.write(0, y, said, PART, color=BAD, weight="bold")
        x = width_of(said, PART, bold=True) + 28
        x = sheet.legend(x, y, [(strong(first), f"stored for {first}")])
        signs = [(NOTHING, f"stored over {second}'s")]
        sheet.legend(x, y, signs, rim=BAD, linewidth=2.0)
        sheet.finish(y + 10)
        return sheet.figure

    def _bracket(self, start: int, stop: int, said: str, name: str) -> None:
        """Whose places these are, above them."""
        left, right = self.x(start) + 2, self.x(stop) - 2
        colour = line_colour(name)
        self.sheet.line((left, 28), (right, 28), color=colour, linewidth=2.0)
        self.sheet.write((left + right) / 2, 15, said, ha="center")

    def _draw_memory(self, y: float, numbers: list[float], is_after: bool) -> None:
        for place, number in enumerate(numbers):
            owner = self.owner(place)
            is_stored = is_after and place < self.size
            tone: Tone = strong(owner) if is_stored else soft(owner)
            if is_after and place in self.hit:
                tone = strong(self.names[0])
            self.sheet.cells(
                self.x(place), y, [self.cell], HEIGHT, [tone], [f"{number:g}"]
            )
            if is_after and place in self.hit:
                area = self.x(place) + 1.5, y - 2, self.cell - 3, HEIGHT + 4
                self.sheet.box(*area, rim=BAD, linewidth=2.4)

    def _draw_program(self, program: int) -> None:
        """Its places; an arrow for those of the first, another for the neighbour's."""
        sheet, first = self.sheet, program * self.tile
        stop = first + self.tile
        inside = max(0, min(stop, self.size) - first)
        left, whole = self.x(first), self.tile * self.cell
        for start, count, colour in (
            (first, inside, None),
            (first + inside, self.tile - inside, BAD),
        ):
            if count:
                x = self.x(start) + count * self.cell / 2
                y = PROGRAMS + HEIGHT + 5
                style = {"colour": colour, "is_followed": colour is not None}
                sheet.arrow((x, y), (x, AFTER - 4), is_upright=True, **style)
        name = f"program {program}"
        name = name if whole > width_of(name) + 8 else str(program)
        sheet.write(left + whole / 2, PROGRAMS - 13, name, PART, ha="center")
        for place in range(first, stop):
            tone = soft(self.names[0])
            is_outside = place >= self.size
            tone = tone._replace(line=BAD) if is_outside else tone
            area = self.x(place), PROGRAMS, [self.cell], HEIGHT
            sheet.cells(*area, [tone], [str(place)])
        frame = {"rim": sheet.look.ink, "linewidth": 2.0}
        sheet.box(left + 1.5, PROGRAMS - 3, whole - 3, HEIGHT + 6, **frame)
