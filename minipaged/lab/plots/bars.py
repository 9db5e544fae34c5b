"""Lab: named bars with their values, some of them marked."""

from collections.abc import Collection, Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import width_of
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, others, strong
from minipaged.lab.plots.render import render

HEIGHT, ROW = 20.0, 28.0  # pixels of a bar, and from one to the next


def plot_bars(
    values: Mapping[str, float],
    title: str,
    unit: str,
    marked: Collection[str] = (),
    ends: Mapping[str, float] | None = None,
    ends_are: str = "",
) -> Figure:
    """A bar for each value, from zero on; the marked ones are in colour, and bold.

    unit: what the values count, as "ms to the first token". ends: how much of a value
    is of another kind, which is `ends_are`; this end of its bar is told apart.
    """
    sheet = Sheet(title)
    said = {name: _written(value) for name, value in values.items()}
    left = max(width_of(name, bold=True) for name in values) + 14
    right = max(width_of(words, bold=True) for words in said.values()) + 14
    whole = SPAN - left - right
    most = max(values.values()) or 1.0
    for row, (name, value) in enumerate(values.items()):
        y, is_marked = ROW * row, name in marked
        tone: Tone = strong(0) if is_marked else others()
        weight = {"weight": "bold" if is_marked else "normal"}
        length = max(1.0, whole * value / most)
        sheet.write(left - 10, y + HEIGHT / 2, name, ha="right", **weight)
        sheet.box(left, y, length, HEIGHT, tone)
        if ends and ends.get(name):
            end = whole * ends[name] / most
            sheet.box(left + length - end, y, end, HEIGHT, Tone(BAD))
        sheet.write(left + length + 8, y + HEIGHT / 2, said[name], **weight)
    bottom = ROW * len(values) + 8
    sheet.line((left, -4), (left, bottom - 10))
    sheet.write(left, bottom, unit, color=sheet.look.quiet)
    if ends:
        bottom += 24
        sheet.legend(left, bottom, [(Tone(BAD), ends_are)])
    return render(sheet.finish(bottom + 8))


def _written(value: float) -> str:
    """With three digits, as far as that makes sense."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
