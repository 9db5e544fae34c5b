"""A hidden block is drawn with the numbers that the states and the logits have."""

import torch

from helpers.drawn import places_of, texts
from helpers.readable import readable_in_all_themes
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
    figure = hidden()
    said = texts(figure)
    assert said.count("NaN") == 4 + 2 and said.count("0") == 4 + 1
    assert said.count("−∞") == 2 * 4 + 1 and "−3.4e38" in said
    assert {"1.50", "block 7, hidden", "s, after block", "7", "3"} <= {*said}
    (above,) = {y for _, y in places_of(figure, "NaN")}
    (below,) = {y for _, y in places_of(figure, "0")}
    assert above < below


def test_a_sum_is_shown_as_it_is():
    """Right or wrong: a way that says it is mended, and is not, is drawn so."""
    said = texts(hidden(mended=(torch.nan, torch.inf)))
    assert said.count("NaN") == 4 + 2 + 1 and "∞" in said
