"""The numbers of a type, drawn as lines on an axis."""

import pytest

from helpers.drawn import lines, texts
from helpers.readable import readable_in_all_themes
from minipaged.lab import plot_number_line

TYPES = {"one": [0.0, 1.0, 2.0, 8.0, 64.0], "other": [-1.0, 0.5, 6.0]}


@pytest.fixture
def figure():
    return plot_number_line(TYPES, 10.0, "title")


def test_a_line_stands_at_each_number_that_the_axis_has(figure):
    """Both lanes have one scale: 0.0 to 10.0."""
    places = [line.points[0][0] for line in lines(figure) if line.linewidth == 1.0]
    left, one = places[0], places[1] - places[0]
    found = [(place - left) / one for place in places]
    assert found == pytest.approx([0.0, 1.0, 2.0, 8.0, 0.5, 6.0])


def test_it_says_how_many_there_are_and_which_is_the_last(figure):
    said = texts(figure)
    assert "4 numbers here" in said and "2 numbers here" in said
    assert "the last: 6" in said and "the last: 64" not in said


test_it_can_be_read = readable_in_all_themes(
    {"two types": lambda: plot_number_line(TYPES, 10.0, "title")}
)
