"""Lab: a scene as SVG, which a page shows without a program or a font of ours."""

from collections.abc import Callable
from html import escape
from math import cos, pi, sin

from minipaged.draw.letters import DPI, width_of
from minipaged.draw.marks import Area, Box, Dots, Point, Scene, Stroke, Words
from minipaged.draw.sheet import MARGIN

POINT = DPI / 72  # pixels
TITLE_SIZE = 12.0  # points
TITLE, TITLE_LINE = 48.0, 22.0  # pixels above a scene; and for each further line
DASHES = {"--": (3.7, 1.6), ":": (1.0, 1.65), "-.": (6.4, 1.6, 1.0, 1.6)}  # of widths
FONTS = {
    "sans": "DejaVu Sans, Verdana, sans-serif",
    "monospace": "DejaVu Sans Mono, monospace",
}
APART = 72.0  # pixels that a hatch of one sign has its lines apart, by its length


def to_svg(scene: Scene, with_title: bool = True) -> str:
    """The scene as an element `<svg>`, as wide as there is room, up to its own width.

    Words keep the width that the layout has reckoned with, whatever the font. For
    example: `to_svg(Picture("A block").scene())` begins with `<svg viewBox="`.
    """
    above = TITLE + TITLE_LINE * scene.title.count("\n") if with_title else MARGIN
    wide, high = scene.width + 2 * MARGIN, scene.height + above + MARGIN
    patterns: dict[tuple[str, str], str] = {}
    ordered = sorted(scene.marks, key=lambda mark: mark.layer)
    drawn = [_DRAW[type(mark)](mark, patterns) for mark in ordered]
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
    defined = "".join(_pattern(name, *key) for key, name in patterns.items())
    alt = escape(" ".join(scene.title.split()))
    return (
        f'<svg viewBox="{-MARGIN:g} {-above:g} {wide:g} {high:g}" role="img" '
        f'aria-label="{alt}" xmlns="http://www.w3.org/2000/svg" '
        f'style="width:100%;max-width:{wide:g}px;height:auto">'
        f"<defs>{defined}</defs>{ground}{head}{''.join(drawn)}</svg>"
    )


def to_page(scenes: list[Scene]) -> str:
    """A page of its own, with these scenes one below the other."""
    drawn = "".join(f"<p>{to_svg(scene)}</p>" for scene in scenes)
    return f'<!doctype html><meta charset="utf-8"><title>minipaged</title>{drawn}'


def _attributes(**values: object) -> str:
    """Of an element; "_" becomes "-", and what is None is left out."""
    given = {name: value for name, value in values.items() if value is not None}
    return "".join(
        f' {name.replace("_", "-")}="{_number(value)}"' for name, value in given.items()
    )


def _number(value: object) -> str:
    return (
        f"{value:.2f}".rstrip("0").rstrip(".")
        if isinstance(value, float)
        else (escape(str(value)))
    )


def _line(linewidth: float, linestyle: str) -> dict[str, object]:
    """How a stroke is drawn: pixels, and dashes as long as matplotlib's."""
    wide = linewidth * POINT
    dashes = " ".join(f"{wide * part:.2f}" for part in DASHES.get(linestyle, ()))
    return {"stroke_width": wide, "stroke_dasharray": dashes or None}


def _faded(alpha: float) -> float | None:
    return None if alpha == 1 else alpha


def _box(box: Box, patterns: dict) -> str:
    area = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
    area |= {"rx": box.rounding or None, "opacity": _faded(box.alpha)}
    drawn = ""
    if box.face != "none":
        drawn += f"<rect{_attributes(**area, fill=box.face)}/>"
    if box.pattern:
        fill = _hatched(box.pattern, box.hatching, patterns)
        drawn += f"<rect{_attributes(**area, fill=fill)}/>"
    if box.rim != "none":
        style = _line(box.linewidth, box.linestyle)
        drawn += f"<rect{_attributes(**area, fill='none', stroke=box.rim, **style)}/>"
    return drawn


def _words(words: Words, patterns: dict) -> str:
    if not words.text:
        return ""
    size = words.size * POINT
    down = {"center": 0.36, "top": 0.93, "bottom": -0.24, "baseline": 0.0}[words.va]
    anchor = {"left": None, "center": "middle", "right": "end"}[words.ha]
    is_bold = words.weight == "bold"
    turn = None
    if words.rotation:
        turn = f"rotate({-words.rotation:g} {words.x:.2f} {words.y:.2f})"
    wide = width_of(words.text, words.size, is_bold, words.family)
    return (
        "<text"
        + _attributes(
            x=float(words.x), y=words.y + down * size, font_size=size, fill=words.color,
            text_anchor=anchor, font_weight="bold" if is_bold else None,
            font_family=FONTS[words.family], transform=turn,
            textLength=wide, lengthAdjust="spacingAndGlyphs",
        )
        + f' xml:space="preserve">{escape(words.text)}</text>'
    )  # fmt: skip


def _stroke(stroke: Stroke, patterns: dict) -> str:
    points = [f"{x:.2f} {y:.2f}" for x, y in stroke.points]
    if stroke.curved:
        steps = f"M{points[0]}C{' '.join(points[1:4])}"
        steps += "".join(f"L{point}" for point in points[4:])
    else:
        steps = "M" + "L".join(points)
    style = {"fill": "none", "stroke": stroke.color, "opacity": _faded(stroke.alpha)}
    style |= _line(stroke.linewidth, stroke.linestyle)
    if stroke.linestyle == "-" and not stroke.head:
        style["stroke_linecap"] = stroke.cap
    drawn = f"<path{_attributes(d=steps, **style)}/>"
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


def _area(area: Area, patterns: dict) -> str:
    fill = area.face
    if fill == "none" and area.pattern:
        fill = _hatched(area.pattern, area.hatching, patterns)
    return _polygon(area.corners, fill=fill, opacity=_faded(area.alpha))


def _polygon(corners: object, **style: object) -> str:
    points = " ".join(f"{x:.2f},{y:.2f}" for x, y in corners)
    return f"<polygon{_attributes(points=points, **style)}/>"


def _dots(dots: Dots, patterns: dict) -> str:
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


def _hatched(pattern: str, colour: str, patterns: dict) -> str:
    """The address of a hatch, which is defined once for each colour."""
    name = patterns.setdefault((pattern, colour), f"hatch-{colour.strip('#')}-")
    if name.endswith("-"):
        name = f"{name}{len(patterns)}"
        patterns[pattern, colour] = name
    return f"url(#{name})"


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
}
