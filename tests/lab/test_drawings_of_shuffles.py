"""Drawings of shuffles: every sum follows from the arrows that lead to it."""

from itertools import pairwise

import pytest

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Stroke
from minipaged.draw.tones import strong
from minipaged.lab import plot_shuffles

EACH = 4, 8, 16


def drawn(num_threads=8, **options):
    return plot_shuffles("title", num_threads, **options)


DRAWINGS = {f"{each} threads": lambda each=each: drawn(each) for each in EACH}
DRAWINGS["one product each"] = lambda: drawn(8, dim=8)
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def ways(scene):
    """For each row but the first: whose boxes lead to each thread's, heavy or not."""
    above, found = {row.label: at for at, row in enumerate(scene.rows)}, {}
    for link in scene.links:
        assert above[link.target] == above[link.source] + 1
        found.setdefault(link.target, []).append((link.start, link.end))
    return found


@pytest.mark.parametrize("count", EACH)
def test_a_box_holds_what_stands_where_its_arrows_begin(count):
    scene = drawn(count).scene
    held = [[int(word) for word in row.words] for row in scene.rows]
    assert 2 ** (len(held) - 1) == count and scene.rows[0].above == [
        str(thread) for thread in range(count)
    ]
    steps = zip(pairwise(held), ways(scene).values(), strict=True)
    for number, ((before, after), links) in enumerate(steps):
        assert {abs(of - to) for of, to in links} == {0, 2**number}
        assert after == [
            sum(before[of] for of, to in links if to == thread)
            for thread in range(count)
        ]
    assert set(held[-1]) == {sum(held[0])}
    assert scene.rows[-1].tones == [strong(0)] * count


def test_a_shuffle_says_how_far_apart_partners_are():
    rows = drawn().scene.rows
    assert [(row.label, row.remark) for row in rows] == [
        ("thread", "sum of 16"), ("shuffle 1", "1 apart"), ("shuffle 2", "2 apart"),
        ("shuffle 3: the sum", "4 apart"),
    ]  # fmt: skip


@pytest.mark.parametrize(("count", "said"), [(4, "2"), (8, "3"), (16, "4")])
def test_an_example_says_how_many_threads_and_shuffles_it_has(count, said):
    said = {f"{count} threads share a sum", f"{said} shuffles"}
    assert said <= set(texts(drawn(count)))


def test_heavy_arrows_lead_to_the_first_thread_from_all_others():
    scene = drawn().scene
    heavy = [arrow.linewidth > 1.5 for arrow in scene.of(Stroke) if arrow.head]
    pairs = zip(scene.links, heavy, strict=True)
    after = {link.start: link.end for link, is_heavy in pairs if is_heavy}
    assert sorted(after) == list(range(8))
    for thread in range(8):
        while thread:
            assert after[thread] < thread
            thread = after[thread]


def test_products_are_spread_evenly():
    assert "sum of 16" in texts(drawn())
    assert "sum of 4" in texts(drawn(16, dim=64))
    assert "a product" in texts(drawn(8, dim=8))
    for num_threads, dim in ((6, 12), (8, 100), (1, 128)):
        with pytest.raises(ValueError, match="choose 4, 8 or 16"):
            drawn(num_threads, dim=dim)
