"""Lab: measurements as dots in rows, which a reader compares along one axis."""

from collections.abc import Container, Iterator, Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import line_colour
from minipaged.lab.plots.scales import Scale, scale_of
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import others

ROW, GROUP = 26.0, 34.0  # pixels from row to row; for the heading of a group
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
SIZE, NEAR, APART = 6.5, 9.0, 8.0  # of a marker; nearer ones are moved up or down
INDENT, MOST = 14.0, 270.0  # of rows below a heading; of words beside the rows
OUTSIDE = 24.0  # pixels of a dot that does not fit on the axis, beside its number
Value = float | None | Sequence[float]
Groups = Mapping[str, Mapping[str, Mapping[str, Value]]]


def plot_dots(
    groups: Groups,
    title: str,
    xlabel: str,
    reference: float | None = None,
    said: str = "",
    sides: tuple[str, str] = ("", ""),
    logarithmic: bool = True,
    limits: tuple[float, float] | None = None,
    doubt: Mapping[str, float] | None = None,
) -> Figure:
    """A row for each thing that was measured, in it a dot for each series.

    groups: by heading, by row, by series: a number, several (their range is drawn,
    too), or None for what was not measured. The heading "" is not written. reference: a
    number that gets a line, `said` above it, `sides` to its left and right.
    logarithmic: equal ratios are equally far apart. limits: the ends of the axis; what
    lies outside stands beside it, with an arrow and its number. doubt: by row, what was
    found when the reference was measured again, divided by what was found before.
    """
    rows = [row for group in groups.values() for row in group.values()]
    series = list(dict.fromkeys(name for row in rows for name in row))
    values = [n for row in rows for value in row.values() for n in _numbers(value)]
    values += [reference] * (reference is not None)
    words = [label for group in groups.values() for label in group]
    indent = INDENT * any(groups)
    left = min(MOST, indent + max(map(width_of, words)) + 16)
    sheet, low, high = Sheet(title), *(limits or (min(values), max(values)))
    before = max(_width(_outside(row, low, below=True)) for row in rows)
    after = max(_width(_outside(row, high, below=False)) for row in rows)
    whole = SPAN - left - before - after
    scale = scale_of(values, left + before, whole, logarithmic, limits)
    measured = {n for row in rows for n, value in row.items() if _numbers(value)}
    y = draw_series(sheet, series, measured)
    has_words = bool(said or any(sides))
    if doubt:
        y = _draw_key_of_doubt(sheet, y)
    top = y + 20.0 * has_words
    bottom = top + _height(groups)
    draw_axis(sheet, scale, list(_spans(groups, top)), xlabel)
    if reference is not None:
        draw_reference(sheet, scale, reference, (top, bottom), said, sides)
    y = top
    for heading, group in groups.items():
        if heading:
            y += GROUP
            sheet.write(0, y - 12, heading, PART, weight="bold")
        for label, row in group.items():
            sheet.write(indent, y + ROW / 2, label)
            line = (scale.left, y + ROW / 2), (scale.left + whole, y + ROW / 2)
            if doubt and label in doubt and reference is not None:
                _draw_doubt(sheet, scale, y, reference, doubt[label])
            sheet.line(*line, linestyle=(0, (1, 3)), zorder=1)
            _draw_outside(sheet, scale, y + ROW / 2, row, series)
            _draw_row(sheet, scale, y + ROW / 2, row, series)
            y += ROW
    sheet.finish(bottom + 44)
    return sheet.figure


def _draw_doubt(
    sheet: Sheet, scale: Scale, y: float, reference: float, again: float
) -> None:
    """As far as two measurements of the same differ, to both sides."""
    apart = max(again, 1 / again)
    left, right = scale.x(reference / apart), scale.x(reference * apart)
    sheet.box(left, y + 3, right - left, ROW - 6, others())


def _draw_key_of_doubt(sheet: Sheet, y: float) -> float:
    """What the boxes mean, in a line of its own; where it ends."""
    sheet.box(0, y - 6, 12, 12, others())
    said = "two runs of ours differ by this"
    sheet.write(18, y, said, color=sheet.look.quiet)
    return y + 18


def _numbers(value: Value) -> list[float]:
    if value is None:
        return []
    return list(value) if isinstance(value, Sequence) else [value]


def _outside(
    row: Mapping[str, Value], limit: float, below: bool
) -> list[tuple[str, str]]:
    """What of a row does not fit on the axis: by series, in words."""
    found = []
    for name, value in row.items():
        numbers = [n for n in _numbers(value) if (n < limit if below else n > limit)]
        if numbers:
            low, high = f"{min(numbers):.2g}", f"{max(numbers):.2g}"
            span = low if low == high else f"{low}–{high}"
            found.append((min(numbers), name, f"← {span}" if below else f"{span} →"))
    return [(name, said) for _, name, said in sorted(found)]


def _width(outside: Sequence[tuple[str, str]]) -> float:
    """Pixels of what stands beside the axis."""
    return sum(OUTSIDE + width_of(said) for _, said in outside)


def _draw_outside(
    sheet: Sheet, scale: Scale, y: float, row: Mapping[str, Value], series: list[str]
) -> None:
    """Markers with their numbers beside the axis, on the side where they lie."""
    below = _outside(row, scale.lowest, below=True)
    above = _outside(row, scale.highest, below=False)
    for x, outside in (
        (scale.left - _width(below) - 4, below),
        (scale.left + scale.width + 8, above),
    ):
        for name, said in outside:
            place = [x + 6], [y]
            sheet.axes.plot(*place, zorder=3, **marker_of(series.index(name)))
            sheet.write(x + 14, y, said)
            x += OUTSIDE + width_of(said)


def _height(groups: Groups) -> float:
    return sum(GROUP * bool(name) + ROW * len(group) for name, group in groups.items())


def marker_of(series: int) -> dict[str, str | float]:
    """The sign of a series: a shape and a colour of its own."""
    colour = line_colour(series)
    style = {"color": colour, "linestyle": "none", "markersize": SIZE}
    return {"marker": MARKERS[series % len(MARKERS)], **style}


def draw_series(
    sheet: Sheet, series: Sequence[str], shown: Container[str] | None = None
) -> float:
    """What the markers mean, in as many lines as it takes; where they end.

    shown: only these are named; markers stay those of the place in `series`.
    """
    x, y = 0.0, 8.0
    for index, name in enumerate(series):
        if shown is not None and name not in shown:
            continue
        if x and x + 18 + width_of(name) > SPAN:
            x, y = 0.0, y + 18
        sheet.axes.plot([x + 5], [y], **marker_of(index))
        sheet.write(x + 16, y, name, color=sheet.look.quiet)
        x += 16 + width_of(name) + 22
    return y + 16


def _spans(groups: Groups, top: float) -> Iterator[tuple[float, float]]:
    """From where to where the rows of each group go."""
    for heading, group in groups.items():
        top += GROUP * bool(heading)
        yield top, top + ROW * len(group)
        top += ROW * len(group)


def draw_axis(
    sheet: Sheet, scale: Scale, spans: Sequence[tuple[float, float]], xlabel: str
) -> None:
    """Thin lines over all rows at round numbers, the numbers below."""
    quiet = {"ha": "center", "color": sheet.look.quiet}
    bottom = spans[-1][1]
    for tick in scale.ticks:
        x = scale.x(tick)
        for start, end in spans:
            sheet.line((x, start), (x, end), alpha=0.35, zorder=0)
        x = min(x, SPAN - width_of(f"{tick:g}") / 2)
        sheet.write(x, bottom + 10, f"{tick:,g}", **quiet)
    right = scale.left + scale.width
    sheet.line((scale.left, bottom), (right, bottom), zorder=1)
    left = max(0.0, min(scale.left, SPAN - 1.05 * width_of(xlabel)))
    sheet.write(left, bottom + 32, xlabel)


def draw_reference(
    sheet: Sheet,
    scale: Scale,
    reference: float,
    span: tuple[float, float],
    said: str,
    sides: tuple[str, str] = ("", ""),
) -> None:
    """A line over all rows; the words stand above its end."""
    x, (top, bottom) = scale.x(reference), span
    sheet.line((x, top), (x, bottom), color=sheet.look.ink, linewidth=1.6, zorder=1)
    quiet, (left, right) = {"color": sheet.look.quiet}, sides
    half, beside = width_of(said) / 2, width_of(f"{right} →") + 14 if right else 0.0
    end = scale.left + scale.width
    middle = min(max(x, scale.left + half), end - half - beside)
    sheet.write(middle, top - 9, said, ha="center")
    if left:
        sheet.write(middle - half - 14, top - 9, f"← {left}", ha="right", **quiet)
    if right:
        sheet.write(middle + half + 14, top - 9, f"{right} →", **quiet)


def _draw_row(
    sheet: Sheet, scale: Scale, y: float, row: Mapping[str, Value], series: list[str]
) -> None:
    """The dots; those that would hide each other are moved up or down a little."""
    for name, value in row.items():
        seen = [n for n in _numbers(value) if scale.lowest <= n <= scale.highest]
        if len(_numbers(value)) > 1 and seen:
            style = {"color": line_colour(series.index(name)), "linewidth": 1.4}
            ends = scale.x(min(seen)), scale.x(max(seen))
            sheet.line((ends[0], y), (ends[1], y), alpha=0.6, zorder=1, **style)
            places = [scale.x(number) for number in seen], [y] * len(seen)
            sheet.axes.plot(*places, zorder=3, **marker_of(series.index(name)))
    single = [
        (value, series.index(name))
        for name, value in row.items()
        if len(numbers := _numbers(value)) == 1
        for value in numbers
        if scale.lowest <= value <= scale.highest
    ]
    for dots in _together(single, scale):
        for at, (number, index) in enumerate(dots):
            shift = (at - (len(dots) - 1) / 2) * APART
            place = [scale.x(number)], [y + shift]
            sheet.axes.plot(*place, zorder=3, **marker_of(index))


def _together(
    dots: Sequence[tuple[float, int]], scale: Scale
) -> list[list[tuple[float, int]]]:
    """From left to right; those that would touch each other in one list."""
    found: list[list[tuple[float, int]]] = []
    for dot in sorted(dots):
        if found and scale.x(dot[0]) - scale.x(found[-1][-1][0]) < NEAR:
            found[-1].append(dot)
        else:
            found.append([dot])
    return found
