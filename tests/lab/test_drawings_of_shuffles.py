"""Drawings of shuffles: every sum follows from the arrows that lead to it."""

from itertools import pairwise

import pytest

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Stroke
from minipaged.lab import plot_shuffles

EACH = 4, 8, 16


def drawn(num_threads=8, **options):
    return plot_shuffles("title", num_threads, **options)


DRAWINGS = {f"{each} threads": lambda each=each: drawn(each) for each in EACH}
DRAWINGS["one product each"] = lambda: drawn(8, dim=8)
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


@pytest.mark.parametrize("count", EACH)
def test_a_box_holds_what_its_arrows_lead_from(count):
    scene = drawn(count).scene
    assert 2 ** (len(scene.rows) - 1) == count
    for number, (above, below) in enumerate(pairwise(scene.rows)):
        assert f"{2**number} apart" in below.remark
        for thread, total in enumerate(below.words):
            sources = [
                link.start
                for link in scene.links
                if (link.target, link.end) == (below.label, thread)
            ]
            assert sources == [thread, thread ^ 2**number]
            assert int(total) == sum(int(above.words[source]) for source in sources)
    assert len({*scene.rows[-1].words}) == 1


@pytest.mark.parametrize(("count", "said"), [(4, "2"), (8, "3"), (16, "4")])
def test_an_example_says_how_many_threads_and_shuffles_it_has(count, said):
    assert {f"{count} threads share a sum", f"{said} shuffles"} < {*texts(drawn(count))}


def test_heavy_arrows_lead_to_the_first_thread_from_all_others():
    """To four threads, then two, then one: each from itself and from its partner."""
    arrows = [stroke for stroke in drawn().scene.of(Stroke) if stroke.head]
    assert sum(arrow.linewidth > 1.5 for arrow in arrows) == 2 * (4 + 2 + 1)


def test_products_are_spread_evenly():
    assert "sum of 16" in texts(drawn())
    assert "sum of 4" in texts(drawn(16, dim=64))
    assert "a product" in texts(drawn(8, dim=8))
    for num_threads, dim in ((6, 12), (8, 100), (1, 128)):
        with pytest.raises(ValueError, match="choose 4, 8 or 16"):
            drawn(num_threads, dim=dim)
