"""Lab: a sum over a tile, whose numbers lie with the threads of several warps."""

from collections.abc import Sequence

from minipaged.draw.palette import theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, soft, strong
from minipaged.lab.plots.render import Figure, render

NUMBERS = (3, 1, 4, 1), (5, 9, 2, 6)  # invented


def plot_warp_sums(title: str, warps: Sequence[Sequence[int]] = NUMBERS) -> Figure:
    """Threads sum by shuffles within their warp; warps sum through shared memory.

    warps: what the threads of each warp hold, of which a few are enough to see it.
    """
    picture, sums, count = Picture(title), [sum(own) for own in warps], len(warps[0])
    said = f"drawn with {len(warps)} warps of {count} threads; a warp has 32"
    picture.text(said)
    cells = _spread([n for numbers in warps for n in numbers], soft(0), 2.0)
    threads = picture.row("each thread", "holds a number", cells)
    rows, whole = [], [sum(sums)] * len(sums)
    for label, remark, numbers, tone, rim in (
        ("each warp", "sums by shuffles", sums, soft(0), "none"),
        ("shared memory", "the sums of all warps", sums, soft(0), theme().rim),
        ("the sum", "of the whole tile", whole, strong(0), "none"),
    ):
        cells = _spread(numbers, tone, 2.0 * count)
        rows.append(picture.row(label, remark, cells, rim=rim))
    own, shared, total = rows
    for warp in range(len(warps)):
        first, at = 3 * count * warp, 3 * warp + 1
        picture.over(threads[first : first + 3 * count], f"warp {warp}")
        for thread in range(first + 1, first + 3 * count, 3):
            picture.link(threads[thread], own[at])
        picture.link(own[at], shared[at])
        for end in range(len(warps)):  # every warp adds up all sums
            picture.link(shared[at], total[3 * end + 1])
    return render(picture.scene())


def _spread(numbers: Sequence[int], tone: Tone, wide: float) -> list[Cell]:
    """Each in the middle of so much room."""
    air = Cell(wide=wide / 2 - 0.7)
    return [cell for n in numbers for cell in (air, Cell(str(n), tone, 1.4), air)]
