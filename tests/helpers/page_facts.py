"""What a page says of itself, and what of that is wrong: in sentences.

Nothing here knows how wide a letter is or which fonts there are. Boxes are compared
with boxes on the same page, and colours with those behind them. The measuring itself
is done by page_facts.js, inside the page.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator

_SCRIPT = Path(__file__).with_name("page_facts.js").read_text("utf-8")
_CONTROL = re.compile(
    r"^\s*- '?(button|checkbox|combobox|img|link|slider|spinbutton|textbox)"
    r'(?: "((?:[^"\\]|\\.)*)")?',
    re.MULTILINE,
)

# How a page may be written, whatever fonts there are. "wide" is the text spacing that
# WCAG 2.2 asks every page to bear (criterion 1.4.12), in letters of one width.
_SIGNS = ':not(.fa, [class*="icon"], svg *)'
TEXTS = {
    "as it is": "/* no rule */",
    "narrow": f"*{_SIGNS} {{font-family: serif !important; letter-spacing: -.04em}}",
    "wide": f"*{_SIGNS} {{font-family: monospace !important; line-height: 1.5 "
    "!important; letter-spacing: .12em !important; word-spacing: .16em !important}",
    "large": ":root {--jp-widgets-font-size: 17px !important}",
}


def ask(root: Locator, function: str, script: str = "") -> Any:
    """What a function of page_facts.js, or of a script after it, says of this part."""
    return root.evaluate(f"root => {{{_SCRIPT}\n{script}\nreturn {function}(root)}}")


def ask_in_each_text(root: Locator, function: str, script: str = "") -> dict[str, Any]:
    """The same while the page is written in each way of TEXTS; by the ways' names."""
    said = f"return inEachText(root, texts, {function})"
    return root.evaluate(f"(root, texts) => {{{_SCRIPT}\n{script}\n{said}}}", TEXTS)


def layout_flaws(root: Locator) -> list[str]:
    """Controls, items and texts that overlap, leave their place, or are cut off."""
    return ask(root, "layoutFlaws")


def layout_flaws_in_each_text(root: Locator) -> list[str]:
    """The same, each with the way in which the page was written."""
    found = ask_in_each_text(root, "layoutFlaws")
    return [f"{text}: {flaw}" for text, flaws in found.items() for flaw in flaws]


def pale_parts(root: Locator) -> list[str]:
    """Texts and signs with too little contrast with what is behind them.

    WCAG 2.2 asks for 4.5, or for 3 if a text is large (1.4.3) or a sign (1.4.11).
    """
    return ask(root, "paleParts")


def contrast(element: Locator) -> float:
    """Of an element's text with what is behind it, from 1 to 21."""
    return ask(element, "contrastOf")


def controls(root: Locator) -> list[tuple[str, str]]:
    """Role and name of each control and image, as a screen reader says them."""
    return [(role, name) for role, name in _CONTROL.findall(root.aria_snapshot())]


def name_flaws(root: Locator) -> list[str]:
    """Controls without a name, or with the name of another; titles that say nothing."""
    found, has_word = controls(root), re.compile(r"\w").search  # a sign is no name
    flaws = [f"no name: {role}" for role, name in found if not has_word(name)]
    flaws += [
        f"{number} controls are a {role} named {name!r}"
        for (role, name), number in Counter(found).items()
        if number > 1 and has_word(name)
    ]
    titles = root.locator("[title]:visible").evaluate_all(
        "all => all.map(one => one.title)"
    )
    flaws += [f"a title says {one!r}" for one in titles if one in ("null", "undefined")]
    return flaws
