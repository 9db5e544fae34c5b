"""Lab: the numbers that a warp reads, and the pieces in which memory gives them."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, GOOD, line_colour
from minipaged.lab.plots.signs import SPAN, Sheet, width_of
from minipaged.lab.plots.tones import behind_words, free, soft, strong

NUMBER = 4  # bytes that a thread reads
THREADS, HEIGHT = 22.0, 20.0  # from a panel's top to its threads, and their height
MEMORY, PIECE = 92.0, 22.0  # to its memory, and its height
LENS, SMALL_PART = 58.0, 0.3  # to the memory below a lens; what is looked at with it
BETWEEN = 32.0  # from panel to panel
LEAST = 2.0  # pixels of a number, however small


def plot_coalescing(
    apart: Mapping[str, int],
    title: str,
    piece_bytes: int = 64,
    num_threads: int = 32,
) -> Figure:
    """A panel for each way to read: threads above, below them pieces of memory.

    A piece comes as a whole. What a thread has asked for is strong, the rest of the
    piece comes in vain. All panels show as much memory. Where only a small part of it
    is read, this part is drawn a second time above, larger.

    apart: by name, how many bytes lie from one thread's number to the next one's.
    """
    sheet, y = Sheet(title), 0.0
    most = max(apart.values())
    num_pieces = -(-max(num_threads * most, piece_bytes) // piece_bytes)
    for name, distance in apart.items():
        y = _draw_panel(
            sheet, y, name, distance, (num_threads, num_pieces, piece_bytes)
        )
        y += BETWEEN
    y -= BETWEEN - 24
    signs = [(strong(0), "what a thread has asked for")]
    signs += [(soft(0), "comes with it, in vain"), (free(), "a piece that stays")]
    sheet.legend(0, y, signs)
    said = f"{num_threads} threads, pieces of {piece_bytes} bytes"
    sheet.write(SPAN, y, said, ha="right", color=sheet.look.quiet)
    sheet.finish(y + 8)
    return sheet.figure


def _draw_panel(
    sheet: Sheet, y: float, name: str, apart: int, sizes: tuple[int, int, int]
) -> float:
    """The threads, their reads, the pieces; where the panel ends."""
    num_threads, num_pieces, piece_bytes = sizes
    unit, each = SPAN / (num_pieces * piece_bytes), SPAN / num_threads
    starts = [thread * apart for thread in range(num_threads)]
    touched = {byte // piece_bytes for start in starts for byte in (start, start + 3)}
    _draw_head(sheet, y, name, NUMBER * num_threads, len(touched), piece_bytes)
    words = list(map(str, range(num_threads)))
    words = words if width_of(words[-1]) < each - 4 else []
    tones = [behind_words(soft(0))] * num_threads
    sheet.cells(0, y + THREADS, [each] * num_threads, HEIGHT, tones, words)
    top = y + MEMORY
    if len(touched) < SMALL_PART * num_pieces:
        read = len(touched) * piece_bytes * unit
        _draw_pieces(sheet, top, starts, touched, (len(touched), piece_bytes))
        for ends in ((0, 0), (SPAN, read)):
            heights = top + PIECE + 1, top + LENS - 1
            line = list(zip(ends, heights, strict=True))
            sheet.line(*line, linestyle=(0, (4, 2)), color=sheet.look.quiet)
        _draw_pieces(sheet, top + LENS, starts, touched, (num_pieces, piece_bytes))
        unit, end_of_all = SPAN / (len(touched) * piece_bytes), top + LENS + PIECE
    else:
        _draw_pieces(sheet, top, starts, touched, (num_pieces, piece_bytes))
        end_of_all = top + PIECE
    for start, thread in zip(starts, range(num_threads), strict=True):
        begin = (thread + 0.5) * each, y + THREADS + HEIGHT + 2
        end = (start + NUMBER / 2) * unit, top - 2
        sheet.line(begin, end, color=line_colour(0), alpha=0.8)
    return end_of_all


def _draw_pieces(
    sheet: Sheet,
    top: float,
    starts: list[int],
    touched: set[int],
    size: tuple[int, int],
) -> None:
    """So many pieces over the whole width, with the numbers that are read."""
    num_pieces, piece_bytes = size
    unit = SPAN / (num_pieces * piece_bytes)
    wide = piece_bytes * unit
    for piece in range(num_pieces):
        area = piece * wide + 0.5, top, wide - 1, PIECE
        sheet.box(*area, soft(0) if piece in touched else free())
    for start in starts:
        width = max(LEAST, NUMBER * unit - (NUMBER * unit > 8))
        sheet.box(start * unit + 0.5, top, width, PIECE, strong(0))
    for piece in range(num_pieces):
        sheet.box(piece * wide + 0.5, top, wide - 1, PIECE, rim=sheet.look.rim)


def _draw_head(
    sheet: Sheet, y: float, name: str, used: int, num_pieces: int, piece_bytes: int
) -> None:
    """How the numbers lie, and how much of what comes is used."""
    moved = num_pieces * piece_bytes
    said = f"{num_pieces} pieces: {used:,} of {moved:,} bytes are used"
    sheet.headline(y + 8, name, "", said, GOOD if used == moved else BAD)
