"""What a picture's scene shows: its words, its boxes of a colour, its arrows, signs."""

from matplotlib.figure import Figure

from minipaged.draw.marks import Box, Dots, Point, Stroke, Words


def texts(figure: Figure) -> list[str]:
    """All that is written, but for the title."""
    return [words.text for words in figure.scene.of(Words) if words.text]


def places_of(figure: Figure, words: str) -> list[Point]:
    """Where just these words stand."""
    return [(said.x, said.y) for said in figure.scene.of(Words) if said.text == words]


def boxes(figure: Figure, colour: str) -> list[Box]:
    """The boxes of this face; soft ones have the same hue, and an alpha."""
    return [box for box in figure.scene.of(Box) if box.face == colour]


def rims(figure: Figure, linewidth: float | None = None) -> list[Box]:
    """The boxes that are drawn as lines; all, or those so wide."""
    rims = [box for box in figure.scene.of(Box) if box.rim != "none"]
    return [box for box in rims if linewidth in (None, box.linewidth)]


def lines(figure: Figure) -> list[Stroke]:
    """All straight lines without a head."""
    strokes = figure.scene.of(Stroke)
    return [stroke for stroke in strokes if not (stroke.curved or stroke.head)]


def arrows(figure: Figure) -> list[Stroke]:
    """All arrows, straight or curved, followed or not."""
    return [stroke for stroke in figure.scene.of(Stroke) if stroke.head]


def crosses(figure: Figure, linewidth: float = 2.6) -> int:
    """How many there are; each has two lines that are so wide."""
    return sum(line.linewidth == linewidth for line in lines(figure)) // 2


def dots(figure: Figure, marker: str) -> list[Point]:
    """The places of all signs of this shape."""
    found = [dots for dots in figure.scene.of(Dots) if dots.marker == marker]
    return [place for dots in found for place in dots.places]
