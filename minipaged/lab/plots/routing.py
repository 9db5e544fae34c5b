"""Lab: what a router knows of each replica, and whom it chooses (appendix H)."""

from collections.abc import Mapping, Sequence

from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.scheduling.routing import Name, PrefixAware


def plot_routing(
    policy: PrefixAware,
    chain: Sequence[int],
    loads: Mapping[Name, float],
    chosen: Name,
    words: Sequence[str],
    title: str,
) -> Figure:
    """A prompt's blocks; below, which of them each replica was sent before.

    chain: the hashes of the prompt's blocks. words: what each block holds. loads:
    requests by replica. chosen: the replica that the policy chose, before it was sent.
    """
    picture = Picture(title, widest=72.0)
    picture.heads("requests", "limit")
    cells = [Cell(word, strong("A")) for word in words]
    picture.row("prompt", counted(len(chain), "block"), cells, is_bold=True)
    limit = policy.limit(loads)
    for name, load in loads.items():
        known = policy.num_known(name, chain)
        found = [
            Cell(word if at < known else "", soft("A") if at < known else free())
            for at, word in enumerate(words)
        ]
        said = "overloaded" if load >= limit else ""
        row = picture.row(
            f"replica {name}",
            f"knows {known} of {len(chain)}",
            found,
            values=(f"{load:g}", f"{limit:g}"),
            aside="serves it" if name == chosen else said,
            aside_colour=GOOD if name == chosen else BAD,
            is_heavy=name == chosen,
        )
        if name == chosen:
            picture.frame(row[0 : len(words)], GOOD)
    picture.legend(
        (strong("A"), "the prompt"),
        (soft("A"), "sent there before"),
        (free(), "not known there"),
    )
    return render(picture.scene())
