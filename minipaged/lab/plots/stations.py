"""Lab: the stations of a step in their order, and the way back to the first."""

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free
from minipaged.lab.plots.render import Figure, render


def plot_stations(
    stations: Mapping[str, tuple[Callable[..., Any], str]],
    title: str,
    again: str,
    before: int = 1,
) -> Figure:
    """A box for each station, what happens there, and the function that does it.

    stations: name to its function, and what happens in short lines. before: how many
    come once for each request; the others are a step. again: when the step is repeated.
    """
    picture, style = Picture(title), {"gap": 20.0, "fills": True}
    names = [f"{at} · {name}" for at, name in enumerate(stations, start=1)]
    cells = [Cell(name, free()) for name in names]
    boxes = picture.row("", "", cells, height=32, **style)
    picture.over(boxes[before:], "one step")
    for at in range(len(cells) - 1):
        picture.link(boxes[at], boxes[at + 1], is_followed=True)
    texts = [text.split("\n") for _, text in stations.values()]
    style |= {"height": 0.0, "apart": 0.0}
    for line in zip_longest(*texts, fillvalue=""):
        picture.row("", "", [Cell(below=words) for words in line], **style)
    picture.space(4)
    calls = [Cell(below=f"{call.__name__}()") for call, _ in stations.values()]
    functions = picture.row("", "", calls, **style)
    picture.link(functions[-1], functions[before], words=again)
    return render(picture.scene())
