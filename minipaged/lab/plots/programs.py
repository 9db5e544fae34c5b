"""Lab: programs of a decode step that ask for the same K and V."""

from collections.abc import Mapping

from minipaged.draw.letters import PART, counted
from minipaged.draw.palette import BAD, GOOD, line_colour, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable


def plot_programs(
    contexts: Mapping[str, int | BlockTable],
    num_heads: int,
    num_kv_heads: int,
    title: str,
) -> Figure:
    """At the left a program for each query head, at the right one for each KV head.

    Drawn is the first sequence, with the query heads that share its KV head 0; an arrow
    is a program that asks for all K and V of it. A program is a frame, in it its query
    heads. Below is how many programs there are for each sequence and KV head.

    contexts: the tokens of each sequence, by name, or its table.
    """
    name, held = next(iter(contexts.items()))
    num_tokens = held if isinstance(held, int) else held.num_tokens
    group, picture = num_heads // num_kv_heads, Picture(title)
    each = _panel("query", name, num_tokens, group, heads=1)
    picture.beside(each, _panel("KV", name, num_tokens, group, heads=group))
    return render(picture.scene())


def _panel(kind: str, name: str, num_tokens: int, group: int, heads: int) -> Picture:
    """Programs that have so many of the group's query heads each."""
    panel, count = Picture(f"A program for each {kind} head"), group // heads
    often = "once" if count == 1 else f"{count} times"
    style = {"size": PART, "color": GOOD if count == 1 else BAD}
    panel.text(f"K and V are asked for {often}", **style)
    said = f"{name}, KV head 0: K and V of {counted(num_tokens, 'token')}"
    kept = panel.row("", "", [Cell(said, strong(name))], fills=True)
    said = "head {}" if group <= 4 else "{}"
    cells = [Cell(said.format(head), soft(name)) for head in range(group)]
    gap = 14.0 if group <= 8 else 3.0
    queries = panel.row("", "", cells, fills=True, gap=gap)
    for first in range(0, group, heads):
        panel.frame(queries[first : first + heads], theme().ink)
        colour = line_colour(name)
        panel.link(kept[0], queries[first : first + heads], colour)
    remark = "for each sequence and KV head"
    panel.headline(counted(count, "program"), remark)
    return panel
