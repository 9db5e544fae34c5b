"""The numbers of a type, drawn as lines on an axis."""

from math import log2

import pytest

from helpers.drawn import lines, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Dots
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


TENSORS = {"K": [-2.0, 0.0, 0.5], "V": [4.0], "K again": [1.0]}


def with_tensors(**options):
    return plot_number_line(TYPES, "title", TENSORS, (0.125, 8.0), **options)


def test_tensors_are_dots_whatever_their_sign_and_without_zeros():
    figure = with_tensors()
    left, right = (places_of(figure, words)[0][0] for words in ("1/8", "8"))
    doubling = (right - left) / 6
    found = [
        round((x - left) / doubling - 3, 3)
        for each in figure.scene.of(Dots)
        for x, _ in each.places
    ]
    assert sorted(found) == [-1, 0, 1, 2]  # 1/2, 1, 2 and 4


def test_marks_stand_in_place_of_triangles():
    assert not {"1", "64", "6"} & set(texts(with_tensors()))


def test_lanes_of_one_hue_look_alike():
    figure = with_tensors(hues=(0, 1, 0))
    colours = [each.color for each in figure.scene.of(Dots)]
    assert colours[0] == colours[1] == colours[3] != colours[2]


test_it_can_be_read = readable_in_all_themes(
    {"two types": lambda: plot_number_line(TYPES, "title"), "tensors": with_tensors}
)
