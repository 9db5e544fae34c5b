"""Lab: the numbers that a warp reads, and the stretches in which memory gives them."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import width_of
from minipaged.draw.marks import Point
from minipaged.draw.palette import BAD, GOOD, line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import behind_words, free, soft, strong
from minipaged.lab.plots.render import render

NUMBER = 4  # bytes that a thread reads
LEFT = 104.0  # pixels beside the rows
THREADS, HEIGHT = 30.0, 22.0  # from a panel's top to its threads, and their height
MEMORY, STRETCH = 116.0, 26.0  # to its memory, and its height
BETWEEN = 36.0  # from panel to panel
LEAST = 3.0  # pixels of a number that lies alone
BRACKET = 8.0  # from threads down to the bracket below them


def plot_coalescing(
    apart: Mapping[str, int],
    title: str,
    stretch_bytes: int = 64,
    num_threads: int = 32,
) -> Figure:
    """A panel for each way to read: threads above, below them stretches of memory.

    An arrow leads from the threads that read the same stretch to this stretch, which
    comes as a whole. What a thread has asked for is strong, the rest of the
    stretch comes in vain. All panels show as much memory, at one scale.

    apart: by name, how many bytes lie from one thread's number to the next one's.
    """
    sheet, y = Sheet(title), 0.0
    most = max(apart.values())
    num_stretches = -(-max(num_threads * most, stretch_bytes) // stretch_bytes)
    for name, distance in apart.items():
        y = _draw_panel(
            sheet, y, name, distance, (num_threads, num_stretches, stretch_bytes)
        )
        y += BETWEEN
    y -= BETWEEN - 26
    signs = [(strong(0), "what a thread has asked for")]
    signs += [(soft(0), "comes with it, in vain"), (free(), "a stretch that stays")]
    sheet.legend(0, y, signs)
    return render(sheet.finish(y + 8))


def _draw_panel(
    sheet: Sheet, y: float, name: str, apart: int, sizes: tuple[int, int, int]
) -> float:
    """The threads, their reads, the stretches; where the panel ends."""
    num_threads, num_stretches, stretch_bytes = sizes
    wide, each = (SPAN - LEFT) / num_stretches, (SPAN - LEFT) / num_threads
    starts = [thread * apart for thread in range(num_threads)]
    readers = _readers(starts, stretch_bytes)
    _draw_head(sheet, y, name, NUMBER * num_threads, len(readers), stretch_bytes)
    sheet.label(y + THREADS, HEIGHT, "a warp", f"{num_threads} threads")
    words = list(map(str, range(num_threads)))
    words = words if width_of(words[-1]) < each - 4 else []
    tones = [behind_words(soft(0))] * num_threads
    sheet.cells(LEFT, y + THREADS, [each] * num_threads, HEIGHT, tones, words)
    top = y + MEMORY
    sheet.label(top, STRETCH, "memory", f"{stretch_bytes} bytes each")
    places = [
        (LEFT + n * wide + 0.5, top, wide - 1, STRETCH) for n in range(num_stretches)
    ]
    for stretch, place in enumerate(places):
        sheet.box(*place, soft(0) if stretch in readers else free())
    unit = wide / stretch_bytes
    width = max(NUMBER * unit, min(LEAST, apart * unit / 2))
    for start in starts:
        sheet.box(LEFT + start * unit, top, width, STRETCH, strong(0))
    for place in places:
        sheet.box(*place, rim=sheet.look.rim)
    for stretch, threads in readers.items():
        ends = LEFT + threads[0] * each, LEFT + (threads[-1] + 1) * each
        _draw_read(
            sheet, y + THREADS + HEIGHT, ends, (LEFT + (stretch + 0.5) * wide, top)
        )
    return top + STRETCH


def _readers(starts: Sequence[int], stretch_bytes: int) -> dict[int, list[int]]:
    """By stretch: the threads that read some of it."""
    readers: dict[int, list[int]] = {}
    for thread, start in enumerate(starts):
        for stretch in {start // stretch_bytes, (start + NUMBER - 1) // stretch_bytes}:
            readers.setdefault(stretch, []).append(thread)
    return readers


def _draw_read(sheet: Sheet, y: float, ends: Point, stretch: Point) -> None:
    """A bracket below threads, and from its middle an arrow to their stretch."""
    (left, right), level, colour = ends, y + BRACKET, line_colour(0)
    left, right = left + 2, right - 2
    corners = (left, y + 3), (left, level), (right, level), (right, y + 3)
    sheet.line(*corners, color=colour, linewidth=1.2)
    x, top = stretch
    sheet.arrow(((left + right) / 2, level), (x, top - 1), colour, is_upright=True)


def _draw_head(
    sheet: Sheet, y: float, name: str, used: int, num_stretches: int, stretch_bytes: int
) -> None:
    """How the numbers lie, and how much of what comes is used."""
    moved = num_stretches * stretch_bytes
    said = f"{num_stretches} stretches: {used:,} of {moved:,} bytes are used"
    sheet.headline(y + 8, name, "", said, GOOD if used == moved else BAD)
