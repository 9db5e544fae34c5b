"""Lab: a sum that is spread over threads: what each adds, what they exchange."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import SPAN, Sheet, counted
from minipaged.lab.plots.tones import soft, strong

LEFT = 132.0  # pixels beside the numbers
HEAD, NUMBER, LEVEL, BETWEEN = 22.0, 18.0, 17.0, 26.0  # heights, and air below


def plot_thread_sums(ways: Mapping[str, int], title: str, numbers: int = 128) -> Figure:
    """For each way: the numbers of a sum by threads, then what is left of them.

    A thread first adds what it has. Then threads exchange: each time two sums become
    one, so half as many are left.

    ways: by name, how many threads share the numbers; powers of two.
    """
    sheet, y, fewest = Sheet(title), 0.0, min(ways.values())
    for name, threads in ways.items():
        exchanges = threads.bit_length() - 1
        each = counted(numbers // threads, "number")
        remark = f"{counted(threads, 'thread')}, each has {each}"
        verdict = counted(exchanges, "exchange")
        colour = GOOD if threads == fewest else BAD
        sheet.headline(y + 8, name, remark, verdict, colour)
        y += HEAD
        sheet.write(0, y + NUMBER / 2, f"{numbers} products")
        _draw_level(sheet, y, NUMBER, threads, numbers // threads)
        y += NUMBER + 4
        if threads < numbers:
            sheet.write(0, y + LEVEL / 2 - 2, "added alone")
            _draw_level(sheet, y, LEVEL - 5, threads)
            y += LEVEL
        for number in range(exchanges):
            if number in (0, exchanges - 1):
                sheet.write(0, y + LEVEL / 2 - 2, f"exchange {number + 1}")
            _draw_level(sheet, y, LEVEL - 5, threads >> number + 1)
            y += LEVEL
        y += BETWEEN
    sheet.legend(0, y, [(strong(0), "a product"), (soft(0), "a sum of some")])
    sheet.finish(y + 8)
    return sheet.figure


def _draw_level(
    sheet: Sheet, y: float, height: float, threads: int, each: int | None = None
) -> None:
    """A frame for each thread, around its numbers; without them, around its sum."""
    wide = (SPAN - LEFT) / threads
    for thread in range(threads):
        x, tone = LEFT + thread * wide, soft(0) if each is None else strong(0)
        rim = sheet.look.rim
        sheet.box(x + 0.5, y, wide - 1, height, tone, rim, linewidth=0.6)
        for number in range(1, each or 1):
            line = x + number * wide / each
            sheet.line((line, y), (line, y + height), color=sheet.look.rim)
