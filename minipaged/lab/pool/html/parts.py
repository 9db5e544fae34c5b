"""Lab: the smallest parts of the widgets' HTML: letters and headings."""

import re
from html import escape

from minipaged.draw.palette import SEQUENCE_COLOURS, sequence_colour


def colour(name: str) -> str:
    """The class that gives a sequence's colour to an element and all inside it."""
    return f"mp-c{SEQUENCE_COLOURS.index(sequence_colour(name))}"


def chip(name: str, more: str = "", kinds: str = "") -> str:
    """A sequence's letter on its colour."""
    kinds, name = f"mp-chip {colour(name)}{kinds}", escape(name)
    return f'<b class="{kinds}" data-sequence="{name}"{more}>{name}</b>'


def handle(name: str) -> str:
    """The letter that shows which blocks are the sequence's, by pointer or keyboard."""
    if len(name) > 1:  # the style sheet knows A to Z
        return chip(name)
    return chip(
        name, f' tabindex="0" title="{name}: show its blocks"', f" mp-handle mp-s{name}"
    )


def with_chips(text: str) -> str:
    """Escaped, with {A} as A's letter on its colour."""
    return re.sub(r"\{([A-Z]\d*)\}", lambda found: chip(found[1]), escape(text))


def heading(text: str, remark: str) -> str:
    """A part's heading with a quiet remark, on one line whatever the fonts."""
    words = f"{text}: {remark}"
    remark = f"<small>{escape(remark)}</small>"
    return f'<h4 class="mp-cut" title="{escape(words)}">{escape(text)} {remark}</h4>'
