"""Lab: the way of a request through threads: where each thing happens, in order."""

from collections.abc import Sequence
from itertools import pairwise

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import NOTHING, free
from minipaged.lab.plots.render import Figure, render


def plot_way(moves: Sequence[tuple[str, str]], title: str) -> Figure:
    """A row for each thread, a column for each move; arrows lead to the next one.

    moves: (thread, what happens there), in order. For example
    `[("event loop", "add"), ("engine", "step")]`.
    """
    picture = Picture(title, widest=64.0)
    rows = {
        thread: picture.row(
            thread,
            "",
            [
                Cell(what, free()) if own == thread else Cell("", NOTHING)
                for own, what in moves
            ],
            gap=14.0,
            apart=26.0,
        )
        for thread in dict.fromkeys(thread for thread, _ in moves)
    }
    boxes = [rows[thread][at] for at, (thread, _) in enumerate(moves)]
    for source, target in pairwise(boxes):
        is_level = source.row is target.row
        picture.link(source, target, is_followed=True, is_level=is_level)
    return render(picture.scene())
