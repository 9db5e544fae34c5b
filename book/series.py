"""The map of the series as a picture that can be clicked, from the notebooks' heads.

Title, question and minutes of a notebook stand at its head, and so does what it needs:
the picture has an arrow from each notebook to those that need it.
"""

import json
import re
from collections.abc import Mapping
from html import escape

from minipaged.draw.letters import width_of
from minipaged.draw.palette import sequence_colour
from tools.lesson_tables import ROOT, Lesson, lessons

NEEDS = re.compile(r"\*\*You need\*\*(.+?)\.(?:\s|$)")
ROUTES = re.compile(r"<!-- routes -->\n(.*?)<!-- end of routes -->", re.DOTALL)
IN_ORDER = re.compile(r"^(\|[^|]+\| )((?:\w, )+\w)( \|.*)$", re.MULTILINE)
WIDE, HIGH = 128, 78  # of a box, in pixels
APART, BELOW = 10, 40  # between boxes; between rows
STRIP, SIZE = 24, 8.5  # the number's strip in pixels; letters of a title, in points
COLOUR = {"is-lesson": sequence_colour("A"), "is-appendix": sequence_colour("B")}
LEGEND = (
    '<p class="series-legend">'
    f'<i style="background:{COLOUR["is-lesson"]}"></i> the lessons, in their order '
    f'<i style="background:{COLOUR["is-appendix"]}"></i> going further. '
    "An arrow leads to what needs the notebook above.</p>"
)


def needs(paragraph: str) -> list[str]:
    """The notebooks that a head's paragraph asks for, of those that it links to.

    "[lesson 2](02_block_pool.ipynb), not [lesson 3](03_prefix_hashing.ipynb)" gives
    02_block_pool.ipynb. What only helps, or is for one section, is left out.
    """
    asked = NEEDS.search(paragraph)
    found = []
    for clause in re.split(r";|,(?! and)", asked[1]) if asked else ():
        if not re.search(r"\bnot \[|\bhelps\b|for one section", clause):
            found += re.findall(r"\]\((\w+\.ipynb)\)", clause)
    return found


def arrows() -> dict[str, list[str]]:
    """For each notebook, those that it needs and that none of these needs already."""
    direct: dict[str, list[str]] = {}
    for lesson in lessons():
        path = ROOT / "notebooks" / lesson.name
        cells = json.loads(path.read_text("utf-8"))["cells"]
        direct[lesson.name] = needs("".join(cells[1]["source"]))
    return {name: without_detours(name, direct) for name in direct}


def without_detours(name: str, direct: Mapping[str, list[str]]) -> list[str]:
    """What a notebook needs, without what comes with the rest of it."""
    return [
        one
        for one in dict.fromkeys(direct[name])
        if not any(one in _all(other, direct) for other in direct[name])
    ]


def _all(name: str, direct: Mapping[str, list[str]]) -> set[str]:
    """Everything that a notebook needs, and what that needs."""
    return {*direct[name]}.union(*(_all(one, direct) for one in direct[name]))


def rows(needed: Mapping[str, list[str]]) -> list[list[str]]:
    """The notebooks in rows: each below all that it needs, near their middle."""
    depth: dict[str, int] = {}
    for name in sorted(needed, key=lambda name: len(_all(name, needed))):
        depth[name] = max((depth[one] + 1 for one in needed[name]), default=0)
    found: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    place: dict[str, float] = {}
    for level, row in enumerate(found):
        own = [name for name in needed if depth[name] == level]
        above = {name: [place[one] for one in needed[name]] for name in own}
        middle = {name: sum(at) / max(len(at), 1) for name, at in above.items()}
        row += sorted(own, key=middle.get)
        place |= {name: at - (len(row) - 1) / 2 for at, name in enumerate(row)}
    return found


def routes(text: str) -> str:
    """The routes of notebooks/README.md, each number a link; "" if there are none."""
    found = ROUTES.search(text)
    if not found:
        return ""
    pages = {each.number: f"notebooks/{each.name}" for each in lessons()}

    def linked(row: re.Match) -> str:
        links = [f"[{number}]({pages[number]})" for number in row[2].split(", ")]
        return f"{row[1]}{'&nbsp;→ '.join(links)}{row[3]}"

    return IN_ORDER.sub(linked, found[1])


def map_svg(folder: str = "notebooks/") -> str:
    """The picture, as an element `<svg>` whose boxes are links into `folder`.

    Its colours are the page's: the classes are in style.css.
    """
    needed, known = arrows(), {lesson.name: lesson for lesson in lessons()}
    boxes: dict[str, tuple[float, float]] = {}  # the upper left corners
    in_rows = rows(needed)
    wide = max(map(len, in_rows)) * (WIDE + APART) - APART
    for level, row in enumerate(in_rows):
        left = (wide - len(row) * (WIDE + APART) + APART) / 2
        for at, name in enumerate(row):
            boxes[name] = left + at * (WIDE + APART), level * (HIGH + BELOW)
    high = len(in_rows) * (HIGH + BELOW) - BELOW
    lines = [
        _arrow(boxes[above], boxes[name]) for name in boxes for above in needed[name]
    ]
    links = [_box(known[name], boxes[name], folder) for name in boxes]
    return (
        f'<svg class="series-map" viewBox="-2 -2 {wide + 4} {high + 4}" role="group" '
        'aria-label="The notebooks; an arrow leads to what needs the notebook above." '
        'xmlns="http://www.w3.org/2000/svg"><defs><marker id="series-tip" '
        'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{''.join(lines)}{''.join(links)}</svg>"
    )


def _arrow(above: tuple[float, float], below: tuple[float, float]) -> str:
    """From the lower side of the one box to the upper side of the other."""
    x, y = above[0] + WIDE / 2, above[1] + HIGH
    to_x, to_y = below[0] + WIDE / 2, below[1] - 1
    bend = y + BELOW * 0.5
    is_far = to_y - y > BELOW  # behind the boxes of a row
    kind = "series-arrow is-far" if is_far else "series-arrow"
    path = f"M{x:g} {y:g}C{x:g} {bend:g} {to_x:g} {to_y - BELOW * 0.6:g} {to_x:g}"
    tip = 'marker-end="url(#series-tip)"'
    return f'<path class="{kind}" d="{path} {to_y:g}" {tip}/>'


def in_lines(title: str, width: float) -> list[str]:
    """A title broken between words, so that each line has this width at most."""
    lines: list[str] = []
    for word in title.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, SIZE) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _box(lesson: Lesson, corner: tuple[float, float], folder: str) -> str:
    """A notebook: its number on a strip, its title, its minutes, all of it a link."""
    x, y = corner
    kind = "is-lesson" if lesson.number.isdigit() else "is-appendix"
    colour = COLOUR[kind]
    lines = in_lines(lesson.title, WIDE - STRIP - 12)
    left, first = x + STRIP + 7, y + HIGH / 2 + 4 - 7 * len(lines)
    rows = [first + 14 * at for at in range(len(lines) + 1)]  # the last for the minutes
    words = "".join(
        f'<text x="{left:g}" y="{row:g}">{escape(line)}</text>'
        for row, line in zip(rows, lines, strict=False)
    )
    told = f"{lesson.title}. {lesson.question} {lesson.minutes} minutes"
    size = f'height="{HIGH}" rx="6"'
    return (
        f'<a class="{kind}" href="{folder}{lesson.name.removesuffix(".ipynb")}.html" '
        f'aria-label="{escape(told)}"><title>{escape(lesson.question)}</title>'
        f'<rect class="series-box" x="{x:g}" y="{y:g}" width="{WIDE}" {size}/>'
        f'<rect x="{x:g}" y="{y:g}" width="{STRIP}" {size} fill="{colour}"/>'
        f'<text class="series-number" x="{x + STRIP / 2:g}" y="{y + HIGH / 2 + 6:g}">'
        f"{lesson.number}</text>{words}"
        f'<text class="series-minutes" x="{left:g}" y="{rows[-1]:g}">'
        f"{lesson.minutes} min</text></a>"
    )
