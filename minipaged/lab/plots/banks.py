"""Lab: the banks of shared memory, and threads that wait for each other at them."""

from collections import Counter
from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import free, strong
from minipaged.lab.plots.render import render

BANKS = 32  # each holds every 32nd number of four bytes
LEFT, CELL = 152.0, 18.4  # pixels: where the banks begin; from a bank to the next
ROW, BOX = 16.0, 9.0  # from 32 numbers to the next 32; of a number, high
TOP, BETWEEN, SHORTENED = 44.0, 30.0, 6  # above the numbers; to the next; lines drawn


def cycles_at_banks(places: list[int]) -> int:
    """In how many cycles threads get numbers at these places: a bank gives one each.

    Threads that want the same number get it together.
    """
    return max(Counter(place % BANKS for place in set(places)).values())


def plot_banks(ways: Mapping[str, int], title: str, num_threads: int = 16) -> Figure:
    """Which banks threads want at once, and how many cycles that takes: a part a way.

    A column is a bank, a line 32 numbers that follow each other. What a thread wants is
    filled. Of many lines the first few and the last are drawn.

    ways: how many numbers lie from what a thread wants to what the next one wants, by
    what that is called.
    """
    sheet, y = Sheet(title), 8.0
    for name, apart in ways.items():
        places = [thread * apart for thread in range(num_threads)]
        cycles = cycles_at_banks(places)
        remark = f"{num_threads} threads, {counted(apart, 'number')} apart"
        verdict = counted(cycles, "cycle")
        sheet.headline(y, name, remark, verdict, BAD if cycles > 1 else GOOD)
        y = _draw_lines(sheet, y + TOP, places) + BETWEEN
    signs = [(strong(0), "a thread wants it"), (free(), "a number in shared memory")]
    sheet.legend(LEFT, y - 8, signs)
    return render(sheet.finish(y + 2))


def _draw_lines(sheet: Sheet, top: float, places: list[int]) -> float:
    """The numbers, 32 in a line, below the numbers of the banks; where they end."""
    quiet = {"color": sheet.look.quiet, "ha": "center"}
    sheet.write(0, top - 14, "places", color=sheet.look.quiet)
    style = {"ha": "right", "color": sheet.look.quiet}
    sheet.write(LEFT - 8, top - 14, "bank", **style)
    for bank in range(BANKS):
        sheet.write(LEFT + (bank + 0.5) * CELL, top - 14, str(bank), **quiet)
    y, lines = top, [*range(max(places) // BANKS + 1)]
    skipped = lines[SHORTENED - 2 : -1] if len(lines) > SHORTENED else []
    for line in lines:
        if line in skipped[1:]:
            continue
        if line in skipped:
            sheet.write(LEFT + CELL / 2, y + BOX / 2, "⋮", PART, ha="center")
        else:
            _draw_line(sheet, y, line, places)
        y += ROW
    return y


def _draw_line(sheet: Sheet, y: float, line: int, places: list[int]) -> None:
    """32 numbers; at the left their places, and the threads that want some of them."""
    first = line * BANKS
    threads = [n for n, place in enumerate(places) if place // BANKS == line]
    wanted = {places[thread] for thread in threads}
    sheet.write(0, y + BOX / 2, f"{first}–{first + BANKS - 1}")
    if threads:
        who = f"threads {threads[0]}–{threads[-1]}"
        who = who if len(threads) > 1 else f"thread {threads[0]}"
        sheet.write(LEFT - 8, y + BOX / 2, who, ha="right")
    for bank in range(BANKS):
        is_wanted = first + bank in wanted
        tone, rim = (strong(0), "none") if is_wanted else (free(), sheet.look.rim)
        sheet.box(LEFT + bank * CELL, y, CELL - 2, BOX, tone, rim)
