"""A hidden block is drawn with the numbers that the states and the logits have."""

import torch

from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Box, Words
from minipaged.draw.palette import BAD, GOOD
from minipaged.lab import plot_hidden_block

LEAST = torch.finfo(torch.float32).min


def states(*sums):
    first = torch.tensor(-torch.inf)
    return [(first, torch.tensor(one), torch.zeros(2)) for one in sums]


def hidden(broken=(torch.nan, torch.nan), mended=(0.0, 1.5), count=4):
    ways = {"as written": (-torch.inf, states(*broken))}
    ways["mended"] = (LEAST, states(*mended))
    return plot_hidden_block(torch.full((count,), -torch.inf), ways, "title", [7, 3])


test_it_can_be_read = readable_in_all_themes(
    {"hidden": hidden, "three sums of hundreds": lambda: hidden(mended=(0.0, 312.25))}
)


def test_what_is_subtracted_decides_the_weights():
    """Computed from the logits, not told: NaN four times, and four times 0."""
    broken, mended = hidden().scene.rows
    assert broken.words == ["−∞"] * 4 + [
        "→",
        "−∞",
        "→",
        *["NaN"] * 4,
        "→",
        *["NaN"] * 2,
    ]
    numbers = ["−3.4e38", "→", *["0"] * 4, "→", "0", "1.50"]
    assert mended.words == ["−∞"] * 4 + ["→", *numbers]
    said = {"logits x: block 7, hidden", "s, after block", "7", "3"}
    assert said <= {words.text for words in hidden().scene.of(Words)}


def test_a_sum_is_shown_as_it_is():
    """Right or wrong: a way that says it is mended, and is not, is drawn so."""
    scene = hidden(mended=(torch.nan, torch.inf)).scene
    assert scene.rows[1].words[-2:] == ["NaN", "∞"]
    faces = [box.face for box in scene.of(Box)]
    assert faces.count(BAD) == 4 + 2 + 1 and faces.count(GOOD) == 1
