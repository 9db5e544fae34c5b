"""Lab: how a buddy allocator has split its memory, and what cannot merge."""

from collections.abc import Mapping
from itertools import pairwise

from minipaged.draw.letters import PART
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.contiguous import BuddyAllocator, Piece

HEIGHT, LEVEL = 30.0, 58.0  # pixels of a piece, and from halves to their whole


def plot_buddies(
    memory: BuddyAllocator,
    held: Mapping[str, Piece],
    title: str,
    asked: Mapping[str, int] | None = None,
) -> Figure:
    """The pieces of a live allocator, below the wholes that were split into them.

    held: who holds which piece. asked: slots that a holder asked for; the rest of its
    piece was rounded up. Free neighbours of one size that are no buddies bear a cross.
    The memory's size must be a power of two, so that there is one whole at the top.
    """
    names = {piece: name for name, piece in held.items()}
    if lost := [p for p in names if memory._held.get(p.start) != p]:
        raise ValueError(f"{lost} are not held; name only pieces that are")
    pieces = sorted({*memory._free, *memory._held.values()})
    whole = pieces[-1].start + pieces[-1].size
    if whole & (whole - 1):
        raise ValueError(f"{whole} slots are no power of two")
    sheet = Sheet(title)
    slot = SPAN / whole
    bottom = max(_depth(piece, whole) for piece in pieces)
    for parent in sorted({p for piece in pieces for p in _parents(piece, whole)}):
        _draw_parent(sheet, parent, slot, _depth(parent, whole) * LEVEL)
    for piece in pieces:
        name = None if piece in memory._free else names.get(piece, "")
        wanted = (asked or {}).get(name, piece.size)
        _draw_piece(sheet, piece, slot, _depth(piece, whole) * LEVEL, name, wanted)
    end = bottom * LEVEL + HEIGHT + 24
    for one, two in pairwise(pieces):
        both = one.size == two.size and {one, two} <= memory._free
        if both and one.start ^ one.size != two.start:
            _draw_cross(sheet, two.start * slot, _depth(one, whole) * LEVEL)
            end = max(end, _depth(one, whole) * LEVEL + HEIGHT + 44)
    return render(sheet.finish(end))


def _depth(piece: Piece, whole: int) -> int:
    """How often the whole memory was halved to make it."""
    return (whole // piece.size).bit_length() - 1


def _parents(piece: Piece, whole: int) -> list[Piece]:
    """The pieces that were split to make it, up to the whole memory."""
    sizes = [piece.size << level for level in range(1, _depth(piece, whole) + 1)]
    return [Piece(piece.start & -size, size) for size in sizes]


def _draw_parent(sheet: Sheet, piece: Piece, slot: float, y: float) -> None:
    """A piece that was split: its outline, and lines to its halves, the buddies."""
    x, width = piece.start * slot, piece.size * slot
    middle, low = x + width / 2, y + HEIGHT
    sheet.box(x + 1, y, width - 2, HEIGHT, rim=sheet.look.rim, linestyle=":")
    sheet.write(middle, y + HEIGHT / 2, f"{piece.size}, split", PART, ha="center")
    for half in (x + width / 4, x + 3 * width / 4):
        sheet.line((middle, low), (half, low + LEVEL - HEIGHT))
    if width > 150:
        sheet.write(middle, low + 20, "buddies", ha="center", color=sheet.look.quiet)


def _draw_piece(
    sheet: Sheet, piece: Piece, slot: float, y: float, name: str | None, asked: int
) -> None:
    """A piece, free if nobody has it, its size inside, its addresses below."""
    x, width = piece.start * slot + 1, piece.size * slot - 2
    tone, words = free(), f"free, {piece.size}"
    if name is not None:
        tone, words = strong(name or "A"), f"{name} {asked}"
    used = min(width, asked * slot)
    sheet.box(x, y, used, HEIGHT, tone)
    sheet.word(x, y, used, HEIGHT, words, tone)
    if used < width:
        sheet.empty(x + used, y, width - used, HEIGHT, f"{piece.size - asked} over")
    sheet.box(x, y, width, HEIGHT, rim=sheet.look.rim)
    place = f"{piece.start}–{piece.start + piece.size - 1}"
    middle = x + width / 2
    sheet.write(middle, y + HEIGHT + 11, place, ha="center", color=sheet.look.quiet)


def _draw_cross(sheet: Sheet, x: float, y: float) -> None:
    """Where two free pieces touch that have different parents."""
    middle = y + HEIGHT / 2
    for sign in (1, -1):
        ends = (x - 8, middle - 8 * sign), (x + 8, middle + 8 * sign)
        sheet.line(*ends, color=BAD, linewidth=2.6)
    words = "not buddies: these two never merge"
    sheet.write(x, y + HEIGHT + 32, words, PART, ha="center", color=BAD)
