"""Lab: the banks of shared memory, and threads that wait for each other at them."""

from collections import Counter
from collections.abc import Mapping

from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, strong
from minipaged.lab.plots.render import Figure, render

BANKS = 32  # each holds every 32nd number of four bytes
SHORTENED = 6  # lines drawn


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
    picture = Picture(title)
    for name, apart in ways.items():
        places = [thread * apart for thread in range(num_threads)]
        cycles = cycles_at_banks(places)
        remark = f"{num_threads} threads, {counted(apart, 'number')} apart"
        verdict = counted(cycles, "cycle")
        picture.headline(name, remark, verdict, BAD if cycles > 1 else GOOD)
        numbers = [Cell(below=str(bank)) for bank in range(BANKS)]
        picture.row("bank", cells=numbers, height=0.0)
        lines = [*range(max(places) // BANKS + 1)]
        skipped = lines[SHORTENED - 2 : -1] if len(lines) > SHORTENED else []
        for line in lines:
            if line in skipped[:1]:
                picture.text("⋮")
            elif line not in skipped:
                _add_line(picture, line, places)
    signs = [(strong(0), "a thread wants it"), (free(), "a number in shared memory")]
    picture.legend(*signs)
    return render(picture.scene())


def _add_line(picture: Picture, line: int, places: list[int]) -> None:
    """32 numbers; at the left their places, and the threads that want some of them."""
    first = line * BANKS
    threads = [n for n, place in enumerate(places) if place // BANKS == line]
    who = f"threads {threads[0]}–{threads[-1]}" if len(threads) > 1 else ""
    who = who or f"thread {threads[0]}" if threads else ""
    wanted = [first + bank in {*places} for bank in range(BANKS)]
    cells = [Cell("", strong(0) if is_wanted else free()) for is_wanted in wanted]
    label = f"places {first}–{first + BANKS - 1}: {who}".removesuffix(": ")
    picture.row(label, cells=cells, height=9.0)
