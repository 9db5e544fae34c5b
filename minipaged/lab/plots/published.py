"""Lab: a published block: the tokens that its name says, and those that it holds."""

from collections.abc import Sequence

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, soft
from minipaged.lab.plots.render import Figure, render


def plot_published(named: Sequence[str], held: Sequence[str], title: str) -> Figure:
    """Two rows of words, one below the other; where they differ, a crossed arrow.

    named: the tokens from which the block's hash is computed. held: the tokens whose K
    and V lie in its slots.
    """
    picture = Picture(title, widest=100.0)
    name = picture.row("name", "the hash of", [Cell(word, soft("A")) for word in named])
    cells = [
        Cell(word, soft("A") if word == said else Tone(BAD))
        for word, said in zip(held, named, strict=True)
    ]
    content = picture.row("content", "K and V of", cells)
    for at, (said, word) in enumerate(zip(named, held, strict=True)):
        if said != word:
            picture.link(name[at], content[at], BAD, is_false=True)
    picture.legend(
        (soft("A"), "as the name says"), (Tone(BAD), "read by all who find the block")
    )
    return render(picture.scene())
