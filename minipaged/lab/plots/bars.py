"""Lab: named bars with their values, some of them marked."""

from collections.abc import Collection, Mapping

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, others, strong
from minipaged.lab.plots.render import Figure, render


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
    picture = Picture(title)
    most = max(values.values()) or 1.0
    for name, value in values.items():
        is_marked, end = name in marked, (ends or {}).get(name, 0.0)
        tone = strong(0) if is_marked else others()
        parts = (tone, value - end), (Tone(BAD), end)
        # In parts of a hundred: a unit of cells takes only so many pixels.
        cells = [Cell("", each, wide=100 * part / most) for each, part in parts if part]
        said = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        style = {"is_bold": is_marked, "is_heavy": is_marked, "height": 20, "apart": 8}
        picture.row(name, "", cells or [Cell(wide=0.1)], aside=said, **style)
    picture.text(unit)
    if ends:
        picture.legend((Tone(BAD), ends_are))
    return render(picture.scene())
