"""Lab: what a launch is: programs, the places of each, and the mask."""

import torch

from minipaged.draw.letters import counted
from minipaged.draw.palette import theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import KEPT, free, soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_launch(
    x: torch.Tensor, out: torch.Tensor, tile: int, num_programs: int, title: str
) -> Figure:
    """Above, what is loaded; then each program's places; below, what it has stored.

    A place that lies past the end of x is masked: nothing is loaded there, and nothing
    stored. What no program has stored is pale.

    x, out: [N] each, after the launch. tile: the places of a program.
    """
    size, num_places = len(x), tile * num_programs
    picture = Picture(title)
    programs = counted(num_programs, "program")
    picture.headline("A launch", f"{programs}, TILE = {tile} places each")
    cells = [Cell(f"{n:g}", soft(at // tile)) for at, n in enumerate(x.tolist())]
    above = picture.row("x", counted(size, "number"), cells, is_bold=True)
    cells = [
        Cell(str(at), soft(at // tile) if at < size else KEPT)
        for at in range(num_places)
    ]
    places = picture.row("place", f"grid ({num_programs},)", cells, is_bold=True)
    cells = [
        Cell(f"{n:g}", strong(at // tile) if at < min(size, num_places) else free())
        for at, n in enumerate(out.tolist())
    ]
    below = picture.row("out", counted(len(out), "number"), cells, is_bold=True)
    for program in range(num_programs):
        first, stop = program * tile, (program + 1) * tile
        end = max(first, min(stop, size))
        picture.over(places[first:stop], f"program {program}", "none")
        picture.frame(places[first:stop], theme().ink)
        if first < end:
            picture.under(places[first:end], "exists", "none")
            steps = ("", "") if program else ("load", "store")
            picture.link(above[first:end], places[first:end], words=steps[0])
            picture.link(places[first:end], below[first:end], words=steps[1])
        if end < stop:
            picture.under(places[end:stop], "masked", "none")
    picture.legend(
        (strong(0), "stored by program 0"),
        (KEPT, "masked: not loaded, not stored"),
        (free(), "as it was"),
    )
    return render(picture.scene())
