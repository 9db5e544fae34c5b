"""Lab: what lies over the rows of a picture: links between cells, and crosses."""

from minipaged.draw.palette import BAD
from minipaged.draw.rows import Area, Span
from minipaged.draw.sheet import Sheet


def draw_link(
    sheet: Sheet,
    source: Span,
    target: Span,
    colour: str | None,
    is_followed: bool,
    words: str,
) -> None:
    """Upright between rows one below the other; level between panels; else an arc."""
    start, end = (span.row.area(span.start, span.stop) for span in (source, target))
    if source.row is target.row:
        low = start.y + start.height + source.row.below + 3
        points = (start.middle, low), (end.middle, low)
        deep = low + 44
        bends = (start.middle, deep), (end.middle, deep)
        style = {"color": colour or sheet.look.ink, "linewidth": 1.6, "head": 11}
        sheet.curve((points[0], *bends, points[1]), **style)
        if words:
            middle = (start.middle + end.middle) / 2
            sheet.write(middle, low + 42, words, ha="center")
        return
    style = {"colour": colour, "is_followed": is_followed}
    if source.row.picture is target.row.picture:
        is_down = start.y < end.y
        upper, lower = (source, target) if is_down else (target, source)
        areas = [span.row.area(span.start, span.stop) for span in (upper, lower)]
        ends = [
            (areas[0].middle, areas[0].y + areas[0].height + upper.row.below + 3),
            (areas[1].middle, areas[1].y - lower.row.above - 3),
        ]
        sheet.arrow(*(ends if is_down else ends[::-1]), is_upright=True, **style)
        if words:
            (x0, y0), (x1, y1) = ends
            place = (x0 + x1) / 2 + 8, (y0 + y1) / 2
            sheet.write(*place, words, color=sheet.look.quiet)
    else:
        is_right = start.x < end.x
        x0 = _side(source, start, is_right)
        x1 = _side(target, end, not is_right)
        aside = 3 if is_right else -3
        y0, y1 = (area.y + area.height / 2 for area in (start, end))
        sheet.arrow((x0 + aside, y0), (x1 - aside, y1), **style)


def _side(span: Span, area: Area, is_right: bool) -> float:
    """Where a level link leaves a span, or arrives: before the label of its row."""
    if is_right:
        return area.x + area.width
    return span.row.x if span.start == 0 else area.x


def draw_cross(sheet: Sheet, area: Area) -> None:
    """Strike an area out."""
    for ends in (
        ((area.x + 4, area.y + 4), (area.x + area.width - 4, area.y + area.height - 4)),
        ((area.x + 4, area.y + area.height - 4), (area.x + area.width - 4, area.y + 4)),
    ):
        sheet.line(*ends, color=BAD, linewidth=2.6)
