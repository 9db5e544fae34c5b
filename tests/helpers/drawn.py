"""What a drawing shows: its words, its boxes of a colour, its arrows and crosses."""

from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle


def texts(figure: Figure) -> list[str]:
    """All that is written, but for the title."""
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def places_of(figure: Figure, words: str) -> list[tuple[float, float]]:
    """Where just these words stand."""
    found = [text for text in figure.axes[0].texts if text.get_text() == words]
    return [text.get_position() for text in found]


def boxes(figure: Figure, colour: str) -> list[Rectangle]:
    """The boxes of this face; soft ones have the same hue, and an alpha."""
    face = f"{colour}FF" if len(colour) == 7 else colour
    return [
        box
        for box in figure.axes[0].patches
        if isinstance(box, Rectangle)
        and box.get_fill()
        and to_hex(box.get_facecolor(), keep_alpha=True).upper() == face.upper()
    ]


def arrows(figure: Figure) -> list[FancyArrowPatch]:
    """All arrows, followed or not."""
    return [p for p in figure.axes[0].patches if isinstance(p, FancyArrowPatch)]


def crosses(figure: Figure) -> int:
    """How many there are; each has two heavy lines."""
    return sum(line.get_linewidth() > 2 for line in figure.axes[0].lines) // 2
