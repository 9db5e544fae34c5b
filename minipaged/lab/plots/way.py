"""Lab: the path of a request through threads: where each thing happens, in order."""

from collections.abc import Collection, Sequence

from minipaged.draw.letters import width_of
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import NOTHING, free
from minipaged.lab.plots.render import Figure, render


def plot_way(
    moves: Sequence[tuple[str, str]], causes: Collection[tuple[str, str]], title: str
) -> Figure:
    """A row for each thread, a column for each move; an arrow from cause to effect.

    moves: (thread, what happens there), in order, each once. causes: (what, what comes
    of it). For example `[("event loop", "add"), ("engine", "starts")]` and
    `[("add", "starts")]`.
    """
    widest = max(84.0, *(width_of(what) + 16 for _, what in moves))
    picture = Picture(title, widest=widest)
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
    boxes = {what: rows[thread][at] for at, (thread, what) in enumerate(moves)}
    for cause, effect in causes:
        source, target = boxes[cause], boxes[effect]
        is_level = source.row is target.row
        picture.link(source, target, is_followed=True, is_level=is_level)
    return render(picture.scene())
