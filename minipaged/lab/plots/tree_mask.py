"""Lab: branches in one row, and which tokens each of them may see."""

from collections.abc import Sequence

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_tree_mask(
    text: Sequence[str], branches: Sequence[Sequence[str]], title: str
) -> Figure:
    """A row for each token of the branches, a cell for each token that lies before.

    text: the tokens from which the branches part. A cell is pale if the row's token
    must not see its column's: it is of another branch.
    """
    picture = Picture(title, widest=84.0)
    words = [*text, *(word for branch in branches for word in branch)]
    whose = [None] * len(text) + [n for n, own in enumerate(branches) for _ in own]
    for at in range(len(text), len(words)):
        cells = []
        for column in range(at + 1):
            tone = free()
            if whose[column] is None:
                tone = soft("A")
            elif whose[column] == whose[at]:
                tone = strong(1 + whose[at])
            above = words[column] if at == len(words) - 1 else ""
            cells.append(Cell("", tone, below=above))
        picture.row(words[at], f"branch {1 + whose[at]}", cells)
    signs = [(soft("A"), "sees: text"), (strong(1), "sees: its own branch")]
    picture.legend(*signs, (free(), "must not see: another branch"))
    return render(picture.scene())
