"""A sum among threads is drawn as it is made: in warps, then between them."""

import pytest

from helpers.readable import readable_in_all_themes
from minipaged.lab import plot_warp_sums

FOUR = [(1,), (2,), (3,), (4,)]
DRAWINGS = {
    "two warps": lambda: plot_warp_sums("title"),
    "four warps": lambda: plot_warp_sums("title", FOUR),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


@pytest.mark.parametrize("warps", [((3, 1, 4, 1), (5, 9, 2, 6)), FOUR])
def test_each_row_has_the_sums_of_the_row_above(warps):
    """Of each thread's number in its warp; in the end, each warp has added up all."""
    scene, found = plot_warp_sums("title", warps).scene, {}
    words = {row.label: row.words for row in scene.rows}
    for source, start, target, end, _ in [link[:5] for link in scene.links]:
        found.setdefault((target, end), []).append(int(words[source][start]))
    for (target, end), parts in found.items():
        assert int(words[target][end]) == sum(parts)
    own = [parts for (target, _), parts in found.items() if target == "each warp"]
    assert own == [list(numbers) for numbers in warps]
    last = [parts for (target, _), parts in found.items() if target == "the sum"]
    assert last == [[sum(numbers) for numbers in warps]] * len(warps)
