"""Drawings of shuffles: every sum follows from the arrows that lead to it."""

from itertools import pairwise

import pytest

from helpers.drawn import arrows, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Words
from minipaged.draw.sheet import SPAN
from minipaged.lab import plot_shuffles

EACH = 4, 8, 16


def drawn(num_threads=8, **options):
    return plot_shuffles("title", num_threads, **options)


DRAWINGS = {f"{each} threads": lambda each=each: drawn(each) for each in EACH}
DRAWINGS["one product each"] = lambda: drawn(8, dim=8)
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def columns(figure, num_threads):
    """Where the boxes of each thread stand, by the numbers of the threads."""
    top = min(y for _, y in places_of(figure, "3"))  # the fourth thread's
    heads = [words for words in figure.scene.of(Words) if words.y == top]
    found = {words.text: words.x for words in heads}
    return [found[str(thread)] for thread in range(num_threads)]


def held(figure, num_threads):
    """Of each row of boxes: its height, and the numbers of the threads."""
    places = columns(figure, num_threads)
    rows = {}
    for words in figure.scene.of(Words):
        if words.x in places:
            rows.setdefault(words.y, {})[places.index(words.x)] = int(words.text)
    _, *rows = sorted(rows.items())  # the first one has the threads' numbers
    return [(y, [row[thread] for thread in range(num_threads)]) for y, row in rows]


def handed(figure, num_threads):
    """Of each arrow between threads: from whom, to whom, at what height, how heavy."""
    places, found = columns(figure, num_threads), []
    for arrow in arrows(figure):
        (x, y), (end, _) = arrow.points[0], arrow.points[-1]
        who = (nearest(places, at) for at in (x, end))
        found.append((*who, y, arrow.linewidth > 1))
    return found


def nearest(places, x):
    return min(range(len(places)), key=lambda thread: abs(places[thread] - x))


@pytest.mark.parametrize("count", EACH)
def test_a_box_holds_what_was_above_it_and_where_its_arrow_begins(count):
    figure = drawn(count)
    rows, found = held(figure, count), handed(figure, count)
    assert 2 ** (len(rows) - 1) == count and len(found) == count * (len(rows) - 1)
    for (above, before), (below, after) in pairwise(rows):
        partner = {to: of for of, to, y, _ in found if above < y < below}
        assert sorted(partner) == list(range(count))
        assert len({abs(of - to) for to, of in partner.items()}) == 1
        sums = [before[thread] + before[partner[thread]] for thread in range(count)]
        assert after == sums
    assert set(rows[-1][1]) == {sum(rows[0][1])}


def test_a_shuffle_says_how_far_apart_partners_are():
    figure = drawn()
    found = handed(figure, 8)
    for number, apart in enumerate((1, 2, 4), start=1):
        ((_, top),) = places_of(figure, f"shuffle {number}")
        ((_, bottom),) = places_of(figure, f"{apart} apart")
        of_this = {abs(of - to) for of, to, y, _ in found if abs(y - top) < 30}
        assert of_this == {apart} and top < bottom < top + 30


@pytest.mark.parametrize(("count", "said"), [(4, "2"), (8, "3"), (16, "4")])
def test_an_example_says_how_many_threads_and_shuffles_it_has(count, said):
    figure = drawn(count)
    ((left, top),) = places_of(figure, f"{count} threads share a sum")
    ((right, y),) = places_of(figure, f"{said} shuffles")
    assert (left, right) == (0, SPAN) and y == top < held(figure, count)[0][0]


@pytest.mark.parametrize("count", EACH)
def test_threads_have_the_whole_width_and_nothing_else_is_drawn(count):
    figure = drawn(count)
    first, *_, last = columns(figure, count)
    step = (last - first) / (count - 1)
    assert last + step / 2 == pytest.approx(SPAN) and first - step / 2 < 120
    assert len(arrows(figure)) == len(handed(figure, count))
    lowest = max(words.y for words in figure.scene.of(Words))
    assert lowest == held(figure, count)[-1][0]


def test_heavy_arrows_lead_to_the_first_thread_from_all_others():
    heavy = [(of, to) for of, to, _, is_heavy in handed(drawn(), 8) if is_heavy]
    assert sorted(of for of, _ in heavy) == [1, 2, 3, 4, 5, 6, 7]
    after = dict(heavy)
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
