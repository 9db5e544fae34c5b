"""Lab: many launches in rows, by what each is short of; a dot for each."""

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import PART
from minipaged.draw.palette import line_colour
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.lab.plots.render import render

LEFT, RIGHT = 192.0, 96.0  # pixels beside the dots, for words
TOP, HIGH, STEP = 26.0, 46.0, 64.0  # above rows; of a row's dots; to the next row
GOLDEN = 0.618034  # its multiples spread evenly between 0 and 1
FAST = 80.0  # percent of the best


def plot_sieve(speeds: Mapping[str, Sequence[float]], title: str) -> Figure:
    """A row for each group, a dot for each launch: its speed, in % of the best.

    Up and down says nothing: dots are spread so that each can be seen. The longer line
    is the median. At the right, how many are to the right of FAST.
    """
    sheet = Sheet(title)
    scale = scale_of((0, 100), LEFT, SPAN - LEFT - RIGHT, False, limits=(0, 100))
    bottom = TOP + STEP * len(speeds)
    for tick in scale.ticks:
        x, words = scale.x(tick), f"{tick:.0f} %"
        sheet.line((x, TOP), (x, bottom), alpha=0.35, layer=0)
        sheet.write(x, bottom + 12, words, ha="center", color=sheet.look.quiet)
    sheet.write(SPAN, 10, f"{FAST:.0f} % or more", ha="right")
    for row, (name, values) in enumerate(speeds.items()):
        _draw_row(sheet, TOP + row * STEP, scale, name, values)
    said = "speed, in % of the best launch of its batch; line: median"
    sheet.write(LEFT, bottom + 32, said)
    return render(sheet.finish(bottom + 42))


def _draw_row(
    sheet: Sheet, y: float, scale: Scale, name: str, values: Sequence[float]
) -> None:
    """The dots of a group, their median, and how many of them are fast."""
    many = f"{len(values):,} launch" + "es" * (len(values) != 1)
    sheet.label(y, STEP, name, many)
    first = y + (STEP - HIGH) / 2
    heights = [first + HIGH * (n * GOLDEN % 1) for n in range(len(values))]
    places = [*zip(map(scale.x, values), heights, strict=True)]
    style = {"color": line_colour(0), "size": 3.2, "alpha": 0.45, "linewidth": 0}
    sheet.dots(places, "o", **style)
    middle = scale.x(statistics.median(values))
    ends = (middle, y + 4), (middle, y + STEP - 4)
    sheet.line(*ends, color=sheet.look.ink, linewidth=2.2, layer=3)
    share = sum(value >= FAST for value in values) / len(values)
    sheet.write(SPAN, y + STEP / 2, f"{share:.0%}", PART, ha="right")
    sheet.line((0, y + STEP), (SPAN, y + STEP), alpha=0.35)
