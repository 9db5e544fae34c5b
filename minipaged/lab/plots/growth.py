"""Lab: how a cache of K and V grows, step by step."""

from collections.abc import Sequence

from minipaged.draw.letters import visible
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_kv_growth(
    words: Sequence[str],
    stored: Sequence[int],
    title: str,
    num_prompt: int,
    name: str = "A",
    without: Sequence[int] = (),
) -> Figure:
    """One row per step: the columns of K and V that were there, and the new ones.

    words: the texts of all tokens. stored: columns in the cache after each step; the
    first step computes the prompt of `num_prompt` tokens. The word behind a row is what
    the step has chosen: the next step computes its column. name: whose they are.
    without: tokens computed in each step of the same answer without a cache; drawn
    above, to the same scale. K and V of a token are one cell.
    """
    picture, words = Picture(title), [visible(word) for word in words]
    new = [Cell("", strong(name))] * len(words)
    kept = [Cell("", soft(name))] * len(words)
    style = {"height": 13, "apart": 3}
    signs = (strong(name), "computed in this step"), (soft(name), "kept in the cache")
    picture.legend(*signs)
    heads = {"height": 14, "apart": 0, "is_upright": True}
    if without:
        said = f"Without a cache: {sum(without)} tokens computed in all"
        picture.headline(said)
        cells = [Cell(above=word) for word in words[: max(without)]]
        picture.row("", "", cells, values=["computed"], **heads)
        for step, computed in enumerate(without):
            style |= {"values": [str(computed)]}
            picture.row(f"step {step + 1}", "", new[:computed], **style)
        picture.space()
        picture.headline(f"With a cache: {stored[-1]} tokens computed in all")
    cells = [Cell(above=word) for word in words[: stored[0]]]
    picture.row("", "", cells, values=["computed", "read"], **heads)
    for step, (before, after) in enumerate(zip([0, *stored], stored, strict=False)):
        label = "prefill" if before < num_prompt else f"decode {step}"
        cells = kept[:before] + new[before:after]
        values = [str(after - before), str(after)]
        chosen = words[after] if after < len(words) else ""
        if chosen and step == 0:
            chosen += "  ← chosen; the next step computes it"
        style |= {"values": values, "aside": chosen}
        picture.row(label, "", cells, **style)
    return render(picture.scene())
