"""Whether a search stops is drawn as the rule says, by the numbers it is given."""

import pytest

from helpers.drawn import places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Words
from minipaged.draw.palette import BAD, GOOD
from minipaged.lab import plot_stopping

KEPT = [-0.25, -1.5]


def stopping(total=-16.0, kept=KEPT, lengths=(8, 16)):
    ends = {name: (total, length) for name, length in zip("ab", lengths, strict=True)}
    return plot_stopping(kept, ends, "title")


test_it_can_be_read = readable_in_all_themes(
    {
        "stops, and goes on": stopping,
        "all go on": lambda: stopping(-1.0),
        "all stop": lambda: stopping(-40.0),
        "one answer": lambda: stopping(kept=[-2.0], lengths=(8, 8)),
    }
)


@pytest.mark.parametrize(
    ("total", "said"),
    [
        (-16.0, {"−16.00 / 8 = −2.00": BAD, "−16.00 / 16 = −1.00": GOOD}),
        (-12.0, {"−12.00 / 8 = −1.50": BAD, "−12.00 / 16 = −0.75": GOOD}),  # equal
        (-40.0, {"−40.00 / 8 = −5.00": BAD, "−40.00 / 16 = −2.50": BAD}),
    ],
)
def test_what_beats_the_worst_answer_goes_on(total, said):
    """In its colour, and on the right side of the worst; with equal scores it stops."""
    figure = stopping(total)
    written = {words.text: words for words in figure.scene.of(Words)}
    ((edge, _),) = places_of(figure, "−1.50")
    for words, colour in said.items():
        assert written[words].color == colour
        assert (written[words].x > edge) == (colour == GOOD)
    assert {"scored at 8 tokens", "scored at 16 tokens"} <= {*texts(figure)}
