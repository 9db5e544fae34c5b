"""Lab: a sum over a tile, whose numbers lie with the threads of several warps."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import PART
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.plots.render import render

NUMBERS = (3, 1, 4, 1), (5, 9, 2, 6)  # invented
LEFT, GUTTER = 168.0, 40.0  # pixels: where the warps begin; from a warp to the next
HELD, OWN, SHARED, ALL = 60.0, 136.0, 202.0, 268.0  # the upper edges of the rows
BOX, WIDE = 26.0, 46.0  # of a box that holds a number: high, wide


def plot_warp_sums(title: str, warps: Sequence[Sequence[int]] = NUMBERS) -> Figure:
    """Threads sum by shuffles within their warp; warps sum through shared memory.

    warps: what the threads of each warp hold, of which a few are enough to see it.
    """
    sheet, sums = Sheet(title), [sum(numbers) for numbers in warps]
    width = (SPAN - LEFT + GUTTER) / len(warps) - GUTTER
    lefts = [LEFT + number * (width + GUTTER) for number in range(len(warps))]
    said = f"drawn with {len(warps)} warps of {len(warps[0])} threads; a warp has 32"
    sheet.write(0, 8, said, color=sheet.look.quiet)
    sheet.label(HELD, BOX, "each thread", "holds a number")
    sheet.label(OWN, BOX, "each warp", "sums by shuffles")
    sheet.label(SHARED, BOX, "shared memory", "the sums of all warps")
    sheet.label(ALL, BOX, "the sum", "of the whole tile")
    sheet.box(LEFT, SHARED, SPAN - LEFT, BOX, free(), sheet.look.rim)
    for number, (numbers, left) in enumerate(zip(warps, lefts, strict=True)):
        middle = left + width / 2
        sheet.write(left, HELD - 16, f"warp {number}", PART)
        _draw_threads(sheet, numbers, left, width)
        sheet.cells(middle - WIDE / 2, OWN, [WIDE], BOX, [soft(0)], [str(sums[number])])
        sheet.arrow((middle, OWN + BOX + 2), (middle, SHARED - 2), is_upright=True)
        place = middle - WIDE / 2
        sheet.cells(place, SHARED, [WIDE], BOX, [soft(0)], [str(sums[number])])
        for end in lefts:  # every warp adds up all sums
            below = end + width / 2 + 8 * (number - (len(warps) - 1) / 2), ALL - 2
            sheet.arrow((middle, SHARED + BOX + 2), below, is_upright=True)
        sheet.cells(place, ALL, [WIDE], BOX, [strong(0)], [str(sum(sums))])
    return render(sheet.finish(ALL + BOX + 10))


def _draw_threads(
    sheet: Sheet, numbers: Sequence[int], left: float, width: float
) -> None:
    """What they hold, and an arrow from each to the sum of their warp."""
    apart = (width - WIDE) / max(1, len(numbers) - 1)
    for thread, number in enumerate(numbers):
        x = left + thread * apart
        sheet.cells(x, HELD, [WIDE], BOX, [soft(0)], [str(number)])
        end = left + width / 2 + 8 * (thread - (len(numbers) - 1) / 2)
        sheet.arrow((x + WIDE / 2, HELD + BOX + 2), (end, OWN - 2), is_upright=True)
