"""Lab: quantities of launches in bars: how much of what there is, and in words."""

from collections.abc import Mapping, Sequence

from minipaged.draw.palette import BAD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.measure.launches import Bar
from minipaged.lab.plots.render import Figure, render

MARKS = 1.8, 0.9  # how wide: the least, or the best; and the aim


def plot_quantities(panels: Mapping[str, Sequence[Bar]], title: str) -> Figure:
    """A heading for each launch, and below it its bars, as `Launch.bars` gives them."""
    picture = Picture(title, widest=400.0)
    for name, bars in panels.items():
        picture.headline(name)
        for bar in bars:
            cells = [Cell("", strong(0), part) for part in bar.used]
            cells += [Cell("", soft(0), part) for part in bar.unused]
            rest = max(0.0, 1 - sum(cell.wide for cell in cells))
            cells += [Cell("", free(), rest)] * (rest > 0)
            lane = picture.lane(bar.name, bar.remark, cells, rim=theme().rim)
            lane.aside, lane.aside_colour = bar.said, BAD if bar.is_bad else theme().ink
            for mark, wide in zip(bar.marks, MARKS, strict=False):
                lane.line(mark, linewidth=wide)
    signs = [(strong(0), "used"), (free(), "not used")]
    if any(bar.unused for bars in panels.values() for bar in bars):
        signs.insert(1, (soft(0), "room for more programs"))
    picture.legend(*signs)
    return render(picture.scene())
