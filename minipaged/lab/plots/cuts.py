"""Lab: how a plan cuts the sequences of a decode step, and which program reads what."""

import torch

from minipaged.draw.letters import counted, from_to
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import strong
from minipaged.lab.plots.render import Figure, render


def plot_cuts(plan: torch.Tensor, title: str) -> Figure:
    """A row for each sequence, as long as what is read of it; a cell for each piece.

    A piece names the program that reads it: the plan's row. plan: of `write_plan`.
    """
    picture, rows = Picture(title), {}
    for program, (sequence, _, start, stop, *_) in enumerate(plan.tolist()):
        if sequence >= 0:
            place = {"wide": stop - start, "below": from_to(start, stop - 1)}
            piece = Cell(f"program {program}", strong(sequence), **place)
            rows.setdefault(sequence, []).append(piece)
    for sequence in sorted(rows):
        pieces = counted(len(rows[sequence]), "piece")
        picture.row(f"sequence {sequence}", pieces, rows[sequence], gap=4.0)
    used = sum(map(len, rows.values()))
    picture.text(f"{len(plan) - used} of {len(plan)} programs have no piece")
    return render(picture.scene())
