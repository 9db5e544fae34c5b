"""Lab: weights that multiply the same input, each alone, and side by side."""

from collections.abc import Mapping

from torch import Tensor

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import others, soft, strong
from minipaged.lab.plots.render import Figure, render

WIDE = 4.0  # units of a picture: all weights together, without what is between them


def plot_merged(weights: Mapping[str, Tensor], title: str) -> Figure:
    """The input leads to each weight; and once to all of them, side by side.

    weights: by name, each [out, in]; a cell is as wide as its `out`. An arrow is a
    multiplication: it reads the input, and ends at what it multiplies by.
    """
    picture = Picture(title)
    count, num_out = len(weights), sum(map(len, weights.values()))
    panels = []
    for name, air in ((f"{count} multiplications", 0.6), ("one multiplication", 0.0)):
        panel = Picture(name, widest=72.0)
        middle = (WIDE + air * (count - 1)) / 2
        above = [Cell(wide=middle - 0.8), Cell("input", others(), 1.6)]
        read = panel.row("x", "", above, is_bold=True)[1]
        found = []
        for label, tone_of in (("weights", strong), ("results", soft)):
            cells = []
            for number, (word, weight) in enumerate(weights.items()):
                wide = WIDE * len(weight) / num_out
                cells += [Cell(wide=air)] * (air > 0 and number > 0)
                cells.append(Cell(word, tone_of(number), wide))
            found.append(panel.row(label, "", cells))
        multiplied = found[0]
        for at in range(0, len(multiplied.cells), 2):
            if air:
                panel.link(read, multiplied[at])
        if not air:
            panel.link(read, multiplied[0:count])
        panels.append(panel)
    picture.beside(*panels)
    return render(picture.scene())
