"""Lab: how a buddy allocator has split its memory, and what cannot merge."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.palette import BAD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row
from minipaged.draw.tones import KEPT, NOTHING, Tone, free, strong
from minipaged.lab.plots.render import render
from minipaged.memory.contiguous import BuddyAllocator, Piece


def plot_buddies(
    memory: BuddyAllocator,
    held: Mapping[str, Piece],
    title: str,
    asked: Mapping[str, int] | None = None,
) -> Figure:
    """The pieces of a live allocator, below the wholes that were split into them.

    held: who holds which piece. asked: slots that a holder asked for; the rest of its
    piece was rounded up. Free neighbours of one size that are no buddies are marked.
    The memory's size must be a power of two, so that there is one whole at the top.
    """
    names = {piece: name for name, piece in held.items()}
    if lost := [p for p in names if memory._held.get(p.start) != p]:
        raise ValueError(f"{lost} are not held; name only pieces that are")
    pieces = sorted({*memory._free, *memory._held.values()})
    whole = pieces[-1].start + pieces[-1].size
    if whole & (whole - 1):
        raise ValueError(f"{whole} slots are no power of two")
    picture, upper = Picture(title), None
    for depth in range(1 + max(_depth(piece, whole) for piece in pieces)):
        size = whole >> depth
        halves = [Piece(start, size) for start in range(0, whole, size)]
        cells = [_cells(half, pieces, names, memory, asked or {}) for half in halves]
        row = picture.blocks("", "", cells, gap=0, rim="none", fills=True)
        for at, half in enumerate(halves):
            if half in pieces:
                place = f"{half.start}–{half.start + size - 1}"
                picture.under(row.block(at), place, "none")
            if upper and cells[at][0].tone != NOTHING:
                picture.link(upper.block(at // 2), row.block(at))
                if not at % 2:
                    picture.over(row[_both(row, at)], "buddies", "none")
        for at, (one, two) in enumerate(pairwise(halves)):
            if at % 2 and {one, two} <= memory._free:
                said = "not buddies: these two never merge"
                picture.under(row[_both(row, at)], said, BAD)
        upper = row
    return render(picture.scene())


def _depth(piece: Piece, whole: int) -> int:
    """How often the whole memory was halved to make it."""
    return (whole // piece.size).bit_length() - 1


def _both(row: Row, at: int) -> slice:
    """The cells of a block and of the next one."""
    return slice(row.block(at).start, row.block(at + 1).stop)


def _cells(
    half: Piece,
    pieces: Sequence[Piece],
    names: Mapping[Piece, str],
    memory: BuddyAllocator,
    asked: Mapping[str, int],
) -> list[Cell]:
    """What was split, what is held or free, or nothing."""
    if half in memory._free:
        return [Cell(f"free, {half.size}", free(), wide=half.size)]
    if half in pieces:
        name = names.get(half, "")
        used = asked.get(name, half.size)
        over = Cell(f"{half.size - used} over", KEPT, wide=half.size - used)
        held = Cell(f"{name} {used}", strong(name or "A"), wide=used)
        return [held, over] if over.wide else [held]
    within = [one for one in pieces if one.start & -half.size == half.start]
    if any(one.size < half.size for one in within):
        return [Cell(f"{half.size}, split", Tone("none", line=theme().rim), half.size)]
    return [Cell(wide=half.size)]
