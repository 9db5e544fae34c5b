"""Lab: who holds a block, in bands of all their colours."""

from collections.abc import Sequence
from typing import NamedTuple

from minipaged.draw.letters import width_of
from minipaged.draw.palette import sequence_colour, soft_colour
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import Tone

STRIP = 12.0  # pixels that the bands take above a block's words


class Holders(NamedTuple):
    """Whose a block is; hatched if it is of several, in `hatching` or in grey."""

    names: str
    is_new: bool = False
    hatching: str | None = None


def draw_holders(
    sheet: Sheet, x: float, y: float, width: float, height: float, holders: Holders
) -> None:
    """A band for each of them, one above the other."""
    colour_of = sequence_colour if holders.is_new else soft_colour
    band = height / max(1, len(holders.names))
    for row, name in enumerate(holders.names):
        sheet.box(x, y + row * band, width, band, Tone(colour_of(name)))
    if len(holders.names) > 1:
        lines = Tone("none", holders.hatching or sheet.look.ink)
        sheet.box(x, y, width, height, lines)


def list_holders(
    sheet: Sheet, x: float, y: float, signs: Sequence[tuple[Holders, str]]
) -> float:
    """What the bands mean, side by side; where the next sign would stand."""
    for holders, meaning in signs:
        draw_holders(sheet, x, y - 6, 18, 12, holders)
        sheet.write(x + 24, y, meaning, color=sheet.look.quiet)
        x += 24 + width_of(meaning) + 20
    return x
