"""Lab: signs of series, axes and reference lines that several charts share."""

from collections.abc import Sequence

from minipaged.draw.letters import width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.scales import Scale
from minipaged.draw.sheet import SPAN, Sheet

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
SIZE = 6.5  # points of a marker


def marker_of(series: int) -> dict[str, str | float]:
    """The sign of a series: a shape and a colour of its own."""
    marker = MARKERS[series % len(MARKERS)]
    return {"marker": marker, "color": line_colour(series), "size": SIZE}


def draw_series(sheet: Sheet, series: Sequence[str]) -> float:
    """What the markers mean, in as many lines as it takes; where they end."""
    x, y = 0.0, 8.0
    for index, name in enumerate(series):
        if x and x + 18 + width_of(name) > SPAN:
            x, y = 0.0, y + 18
        sheet.dots([(x + 5, y)], **marker_of(index))
        sheet.write(x + 16, y, name, color=sheet.look.quiet)
        x += 16 + width_of(name) + 22
    return y + 16


def draw_axis(
    sheet: Sheet, scale: Scale, spans: Sequence[tuple[float, float]], xlabel: str
) -> None:
    """Thin lines over all rows at round numbers, the numbers below."""
    quiet = {"ha": "center", "color": sheet.look.quiet}
    bottom = spans[-1][1]
    for tick in scale.ticks:
        x = scale.x(tick)
        for start, end in spans:
            sheet.line((x, start), (x, end), alpha=0.35, layer=0)
        x = min(x, SPAN - width_of(f"{tick:g}") / 2)
        sheet.write(x, bottom + 10, f"{tick:,g}", **quiet)
    right = scale.left + scale.width
    sheet.line((scale.left, bottom), (right, bottom), layer=1)
    left = max(0.0, min(scale.left, SPAN - 1.05 * width_of(xlabel)))
    sheet.write(left, bottom + 32, xlabel)


def draw_reference(
    sheet: Sheet,
    scale: Scale,
    reference: float,
    span: tuple[float, float],
    said: str,
    sides: tuple[str, str],
) -> None:
    """A line over all rows; the words stand above its end, `sides` beside them."""
    x, (top, bottom) = scale.x(reference), span
    sheet.line((x, top), (x, bottom), color=sheet.look.ink, linewidth=1.6, layer=1)
    quiet, (left, right) = {"color": sheet.look.quiet}, sides
    half, beside = width_of(said) / 2, width_of(f"{right} →") + 14
    end = scale.left + scale.width
    middle = min(max(x, scale.left + half), end - half - beside)
    sheet.write(middle, top - 9, said, ha="center")
    sheet.write(middle - half - 14, top - 9, f"← {left}", ha="right", **quiet)
    sheet.write(middle + half + 14, top - 9, f"{right} →", **quiet)
