"""Lab: which multiprocessors of a GPU have programs, and which have nothing to do."""

from collections.abc import Mapping

from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, strong
from minipaged.lab.plots.render import Figure, render

ROWS = 3  # of squares


def plot_multiprocessors(
    num_programs: Mapping[str, int], title: str, num_multiprocessors: int = 132
) -> Figure:
    """For each launch a square for each multiprocessor, with the programs on it.

    num_programs: by launch; they are dealt out evenly, as if all ran at a time.
    """
    picture, whole = Picture(title, widest=24.0), num_multiprocessors
    for name, count in num_programs.items():
        busy = min(count, whole)
        colour = GOOD if busy == whole else BAD
        programs = counted(count, "program")
        picture.headline(name, programs, f"{busy} of {whole} busy", colour)
        here = [len(range(number, count, whole)) for number in range(whole)]
        cells = [Cell(str(n), strong(0)) if n else Cell("", free()) for n in here]
        columns = -(-whole // ROWS)
        for first in range(0, whole, columns):
            row = cells[first : first + columns]
            picture.row(cells=row, height=15.0, gap=1.0, apart=2.0)
        picture.space(2)
    picture.legend((strong(0), "programs on it"), (free(), "has nothing to do"))
    return render(picture.scene())
