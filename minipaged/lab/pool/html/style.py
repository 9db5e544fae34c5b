"""Lab: the widgets' style sheets, with their colours and links filled in."""

from importlib import resources
from string import ascii_uppercase

from minipaged.lab.plots.palette import (
    DARK,
    LIGHT,
    SEQUENCE_COLOURS,
    ink_on,
    relative_luminance,
)
from minipaged.lab.pool.html.geometry import VARIABLES, WIDE

LINKED = 256  # blocks that are linked with their entries
RIM = 3.8  # least contrast of a held block's rim with the page


def rim_on(colour: str, ground: str) -> str:
    """The colour, as much darker or lighter as it needs to be seen on this ground."""
    ground_light = relative_luminance(ground)
    toward = "#000000" if ground_light > 0.5 else "#FFFFFF"
    for percent in range(0, 101, 5):
        mixed = _mix(colour, toward, percent)
        dark, light = sorted((relative_luminance(mixed), ground_light))
        if (light + 0.05) / (dark + 0.05) >= RIM:
            return mixed
    return toward


def _mix(one: str, other: str, percent: int) -> str:
    pairs = (
        (int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)
    )
    mixed = (round((a * (100 - percent) + b * percent) / 100) for a, b in pairs)
    return "#" + "".join(f"{channel:02X}" for channel in mixed)


def _colours() -> str:
    rules = []
    for index, colour in enumerate(SEQUENCE_COLOURS):
        rims = rim_on(colour, LIGHT.ground), rim_on(colour, DARK.ground)
        rim = f"light-dark({','.join(rims)})"
        rules.append(f".mp-c{index}{{--c:{colour};--i:{ink_on(colour)};--r:{rim}}}")
    return "".join(rules)


def _links() -> str:
    """What is pointed at, or has the focus, shows all of the same block or sequence."""
    rules, at = [], ":is(:hover,:focus-visible)"
    for block in range(LINKED):
        b = f'[data-b="{block}"]'
        rules.append(f".mp:has({b}{at}) {b}")
    linked = ",".join(rules) + "{outline-color:var(--ink)!important;--o:1}"
    for name in ascii_uppercase:
        on = f'.mp:has([data-s="{name}"]{at})'
        linked += (
            f'{on} .mp-b:not([data-h~="{name}"]),{on} .mp-entry:not([data-of="{name}"])'
            f'{{opacity:.3}}{on} [data-line-of="{name}"]{{--o:1}}'
        )
    return linked


def _fill_in(css: str) -> str:
    """The sizes that the lines reckon with, in place of their names."""
    return css.replace("WIDE", f"{WIDE}px").replace("/* VARIABLES */", VARIABLES)


def _read(name: str) -> str:
    return resources.files("minipaged.lab.pool").joinpath(name).read_text("utf-8")


_CSS = _fill_in(_read("page.css") + _read("pool.css"))
STYLE = f"<style>{_CSS}{_colours()}{_links()}</style>"
