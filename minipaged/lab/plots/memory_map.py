"""Lab: what each slot of contiguous memory is used for, at one moment."""

from collections.abc import Sequence
from itertools import groupby

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.palette import KINDS_OF_SLOTS, ink_on
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, kind_of_slot
from minipaged.lab.plots.render import render
from minipaged.memory.waste import Span

LEFT, HEIGHT, ROW = 118.0, 26.0, 36.0


def plot_memory_map(
    spans: Sequence[Span],
    title: str,
    names: Sequence[str] = ("A", "B", "C"),
    width: int = 72,
) -> Figure:
    """One strip for each piece of memory, and of each kind how many slots.

    spans: what `memory_map` returns. names: of the owners, by their index. width: slots
    of the longest strip that is expected; all are drawn to one scale.
    """
    sheet = Sheet(title)
    pieces = [list(piece) for _, piece in groupby(spans, key=lambda span: span[3])]
    longest = max(piece[-1][1] - piece[0][0] for piece in pieces)
    slot = (SPAN - LEFT) / max(width, longest)
    for row, piece in enumerate(pieces):
        y, owner = row * ROW, piece[0][3]
        name = names[owner] if owner is not None else "free"
        weight = "bold" if owner is not None else "normal"
        sheet.write(0, y + HEIGHT / 2, name, PART, weight=weight)
        start, stop = piece[0][0], piece[-1][1]
        place = f"{start}–{stop - 1}"
        quiet = {"ha": "right", "color": sheet.look.quiet}
        sheet.write(LEFT - 10, y + HEIGHT / 2, place, **quiet)
        for low, high, kind, _ in piece:
            x = LEFT + (low - start) * slot
            _draw_span(sheet, x, y, slot, high - low, name_of(kind, owner))
    used = {name_of(kind, owner) for _, _, kind, owner in spans}
    y = len(pieces) * ROW + 12
    for at, kind in enumerate(kind for kind in KINDS_OF_SLOTS if kind in used):
        x, low = at % 2 * SPAN / 2, y + at // 2 * 20
        sheet.legend(x, low, [(kind_of_slot(kind), KINDS_OF_SLOTS[kind][2])])
    return render(sheet.finish(y + (len(used) - 1) // 2 * 20 + 8))


def name_of(kind: str, owner: int | None) -> str:
    """External slots inside a piece, rounded up, are told apart from those outside."""
    return "rounded_up" if kind == "external" and owner is not None else kind


def _draw_span(
    sheet: Sheet, x: float, y: float, slot: float, count: int, kind: str
) -> None:
    """Its slots in the kind's colour, and how many they are, if there is room."""
    tone, width = kind_of_slot(kind), slot * count
    plain, is_empty = tone._replace(hatching=None), tone.face == free().face
    sheet.box(x, y, width, HEIGHT, tone)
    if is_empty:
        sheet.box(x + 0.5, y, width - 1, HEIGHT, rim=sheet.look.rim)
    number = str(count)
    if width_of(number) + 6 < width:
        plate, middle = width_of(number) + 10, x + width / 2
        if tone.hatching:
            sheet.box(middle - plate / 2, y, plate, HEIGHT, plain)
        sheet.write(
            middle, y + HEIGHT / 2, number, ha="center", color=ink_on(tone.face)
        )
