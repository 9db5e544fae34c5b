"""Lab: what lies over the rows of a picture: links between cells, and crosses."""

from collections.abc import Sequence

from minipaged.draw.marks import Point
from minipaged.draw.palette import BAD
from minipaged.draw.rows import Area, Row, Span
from minipaged.draw.sheet import LINE, Sheet

STEP = 16.0  # pixels between cells in which an arrow has room


def is_step(source: Span, target: Span) -> bool:
    """Do they stand side by side in a row, with room for an arrow between them?"""
    first, last = sorted((source, target), key=lambda span: span.start)
    is_near = source.row is target.row and first.stop == last.start
    return is_near and source.row.gap >= STEP


def draw_link(
    sheet: Sheet,
    source: Span,
    target: Span,
    aside: float,
    passed: Sequence[Row],
    colour: str | None,
    is_followed: bool,
    words: str,
    is_false: bool,
    is_straight: bool,
    is_level: bool,
) -> None:
    """Upright between rows; level between panels, or side by side; else an arc.

    aside: where an upright arrow ends, in pixels from the target's middle. passed: rows
    above the target that a plain arrow does not cross, but runs beside.
    """
    start, end = (span.row.area(span.start, span.stop) for span in (source, target))
    colour = colour or (BAD if is_false else None)
    style = {"colour": colour, "is_followed": is_followed, "is_straight": is_straight}
    is_level |= source.row.x != target.row.x or is_step(source, target)
    if source.row is target.row and not is_level:
        return _draw_arc(sheet, source, target, colour, words)
    if is_level:
        is_right = start.x < end.x
        air = 3 if is_right else -3
        x0 = _side(source, start, is_right) + air
        x1 = _side(target, end, not is_right) - air
        y0, y1 = start.y + start.height / 2, end.y + end.height / 2
        sheet.arrow((x0, y0), (x1, y1), **style)
        middle = (x0 + x1) / 2, (y0 + y1) / 2 - 15
    else:
        is_down = start.y < end.y
        upper, lower = (source, target) if is_down else (target, source)
        areas = [span.row.area(span.start, span.stop) for span in (upper, lower)]
        x0, x1 = (area.middle for area in areas)
        x0, x1 = (x0, x1 + aside) if is_down else (x0 + aside, x1)
        y0 = areas[0].y + areas[0].height + upper.row.reach(x0, False) + 3
        y1 = areas[1].y - lower.row.reach(x1, True) - 3
        ends = (x0, y0), (x1, y1)
        if passed and not (words or is_false or is_straight):
            return _draw_beside(sheet, *ends, target, passed, style)
        ends = ends if is_down else ends[::-1]
        sheet.arrow(*ends, is_upright=True, **style)
        lines = words.splitlines()
        # A flat arrow reaches further aside at the height of the words.
        away = (14 if is_false else 8) + min(40, 10 * abs(x1 - x0) / abs(y1 - y0))
        for at, line in enumerate(lines):
            left = (x0 + x1) / 2 + away
            low = (y0 + y1) / 2 + LINE * (at - (len(lines) - 1) / 2)
            sheet.write(left, low, line, color=colour or sheet.look.quiet)
        middle = _early(*ends)
    if is_false:
        draw_cross(sheet, Area(middle[0] - 10, middle[1] - 10, 20, 20))


def _draw_beside(
    sheet: Sheet,
    start: Point,
    end: Point,
    target: Span,
    passed: Sequence[Row],
    style: dict,
) -> None:
    """Down beside the target's column, where there are no words in its way."""
    (x0, y0), (x1, y1) = start, end
    x, low = target.row.edge(target.start) - target.row.gap / 2, y1 - 4
    top = min(row.y - row.above for row in passed)
    middle = (y0 + top) / 2
    bends = [(x0, middle), (x, middle), (x, top), (x, low), (x1, low)]
    sheet.arrow(start, (x1, y1 + 3), bends=bends, **style)


def _early(start: Point, end: Point) -> Point:
    """Where an upright arrow bears a cross: before it meets others."""
    (x0, y0), (x1, y1) = start, end
    return x0 + 0.2 * (x1 - x0), y0 + (y1 - y0) / 3


def _side(span: Span, area: Area, is_right: bool) -> float:
    """Where a level link leaves a span, or arrives: before the label of its row."""
    if is_right:
        return area.x + area.width
    return span.row.x if span.start == 0 else area.x


def _draw_arc(
    sheet: Sheet, source: Span, target: Span, colour: str | None, words: str
) -> None:
    """Below the cells of one row; longer arcs enclose shorter ones."""
    start, end = (span.row.area(span.start, span.stop) for span in (source, target))
    steps = abs(target.start - source.start)
    aside = start.width * max(0.04, 0.3 - 0.1 * steps) * (1 if end.x > start.x else -1)
    x0, x1 = start.middle + aside, end.middle - aside
    low = start.y + start.height + source.row.below + 3
    deep = low + min(44 if words else 58, 18 + 12 * steps)
    style = {"color": colour or sheet.look.ink, "linewidth": 1.6, "head": 11}
    sheet.curve(((x0, low), (x0, deep), (x1, deep), (x1, low)), **style)
    if words:
        sheet.write((x0 + x1) / 2, low + 42, words, ha="center")


def draw_cross(
    sheet: Sheet, area: Area, colour: str = BAD, linewidth: float = 2.6
) -> None:
    """Strike an area out, if it is not too narrow for that."""
    reach = min(area.width, area.height) / 2 - min(4.0, area.width / 5)
    x, y = area.middle, area.y + area.height / 2
    for side in (reach, -reach) if reach > 1.5 else ():
        ends = (x - side, y - reach), (x + side, y + reach)
        sheet.line(*ends, color=colour, linewidth=linewidth)
