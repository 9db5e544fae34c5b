"""Numbers that are written in 8 bits, and read again, as they are drawn."""

import pytest
import torch

from helpers.drawn import arrows
from helpers.readable import readable_in_all_themes
from minipaged.draw.palette import BAD
from minipaged.lab import in_bits, plot_written

NUMBERS = [5.2, -0.11, 0.0, 120.0, 0.0001]


@pytest.fixture
def figure():
    return plot_written(NUMBERS, 0.25, "title")


def test_each_row_follows_from_the_one_above(figure):
    given, divided, rounded, byte, read = (row.words for row in figure.scene.rows)
    assert given == ["5.2", "-0.11", "0", "120", "0.0001"]
    assert divided == ["20.8", "-0.44", "0", "480", "0.0004"]
    assert rounded == ["20", "-0.4375", "0", "448", "0"]
    assert read == ["5", "-0.1094", "0", "112", "0"]
    assert byte == [
        "0 1011 010", "1 0101 110", "0 0000 000", "0 1111 110", "0 0000 000"
    ]  # fmt: skip
    assert len(arrows(figure)) == 4 * len(NUMBERS)


def test_bits_are_what_torch_stores():
    for byte in range(127):
        sign, exponent, mantissa = (int(part, 2) for part in in_bits(byte).split())
        number = torch.tensor(byte, dtype=torch.uint8).view(torch.float8_e4m3fn).item()
        power, one = (exponent - 7, 1) if exponent else (-6, 0)
        assert number == (1 - 2 * sign) * (one + mantissa / 8) * 2.0**power


def test_what_does_not_fit_is_marked(figure):
    """The number that is too large, and the one that is too small; 0 is 0."""
    marked = [[cell.rim == BAD for cell in row.cells] for row in figure.scene.rows]
    assert marked == [[False, False, False, True, True]] * 5


test_it_can_be_read = readable_in_all_themes(
    {"numbers": lambda: plot_written(NUMBERS, 0.25, "title")}
)
