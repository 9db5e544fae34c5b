"""Lab: the widgets' style sheets: draw's, and ours with colours and links filled in."""

from importlib import resources
from string import ascii_uppercase

from minipaged.draw.palette import (
    DARK,
    LIGHT,
    SEQUENCE_COLOURS,
    contrast,
    ink_on,
    mix,
)
from minipaged.draw.style import style_sheet
from minipaged.lab.pool.html.geometry import VARIABLES, WIDE

LINKED = 256  # blocks that are linked with their entries
RIM = 3.8  # least contrast of a held block's rim with the page


def rim_on(colour: str, ground: str) -> str:
    """The colour, as much darker or lighter as it needs to be seen on this ground."""
    toward = ink_on(ground)
    mixed = (mix(toward, colour, percent / 100) for percent in range(0, 101, 5))
    return next((one for one in mixed if contrast(one, ground) >= RIM), toward)


def _colours() -> str:
    rules = []
    for index, colour in enumerate(SEQUENCE_COLOURS):
        rims = rim_on(colour, LIGHT.ground), rim_on(colour, DARK.ground)
        rim = f"light-dark({','.join(rims)})"
        rules.append(f".mp-c{index}{{--c:{colour};--i:{ink_on(colour)};--r:{rim}}}")
    return "".join(rules)


def _links() -> str:
    """What is pointed at, or has the focus, shows all of the same block or sequence.

    By classes, which browsers look up at once: attributes they would try one by one.
    And in the stage alone, which is drawn anew as a whole: else any change on the page
    would have the browser style all blocks again. While the stage itself is not pointed
    at, the browser need not look inside.
    """
    at = ":is(:hover,:focus-visible)"
    inside = ".mp-stage:is(:hover,:focus-within)"
    blocks = (f"{inside}:has(.mp-k{id_}{at}) .mp-k{id_}" for id_ in range(LINKED))
    linked = ",".join(blocks) + "{outline-color:var(--ink)!important;--o:1}"
    inside = ":is(.mp-stage,.mp-run):is(:hover,:focus-within)"
    linked += f"{inside}:has(.mp-handle{at}) .mp-h:not(.mp-line){{opacity:.3}}"
    names = (f"{inside}:has(.mp-s{name}{at}) .mp-h{name}" for name in ascii_uppercase)
    return linked + ",".join(f"{one}.mp-h" for one in names) + "{opacity:1}"


def _read(name: str) -> str:
    return resources.files("minipaged.lab.pool").joinpath(name).read_text("utf-8")


_CSS = _read("page.css") + _read("pool.css") + _read("lanes.css")
# The sizes that the lines reckon with, in place of their names.
_CSS = _CSS.replace("WIDE", f"{WIDE}px").replace("/* VARIABLES */", VARIABLES)
STYLE = f"<style>{style_sheet()}{_CSS}{_colours()}{_links()}</style>"
