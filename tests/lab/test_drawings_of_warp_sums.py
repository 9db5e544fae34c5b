"""A sum among threads is drawn as it is made: in warps, then between them."""

import pytest

from helpers.drawn import arrows, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.lab import plot_warp_sums

FOUR = [(1,), (2,), (3,), (4,)]
DRAWINGS = {
    "two warps": lambda: plot_warp_sums("title"),
    "four warps": lambda: plot_warp_sums("title", FOUR),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


@pytest.mark.parametrize("warps", [[(3, 1), (5, 9)], [(20,), (30,), (40,)]])
def test_each_row_has_the_sums_of_the_row_above(warps):
    """Of each warp twice: where it was summed up, and in shared memory."""
    figure = plot_warp_sums("title", warps)
    said, whole = texts(figure), str(sum(map(sum, warps)))
    for numbers in warps:
        own = str(sum(numbers))
        held = [str(number) for number in numbers]
        assert said.count(own) == 2 + held.count(own)
        assert set(held) <= set(said)
    assert said.count(whole) == len(warps)
    heights = [{y for _, y in places_of(figure, str(sum(one)))} for one in warps]
    (last,) = {y for _, y in places_of(figure, whole)}
    assert all(max(ys) < last for ys in heights)


def test_every_warp_reads_what_all_have_left():
    """An arrow from each thread, one from each warp, and from each sum to each warp."""
    for warps in (((3, 1, 4, 1), (5, 9, 2, 6)), FOUR):
        threads = sum(map(len, warps))
        figure = plot_warp_sums("title", warps)
        assert len(arrows(figure)) == threads + len(warps) + len(warps) ** 2
