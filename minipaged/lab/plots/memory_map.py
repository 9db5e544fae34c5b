"""Lab: what each slot of contiguous memory is used for, at one moment."""

from collections.abc import Sequence
from itertools import groupby

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import SPAN
from minipaged.draw.tones import kind_of_slot
from minipaged.lab.plots.charts import legend_of_slots
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.waste import Span

LONGEST = 72  # slots of a strip; all are drawn to one scale


def plot_memory_map(spans: Sequence[Span], title: str) -> Figure:
    """One strip for each piece of memory, and of each kind how many slots.

    spans: what `memory_map` returns; its owners are called A, B, C.
    """
    picture, used = Picture(title), set()
    for owner, piece in groupby(spans, key=lambda span: span[3]):
        parts = list(piece)
        cells = []
        for low, high, kind, _ in parts:
            # Within a piece such slots are rounded up: told apart from those outside.
            is_rounded_up = kind == "external" and owner is not None
            kind = "rounded_up" if is_rounded_up else kind
            used.add(kind)
            word = str(high - low) if high - low > 0.04 * LONGEST else ""
            cells.append(Cell(word, kind_of_slot(kind), wide=high - low))
        name = "free" if owner is None else "ABC"[owner]
        place = f"{parts[0][0]}–{parts[-1][1] - 1}"
        picture.row(name, place, cells, is_bold=owner is not None)
    picture.widest = (SPAN - picture.room_left) / LONGEST
    picture.legend(*legend_of_slots(used))
    return render(picture.scene())
