"""Lab: one visual language for memory, in plots, widget and text alike.

A sequence has one colour everywhere; a strong tone is this step, a soft one, which lets
the page shine through, was there before. A block that several hold is hatched, a free
one is pale, a free one whose content can still be found is pale with a dashed rim. The
colours are Okabe and Ito's, which the colour-blind can tell apart; a letter, a hatch or
a difference in brightness always says the same as the colour does.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from types import MappingProxyType
from zlib import crc32

# Of sequences A, B, C, ...; after eight they begin anew, told apart by the letter.
SEQUENCE_COLOURS = (
    "#0072B2",  # blue
    "#E69F00",  # orange
    "#009E73",  # green
    "#CC79A7",  # pink
    "#D55E00",  # vermilion
    "#56B4E9",  # sky
    "#F0E442",  # yellow
    "#8C6D4F",  # brown, in place of black: it must show on dark ground too
)
SHARED_HATCH = "//"
CACHED_RIM = "#757B84"  # dashed, around a free block whose content can be found

# What a slot is used for (paper, figure 2): colour, hatch, label. External slots inside
# a piece, which the allocator rounded up, are told apart from those in no piece, where
# the page shines through. Neither A, B nor C has one of these colours, and the steps of
# brightness let the picture be read in grey too.
KINDS_OF_SLOTS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "token_states": ("#6F4BAE", "", "holds a token"),
        "reserved": ("#D9C9A0", "\\\\", "reserved for a later token"),
        "internal": ("#D55E00", "..", "internal: reserved, never used"),
        "rounded_up": ("#969FA8", "", "external: rounded up"),
        "external": ("#757B840C", "", "external: free"),
    }
)

SOFT = 0.32  # how opaque a soft tone is: on any page it recedes, and strong stands out
HATCHING = "#FFFFFFB3"  # of lines over a strong colour
DARK_HATCHING = "#00000073"  # over a pale colour
BAD, GOOD = "#C75800", "#008A63"  # of words: what is lost, and what is saved


@dataclass(frozen=True)
class Theme:
    """The ground that pictures are drawn on, and what is written on it."""

    ground: str  # "none": the page's own
    ink: str
    quiet: str  # remarks
    rim: str  # frames, grids, and arrows that are not followed
    free: str  # a free block
    others: str  # a block of sequences that are not drawn
    paper: str  # what opaque tints are mixed with
    title: str  # the ink of titles
    plate: str  # behind titles; "none": nothing


# One picture is stored, and read on light pages and on dark ones: so nothing is drawn
# behind it, its ink is a grey that both grounds let stand out, and words that need more
# than that stand on an opaque face: titles on a white plate, which light pages hide.
BOTH = Theme(
    "none", "#757B84", "#757B84", "#8B929B", "#757B840C", "#757B8466", "#FFFFFF",
    "#1B1F24", "#FFFFFF",
)  # fmt: skip
LIGHT = Theme(
    "#FFFFFF", "#1B1F24", "#5A636D", "#87919B", "#EEF1F4", "#C3CAD1", "#FFFFFF",
    "#1B1F24", "none",
)  # fmt: skip
DARK = Theme(
    "#14181D", "#E8EBEE", "#9AA4AE", "#77828D", "#2A3038", "#56606B", "#14181D",
    "#E8EBEE", "none",
)  # fmt: skip
# On a page with the style sheet of `style`, which follows the page from light to dark.
PAGE = Theme(
    **{each.name: f"var(--{each.name})" for each in fields(Theme)}
    | {"ground": "none", "plate": "none"}
)
THEMES = {"both": BOTH, "light": LIGHT, "dark": DARK}
_chosen: ContextVar[Theme | None] = ContextVar("theme", default=None)


@contextmanager
def themed(look: Theme) -> Iterator[None]:
    """What is drawn meanwhile has this theme, such as PAGE."""
    before = _chosen.set(look)
    try:
        yield
    finally:
        _chosen.reset(before)


def theme(name: str | None = None) -> Theme:
    """The theme of this name; without one, that of `themed`.

    Else MINIPAGED_THEME decides; where nothing is said, it is "both".
    """
    if not name and (chosen := _chosen.get()):
        return chosen
    name = name or os.environ.get("MINIPAGED_THEME") or "both"
    if name not in THEMES:
        raise ValueError(f"no theme named {name!r}; choose from {sorted(THEMES)}")
    return THEMES[name]


def sequence_colour(sequence: int | str) -> str:
    """The colour of a sequence, by its index or its name: "A" is 0, "B" is 1.

    A name that is no single letter is given one of the colours, always the same.
    """
    if isinstance(sequence, str):
        is_letter = len(sequence) == 1 and "A" <= sequence <= "Z"
        sequence = ord(sequence) - ord("A") if is_letter else crc32(sequence.encode())
    return SEQUENCE_COLOURS[sequence % len(SEQUENCE_COLOURS)]


def soft_colour(sequence: int | str) -> str:
    """Its tone for what was there before this step: the page shines through."""
    return f"{sequence_colour(sequence)}{round(SOFT * 255):02X}"


def line_colour(sequence: int | str) -> str:
    """Its tone for thin lines, dark enough to be seen on white too."""
    colour = sequence_colour(sequence)
    while relative_luminance(colour) > 0.3:
        colour = mix(colour, "#000000", 0.95)
    return colour


def hatching_on(colour: str) -> str:
    """Lines that are seen over this colour, and less than words on it."""
    return DARK_HATCHING if relative_luminance(colour) > 0.4 else HATCHING


def mix(colour: str, ground: str, share: float) -> str:
    """`share` of the one ("#RRGGBB"), and of the other the rest."""
    pairs = [
        (int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5)
    ]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02X}" for a, b in pairs)


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on `colour` ("#RRGGBB").

    On a colour with an alpha ("#RRGGBBAA"), the page's ink: it must be faint.
    """
    if len(colour) > 7:
        return theme().ink
    return max("#000000", "#FFFFFF", key=lambda ink: contrast(ink, colour))


def contrast(one: str, other: str) -> float:
    """How well the one is read on the other, from 1 to 21 (WCAG 2.2)."""
    dark, light = sorted(map(relative_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def relative_luminance(colour: str) -> float:
    """How bright a colour looks, from 0 to 1 (WCAG 2.2)."""

    def linear(channel: int) -> float:
        value = channel / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
