"""Lab: what share of the weight each block has, by the right rule and by wrong ones."""

from collections.abc import Mapping, Sequence

from minipaged.draw.bands import Drawn
from minipaged.draw.letters import visible
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_shares(
    parts: Mapping[str, Sequence[float]],
    title: str,
    name: str = "A",
    blocks: Sequence[int] = (),
    words: Sequence[str] = (),
) -> Figure:
    """A bar for each rule, as long as all its weight, cut into what each block gets.

    parts: by rule, what each block counts, in any unit; the first rule is the right
    one. The block that should count most is strong everywhere, and dotted lines show
    where the right bar is cut. blocks: their ids. words: of each block, written above.
    """
    picture, rows = Picture(title), []
    right = _shares(next(iter(parts.values())))
    tones = [soft(name)] * len(right)
    tones[right.index(max(right))] = strong(name)
    for rule, counts in parts.items():
        shares = _shares(counts)
        cells = [
            Cell("", tone, share, below=f"{100 * share:.0f} %")
            for tone, share in zip(tones, shares, strict=True)
        ]
        if not rows and words:
            said = (" ".join(map(visible, own.split())) for own in words)
            pairs = zip(cells, said, strict=True)
            cells = [cell._replace(above=own) for cell, own in pairs]
        options = {"fills": True, "is_bold": not rows, "height": 32.0}
        rows.append(picture.row(rule, "", cells, **options))
    for at in range(len(right)):
        picture.over(rows[0][at], f"block {blocks[at] if blocks else at}", "none")

    def draw_cuts(sheet: Sheet, *place: float) -> None:
        for at in range(1, len(right)):
            x = rows[0].area(at, at + 1).x
            ends = (x, rows[0].y + rows[0].height), (x, rows[-1].y)
            style = {"linestyle": ":", "color": sheet.look.ink, "linewidth": 1.2}
            sheet.line(*ends, **style)

    picture.add(Drawn(0.0, draw_cuts))
    return render(picture.scene())


def _shares(parts: Sequence[float]) -> list[float]:
    return [float(part) / float(sum(parts)) for part in parts]
