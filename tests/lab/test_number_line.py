"""The numbers of a type, drawn as lines on an axis."""

from math import log2

import pytest

from helpers.drawn import lines, texts
from helpers.readable import readable_in_all_themes
from minipaged.lab import plot_number_line

TYPES = {"one": [0.0, 1.0, 2.0, 8.0, 64.0], "other": [-1.0, 0.125, 6.0]}


@pytest.fixture
def figure():
    return plot_number_line(TYPES, "title")


def test_a_line_stands_at_each_number_above_zero(figure):
    """Both lanes have one scale, and each doubling is as wide."""
    places = [line.points[0][0] for line in lines(figure) if line.linewidth == 1.0]
    left, doubling = places[0], places[1] - places[0]
    found = [(place - left) / doubling for place in places]
    assert found == pytest.approx(list(map(log2, (1, 2, 8, 64, 0.125, 6))))


def test_it_says_which_are_the_smallest_and_the_largest(figure):
    said = texts(figure)
    assert {"1", "64", "1/8", "6"} <= set(said)
    assert "-1" not in said


test_it_can_be_read = readable_in_all_themes(
    {"two types": lambda: plot_number_line(TYPES, "title")}
)
