"""Lab: blocks that are asked for, and the blocks to which their hashes lead."""

from collections.abc import Sequence

from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import soft
from minipaged.lab.plots.render import Figure, render


def plot_collisions(
    asked: Sequence[str],
    held: Sequence[str],
    leads: Sequence[int],
    title: str,
    keys: Sequence[int] = (),
) -> Figure:
    """Above, what B asks for, below, what A holds; an arrow where a key leads.

    asked, held: what stands in each block. leads: for each that is asked for, which of
    those held has its key. If their contents differ, the arrow bears a cross.
    keys: of those held; written beside each block.
    """
    blocks, most = Picture(title, widest=200.0), max(len(asked), len(held))
    rows = []
    wanted = [keys[target] for target in leads] if keys else []
    for name, texts, own in zip("BA", (asked, held), (wanted, keys), strict=True):
        said = [f"{name}'s entry {at}" for at in range(len(texts))]
        if own:
            said = [f"{one}: key {key}" for one, key in zip(said, own, strict=True)]
        pairs = zip(texts, said, strict=True)
        caption = "below" if rows else "above"  # arrows arrive at the cells themselves
        cells = [Cell(text, soft(name), **{caption: words}) for text, words in pairs]
        if rows:
            blocks.space(0)  # arrows need more room
        start = (most - len(texts)) / 2
        rows.append(blocks.row("", "", cells, gap=16.0, start=start, height=30.0))
    for number, (said, target) in enumerate(zip(asked, leads, strict=True)):
        is_false = said != held[target]
        style = {"is_followed": True, "is_false": is_false}
        ends = rows[0][number], rows[1][target]
        blocks.link(*ends, BAD if is_false else GOOD, **style)
    blocks.text("the same content", color=GOOD)
    blocks.text("×  the same key, another content", color=BAD)
    return render(blocks.scene())
