"""Lab: quantities of launches in bars: how much of what there is, and in words."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import PART
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.measure.launches import Bar
from minipaged.lab.plots.render import render

LEFT, RIGHT = 160.0, 210.0  # pixels beside the bars, for words
LONG = SPAN - LEFT - RIGHT
HIGH, STEP, HEAD, BETWEEN = 22.0, 43.0, 32.0, 20.0  # of a bar; to the next; and so on
MARKS = 1.8, 0.9  # how wide: the least, or the best; and the aim


def plot_quantities(panels: Mapping[str, Sequence[Bar]], title: str) -> Figure:
    """A heading for each launch, and below it its bars, as `Launch.bars` gives them."""
    sheet, y = Sheet(title), 0.0
    for name, bars in panels.items():
        sheet.write(0, y + 8, name, PART, weight="bold")
        y += HEAD
        for bar in bars:
            _draw(sheet, y, bar)
            y += STEP
        y += BETWEEN
    signs = [(strong(0), "used"), (free(), "not used")]
    if any(bar.unused for bars in panels.values() for bar in bars):
        signs.insert(1, (soft(0), "room for more programs"))
    sheet.legend(0, y - BETWEEN + 8, signs)
    return render(sheet.finish(y - BETWEEN + 16))


def _draw(sheet: Sheet, y: float, bar: Bar) -> None:
    """What it is, how much of it is used, and in words."""
    sheet.label(y, HIGH, bar.name, bar.remark)
    sheet.box(LEFT, y, LONG, HIGH, free(), sheet.look.rim)
    widths = [LONG * part for part in (*bar.used, *bar.unused)]
    tones = [strong(0)] * len(bar.used) + [soft(0)] * len(bar.unused)
    sheet.cells(LEFT, y, widths, HIGH, tones)
    for mark, wide in zip(bar.marks, MARKS, strict=False):
        x, style = LEFT + LONG * mark, {"color": sheet.look.ink, "linewidth": wide}
        sheet.line((x, y - 5), (x, y + HIGH + 5), **style)
    colour = BAD if bar.is_bad else sheet.look.ink
    sheet.write(LEFT + LONG + 12, y + HIGH / 2, bar.said, PART, color=colour)
