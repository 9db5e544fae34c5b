"""Lab: a scene as SVG, which a page shows without a program or a font of ours."""

import re
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from math import cos, pi, sin

from minipaged.draw.letters import DPI, width_of
from minipaged.draw.marks import (
    Area,
    Box,
    Dots,
    Group,
    Mark,
    Point,
    Scene,
    Stroke,
    Words,
)
from minipaged.draw.sheet import MARGIN
from minipaged.draw.style import LINKED, kinds_of, style_sheet

POINT = DPI / 72  # pixels
TITLE_SIZE = 12.0  # points
TITLE, TITLE_LINE = 48.0, 22.0  # pixels above a scene; and for each further line
DASHES = {"--": (3.7, 1.6), ":": (1.0, 1.65), "-.": (6.4, 1.6, 1.0, 1.6)}  # of widths
FONTS = {
    "sans": "DejaVu Sans, Verdana, sans-serif",
    "monospace": "DejaVu Sans Mono, monospace",
}
SHORT = 4  # letters; so few are nearly as wide in any font
APART = 72.0  # pixels that a hatch of one sign has its lines apart, by its length


class Patterns(dict[tuple[str, str], str]):
    """The names of a scene's hatches, by pattern and colour."""

    def __init__(self, prefix: str):
        super().__init__()
        self.prefix = prefix

    def address(self, pattern: str, colour: str) -> str:
        """Of a hatch, which is defined once for each colour."""
        plain = re.sub(r"\W", "", colour)
        name = f"{self.prefix}hatch-{plain}-{len(self) + 1}"
        return f"url(#{self.setdefault((pattern, colour), name)})"


def to_svg(scene: Scene, with_title: bool = True, name: str = "") -> str:
    """The scene as an element `<svg>`, as wide as there is room, up to its own width.

    Longer words keep the width that the layout has reckoned with, in any font. For
    example: `to_svg(Picture("A block").scene())` begins with `<svg viewBox="`.
    name: begins the names of its hatches; on a page, each scene needs another.
    """
    above = TITLE + TITLE_LINE * scene.title.count("\n") if with_title else MARGIN
    wide, high = scene.width + 2 * MARGIN, scene.height + above + MARGIN
    patterns = Patterns(name)
    drawn = _drawn(scene.marks, patterns)
    head = ""
    if with_title:
        lines = enumerate(scene.title.split("\n"))
        title = [
            Words(0, 14 + TITLE_LINE * at - above, line, TITLE_SIZE, scene.ink)
            for at, line in lines
        ]
        head = "".join(_words(line, patterns) for line in title)
        if scene.plate != "none":
            wide_title = max(width_of(line.text, line.size) for line in title)
            size = wide_title + 12, TITLE_LINE * len(title) + 4
            plate = Box(-6, 1 - above, *size, scene.plate, rounding=5.0)
            head = _box(plate, patterns) + head
    ground = ""
    if scene.ground != "none":
        area = Box(-MARGIN, -above, wide, high, scene.ground)
        ground = _box(area, patterns)
    defined = "".join(_pattern(one, *key) for key, one in patterns.items())
    role = "group" if scene.items else "img"
    alt = escape(" ".join(scene.title.split()))
    return (
        f'<svg viewBox="{-MARGIN:g} {-above:g} {wide:g} {high:g}" role="{role}" '
        f'aria-label="{alt}" xmlns="http://www.w3.org/2000/svg" '
        f'style="width:100%;max-width:{wide:g}px;height:auto" '
        f'font-family="{FONTS["sans"]}">'
        f"<defs>{defined}</defs>{ground}{head}{drawn}</svg>"
    )


def to_page(scenes: list[Scene]) -> str:
    """A page of its own, with these scenes one below the other."""
    drawn = "".join(f"<p>{to_svg(scene)}</p>" for scene in scenes)
    keys = {item.keys[0]: None for scene in scenes for item in scene.items if item.keys}
    return (
        f'<!doctype html><html class="mp {LINKED}"><meta charset="utf-8">'
        f"<title>minipaged</title><style>{style_sheet(keys)}</style>{drawn}"
    )


def _drawn(marks: Iterable[Mark], patterns: Patterns) -> str:
    """One after another, those of lower layers first."""
    ordered = sorted(marks, key=lambda mark: mark.layer)
    return "".join(_DRAW[type(mark)](mark, patterns) for mark in ordered)


def _group(group: Group, patterns: Patterns) -> str:
    item = group.item
    style = {"role": None if item.is_hint else item.role or None}
    style |= {"class": kinds_of(item) or None, "tabindex": 0 if item.is_stop else None}
    said = f"<title>{escape(item.title)}</title>" * bool(item.title)
    return f"<g{_attributes(**style)}>{said}{_drawn(group.marks, patterns)}</g>"


def _attributes(**values: object) -> str:
    """Of an element; "_" becomes "-", and what is None is left out."""
    return "".join(
        [
            f' {name.replace("_", "-")}="{_number(value)}"'
            for name, value in values.items()
            if value is not None
        ]
    )


def _number(value: object) -> str:
    """Of a float, five digits; that is a hundredth of a pixel."""
    return f"{value:.5g}" if type(value) is float else escape(str(value))


@cache
def _line(linewidth: float, linestyle: str) -> str:
    """How a stroke is drawn: pixels, and dashes as long as matplotlib's."""
    wide = linewidth * POINT
    dashes = " ".join(f"{wide * part:.2f}" for part in DASHES.get(linestyle, ()))
    return _attributes(stroke_width=wide, stroke_dasharray=dashes or None)


def _faded(alpha: float) -> float | None:
    return None if alpha == 1 else alpha


def _box(box: Box, patterns: Patterns) -> str:
    drawn, (x, y, wide, high) = "", box[:4]
    start = f'<rect x="{x:.5g}" y="{y:.5g}" width="{wide:.5g}" height="{high:.5g}"'
    if box.rounding or box.alpha != 1:
        start += _attributes(rx=box.rounding or None, opacity=_faded(box.alpha))
    if box.face != "none":
        drawn += f'{start} fill="{box.face}"/>'
    if box.pattern:
        fill = patterns.address(box.pattern, box.hatching)
        drawn += f'{start} fill="{fill}"/>'
    if box.rim != "none":
        style = _line(box.linewidth, box.linestyle)
        drawn += f'{start} fill="none" stroke="{box.rim}"{style}/>'
    return drawn


def _words(words: Words, patterns: Patterns) -> str:
    if not words.text:
        return ""
    size = words.size * POINT
    down = {"center": 0.36, "top": 0.93, "bottom": -0.24, "baseline": 0.0}[words.va]
    anchor = {"left": None, "center": "middle", "right": "end"}[words.ha]
    is_bold = words.weight == "bold"
    turn = None
    if words.rotation:
        turn = f"rotate({-words.rotation:g} {words.x:.2f} {words.y:.2f})"
    length = {}
    if len(words.text) > SHORT:
        wide = width_of(words.text, words.size, is_bold, words.family)
        length = {"textLength": wide, "lengthAdjust": "spacingAndGlyphs"}
    return (
        "<text"
        + _attributes(
            x=float(words.x), y=words.y + down * size, font_size=size, fill=words.color,
            text_anchor=anchor, font_weight="bold" if is_bold else None,
            font_family=None if words.family == "sans" else FONTS[words.family],
            transform=turn, **length,
        )
        + f' xml:space="preserve">{escape(words.text)}</text>'
    )  # fmt: skip


def _stroke(stroke: Stroke, patterns: Patterns) -> str:
    points = [f"{x:.2f} {y:.2f}" for x, y in stroke.points]
    if stroke.curved:
        steps = f"M{points[0]}C{' '.join(points[1:4])}"
        steps += "".join(f"L{point}" for point in points[4:])
    else:
        steps = "M" + "L".join(points)
    style = {"fill": "none", "stroke": stroke.color, "opacity": _faded(stroke.alpha)}
    if stroke.linestyle == "-" and not stroke.head:
        style["stroke_linecap"] = stroke.cap
    line = _line(stroke.linewidth, stroke.linestyle)
    drawn = f"<path{_attributes(d=steps, **style)}{line}/>"
    if stroke.head:
        drawn += _head(stroke)
    return drawn


def _head(stroke: Stroke) -> str:
    """A filled triangle at the end, as it is seen from the point before it."""
    (x0, y0), (x1, y1) = stroke.points[-2:]
    far = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
    dx, dy = (x1 - x0) / far, (y1 - y0) / far
    long, half = 0.4 * stroke.head * POINT, 0.2 * stroke.head * POINT
    corners = [
        (x1, y1),
        (x1 - long * dx - half * dy, y1 - long * dy + half * dx),
        (x1 - long * dx + half * dy, y1 - long * dy - half * dx),
    ]
    style = {"fill": stroke.color, "stroke": stroke.color}
    style |= {"stroke_width": stroke.linewidth * POINT, "stroke_linejoin": "miter"}
    return _polygon(corners, **style, opacity=_faded(stroke.alpha))


def _area(area: Area, patterns: Patterns) -> str:
    fill = area.face
    if fill == "none" and area.pattern:
        fill = patterns.address(area.pattern, area.hatching)
    return _polygon(area.corners, fill=fill, opacity=_faded(area.alpha))


def _polygon(corners: object, **style: object) -> str:
    points = " ".join(f"{x:.2f},{y:.2f}" for x, y in corners)
    return f"<polygon{_attributes(points=points, **style)}/>"


def _dots(dots: Dots, patterns: Patterns) -> str:
    radius = dots.size * POINT / 2
    rim = dots.color if dots.rim == "none" else dots.rim
    style = {"fill": dots.color, "opacity": _faded(dots.alpha)}
    if dots.linewidth:
        style |= {"stroke": rim, "stroke_width": dots.linewidth * POINT}
    if dots.marker == "x":
        return "".join(
            _cross(x, y, radius, style | {"fill": "none"}) for x, y in dots.places
        )
    if dots.marker == "o":
        return "".join(
            f"<circle{_attributes(cx=float(x), cy=float(y), r=radius, **style)}/>"
            for x, y in dots.places
        )
    shape = SHAPES[dots.marker]
    return "".join(
        _polygon([(x + radius * a, y + radius * b) for a, b in shape], **style)
        for x, y in dots.places
    )


def _cross(x: float, y: float, radius: float, style: dict) -> str:
    left, right, top, low = x - radius, x + radius, y - radius, y + radius
    steps = f"M{left:.2f} {top:.2f}L{right:.2f} {low:.2f}"
    steps += f"M{left:.2f} {low:.2f}L{right:.2f} {top:.2f}"
    return f"<path{_attributes(d=steps, **style)}/>"


def _star(points: int, inner: float) -> list[Point]:
    """Corners around the middle, the first of them above it."""
    angles = [pi * at / points for at in range(2 * points)]
    radii = [1.0, inner] * points
    return [(r * sin(a), -r * cos(a)) for r, a in zip(radii, angles, strict=True)]


_THIRD = 1 / 3
SHAPES: dict[str, list[Point]] = {
    "s": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "^": [(0, -1), (1, 1), (-1, 1)],
    "v": [(0, 1), (1, -1), (-1, -1)],
    "D": [(0, -1.4142), (1.4142, 0), (0, 1.4142), (-1.4142, 0)],
    "P": [
        (-_THIRD, -1), (_THIRD, -1), (_THIRD, -_THIRD), (1, -_THIRD), (1, _THIRD),
        (_THIRD, _THIRD), (_THIRD, 1), (-_THIRD, 1), (-_THIRD, _THIRD), (-1, _THIRD),
        (-1, -_THIRD), (-_THIRD, -_THIRD),
    ],
    "*": _star(5, 0.381966),
}  # fmt: skip


def _pattern(name: str, pattern: str, colour: str) -> str:
    """Lines or dots, the closer the longer the pattern, as matplotlib draws them."""
    side = APART / len(pattern) / 6
    size = _attributes(id=name, width=side, height=side, patternUnits="userSpaceOnUse")
    if pattern[0] == ".":
        middle = {"cx": side / 2, "cy": side / 2, "r": 1.2, "fill": colour}
        return f"<pattern{size}><circle{_attributes(**middle)}/></pattern>"
    ends = (
        f"M0 {side:.2f}L{side:.2f} 0"
        if pattern[0] == "/"
        else (f"M0 0L{side:.2f} {side:.2f}")
    )
    style = {"stroke": colour, "stroke_width": POINT, "stroke_linecap": "square"}
    return f"<pattern{size}><path{_attributes(d=ends, **style)}/></pattern>"


_DRAW: dict[type, Callable[..., str]] = {
    Box: _box,
    Words: _words,
    Stroke: _stroke,
    Area: _area,
    Dots: _dots,
    Group: _group,
}
