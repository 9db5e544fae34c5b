"""Drawings of exchanges: every sum follows from the arrows that lead to it."""

from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, Rectangle

from helpers.drawn import arrows, boxes, frame_of, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.lab import plot_exchanges, plot_sharing, plot_unit
from minipaged.lab.plots import palette
from minipaged.lab.plots.signs import SPAN

COUNTS = {"rung 1: 4 programs × 30": (32, 88), "rung 2": (324, 24)}
SPREAD = {"rung 1": (16, 16), "rung 2": (128, 64)}
EACH, BLUE = (4, 8, 16), palette.sequence_colour(0)


def drawn(num_threads=8, **options):
    return plot_exchanges("title", num_threads, **options)


def shared(spread=None, counts=None, **options):
    return plot_sharing(spread or SPREAD, counts or COUNTS, "title", **options)


def unit(**options):
    return plot_unit("title", **options)


DRAWINGS = {f"{each} threads": lambda each=each: drawn(each) for each in EACH}
DRAWINGS["shared"] = shared
DRAWINGS["one count"] = lambda: shared(counts={"a rung": (12_000, 345)})
WIDE = {"a": (2, 128), "b": (32, 80), "c": (64, 4), "d": (256, 64)}
DRAWINGS["wide heads"] = lambda: shared(WIDE, dim=256, num_threads=256)
DRAWINGS["no exchange"] = lambda: shared(counts={"a": (0, 0), "b": (0, 0)})
DRAWINGS["unit"] = unit
DRAWINGS["unit, four heads"] = lambda: unit(group=4)
DRAWINGS["unit, wide heads"] = lambda: unit(dim=256)
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def columns(figure, num_threads):
    """Where the boxes of each thread stand, by the numbers of the threads."""
    top = min(y for _, y in places_of(figure, "3"))  # the fourth thread's
    heads = [text for text in figure.axes[0].texts if text.get_position()[1] == top]
    found = {text.get_text(): text.get_position()[0] for text in heads}
    return [found[str(thread)] for thread in range(num_threads)]


def held(figure, num_threads):
    """Of each row of boxes: its height, and the numbers of the threads."""
    places = columns(figure, num_threads)
    rows = {}
    for text in figure.axes[0].texts:
        x, y = text.get_position()
        for thread, place in enumerate(places):
            if abs(x - place) < 0.1:
                rows.setdefault(y, {})[thread] = int(text.get_text())
    _, *rows = sorted(rows.items())  # the first one has the threads' numbers
    return [(y, [row[thread] for thread in range(num_threads)]) for y, row in rows]


def handed(figure, num_threads):
    """Of each arrow between threads: from whom, to whom, at what height, how heavy."""
    places, found = columns(figure, num_threads), []
    for arrow in arrows(figure):
        (x, y), (end, _) = ends(arrow)
        if x <= places[-1] + 1:
            who = (nearest(places, at) for at in (x, end))
            found.append((*who, y, arrow.get_linewidth() > 1))
    return found


def ends(arrow: FancyArrowPatch):
    """Where an arrow that leads downwards begins and ends."""
    *vertices, _ = arrow.get_path().vertices  # the last one only closes the head
    return vertices[0], max(vertices, key=lambda place: place[1])


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


def test_an_exchange_says_how_far_apart_partners_are():
    figure = drawn()
    found = handed(figure, 8)
    for number, apart in enumerate((1, 2, 4), start=1):
        ((_, top),) = places_of(figure, f"exchange {number}")
        ((_, bottom),) = places_of(figure, f"{apart} apart")
        of_this = {abs(of - to) for of, to, y, _ in found if abs(y - top) < 30}
        assert of_this == {apart} and top < bottom < top + 30


@pytest.mark.parametrize(
    ("count", "said"), [(4, "2 exch"), (8, "3 exch"), (16, "4 exch")]
)
def test_an_example_says_how_many_threads_and_exchanges_it_has(count, said):
    figure = drawn(count)
    ((left, top),) = places_of(figure, f"{count} threads share a logit")
    ((right, y),) = places_of(figure, f"{said}anges for a logit")
    assert (left, right) == (0, SPAN) and y == top < held(figure, count)[0][0]
    colours = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert colours[f"{said}anges for a logit"] == palette.BAD


@pytest.mark.parametrize("count", EACH)
def test_threads_have_the_whole_width_and_nothing_else_is_drawn(count):
    figure = drawn(count)
    first, *_, last = columns(figure, count)
    step = (last - first) / (count - 1)
    assert last + step / 2 == pytest.approx(SPAN) and first - step / 2 < 120
    assert len(arrows(figure)) == len(handed(figure, count))
    lowest = max(y for _, y in (text.get_position() for text in figure.axes[0].texts))
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
    assert "sums 16 products" in texts(drawn())
    assert "sums 4 products" in texts(drawn(16, dim=64))
    for num_threads, dim in ((6, 12), (8, 100), (1, 128)):
        with pytest.raises(ValueError, match="choose 4, 8 or 16"):
            drawn(num_threads, dim=dim)


def parts(figure, name):
    """Of a matrix: the edges of its boxes, soft ones and the filled one, from its name.

    Boxes are a matrix's if they lie below its name. A legend's are larger.
    """
    ((left, top),) = places_of(figure, name)
    soft, filled = (boxes(figure, face) for face in (palette.soft_colour(0), BLUE))
    near = [
        [box for box in found if abs(box.get_x() - left) < 100 and box.get_y() > top]
        for found in (soft, filled)
    ]
    return [[edges(box) for box in found if edges(box)[3] != 12] for found in near]


def edges(box):
    return box.get_x(), box.get_y(), box.get_width(), box.get_height()


def test_a_unit_has_sixteen_queries_and_keys_and_a_logit_for_each_pair():
    figure = unit(dim=64)
    for name, shape, count in (
        ("queries", "[16, 64]", 16),
        ("keys", "[64, 16]", 16),
        ("logits", "[16, 16]", 256),
    ):
        ((_, top),), ((_, y),) = (places_of(figure, words) for words in (name, shape))
        soft, filled = parts(figure, name)
        assert top == y and (len(soft), len(filled)) == (count - 1, 1)
    assert {"for each logit 64 products,", "a query: 64 numbers"} <= {*texts(figure)}


def test_the_filled_logit_is_of_the_filled_query_and_key():
    figure = unit()
    places = {}
    for name in ("queries", "keys", "logits"):
        soft, ((x, y, _, _),) = parts(figure, name)
        left, top = (min(place[axis] for place in soft) for axis in (0, 1))
        places[name] = x - left, y - top
    assert places["logits"] == (places["keys"][0], places["queries"][1])
    assert min(places["logits"]) > 0
    for words, name in (("a query: 128 numbers", "queries"), ("their logit", "logits")):
        ((x, y),), (soft, _) = places_of(figure, words), parts(figure, name)
        assert y > max(place[1] for place in soft)
        assert x - 24 == pytest.approx(min(place[0] for place in soft))


def test_arrows_lead_into_the_unit_and_out_and_no_number_is_invented():
    figure = unit()
    frame, (x, _) = frame_of(figure, "a matrix unit")
    ways = [arrow.get_path().vertices[:4] for arrow in arrows(figure)]
    (_, *_, (end, _)), ((begin, _), *_, (_, level)) = ways
    assert frame.x0 - 10 < end < frame.x0 < frame.x1 < begin < frame.x1 + 10
    assert frame.y0 < level < frame.y1
    ((middle, above),) = places_of(figure, "no exchange between threads")
    assert middle == x and frame.y0 - 20 < above < frame.y0
    said = " ".join(texts(figure))
    assert {int(word) for word in said.split() if word.isdigit()} == {128}
    assert "+" not in said


def test_rows_of_a_unit_that_no_head_needs_are_empty():
    whole, few = unit(), unit(group=4)
    pale = palette.soft_colour(0)
    # Of 16 queries one is marked, and so is one of 16 keys, and one of 256 logits.
    assert len(boxes(whole, pale)) == 15 + 15 + 255
    assert len(boxes(few, pale)) == 3 + 15 + 63 + 0
    assert "12 rows that no head needs" in texts(few)
    assert not any("no head needs" in words for words in texts(whole))


def test_a_unit_is_low():
    assert 100 * unit().get_figheight() <= 220


def strips(figure, spread=None, said="The 128 threads of a program"):
    """Of each strip, its boxes from left to right; by the strip's name."""
    ((_, above),) = places_of(figure, said)
    ((_, below),) = places_of(figure, "Exchanges in the code for one tile")
    written, found = figure.axes[0].texts, {}
    names = {
        t.get_position()[1]: t.get_text()
        for t in written
        if t.get_text() in (spread or SPREAD)
    }
    for box in figure.axes[0].patches:
        if isinstance(box, Rectangle) and above < box.get_y() < below:
            name = names[max(y for y in names if y < box.get_y())]
            found.setdefault(name, []).append(box)
    return {
        name: sorted(row, key=lambda box: box.get_x()) for name, row in found.items()
    }


def gaps_of(row):
    """Between neighbours; each is thread 1's, 2's and so on."""
    ends = [(box.get_x(), box.get_x() + box.get_width()) for box in row]
    return [after - right for (_, right), (after, _) in pairwise(ends)]


def test_every_strip_has_a_box_for_each_thread_of_a_program():
    found = strips(shared())
    assert list(found) == list(SPREAD)
    for row in found.values():
        assert len(row) == 128
        assert row[0].get_x() == 0
        assert row[-1].get_x() + row[-1].get_width() == pytest.approx(SPAN)
        widths = [box.get_width() for box in row]
        assert widths == pytest.approx([widths[0]] * 128) and widths[0] > 2
    said = "The 256 threads of a program"
    wide = strips(shared(WIDE, dim=256, num_threads=256), WIDE, said)
    assert {name: len(row) for name, row in wide.items()} == dict.fromkeys(WIDE, 256)


def test_groups_stand_apart_and_warps_of_a_group_less_far():
    spread = SPREAD | {"some": (64, 4)}
    found = strips(shared(spread), spread)
    widest = {}
    for name, row in found.items():
        shared_by, gaps = spread[name][0], gaps_of(row)
        kinds = {"threads": [], "warps": [], "groups": []}
        for thread, gap in enumerate(gaps, start=1):
            is_warp = "threads" if thread % 32 else "warps"
            kinds[is_warp if thread % shared_by else "groups"].append(gap)
        for gap in kinds.values():
            assert gap == pytest.approx(gap[:1] * len(gap))
        assert len(kinds["groups"]) == 128 // shared_by - 1
        widest[name] = {kind: gap[0] for kind, gap in kinds.items() if gap}
        assert widest[name]["threads"] > 1
        sizes = [widest[name][kind] for kind in kinds if kind in widest[name]]
        assert all(wide > 1.5 * less for less, wide in pairwise(sizes))
    kinds = {name: list(gaps) for name, gaps in widest.items()}
    assert kinds["rung 1"] == ["threads", "groups"]
    assert kinds["rung 2"] == ["threads", "warps"]


def test_the_threads_of_the_first_logit_are_strong_and_the_others_soft():
    for name, row in strips(shared()).items():
        faces = [to_hex(box.get_facecolor(), keep_alpha=True) for box in row]
        shared_by, _ = SPREAD[name]
        soft = palette.soft_colour(0).lower()
        assert set(faces[:shared_by]) == {f"{BLUE}FF".lower()}
        assert faces[shared_by:] == [soft] * (128 - shared_by)


def test_a_strip_says_what_a_thread_holds_and_the_exchanges_that_this_needs():
    """Beside its name; a sum over 16 threads takes log2(16), over a warp log2(32)."""
    figure = shared()
    for name, who, then in (
        (
            "rung 1",
            "16 threads share a logit, 8 products each",
            "8 logits at once: 2 × 4 exchanges",
        ),
        (
            "rung 2",
            "128 threads share a logit, one product each",
            "1 logit at a time: 64 × 5 exchanges, and between warps",
        ),
    ):
        ((_, y), *_) = places_of(figure, name)
        ((left, beside),), ((end, right),) = (
            places_of(figure, said) for said in (who, then)
        )
        assert y == beside == right and left < 100 and end == SPAN
    remark = "a box is a thread; the strong ones share the 128 products of a logit"
    assert remark in texts(figure)
    said = texts(shared(WIDE, dim=256, num_threads=256))
    assert {"2 threads share a logit, 128 products each"} <= {*said}
    assert {
        "128 logits at once: 1 × 1 exchange",
        "8 logits at once: 10 × 5 exchanges",  # in one warp
        "4 logits at once: 1 × 5 exchanges, and between warps",
        "1 logit at a time: 64 × 5 exchanges, and between warps",
    } <= {*said}
    assert remark.replace("128", "256") in said


@pytest.mark.parametrize("num_threads", [0, 1, 12, 256])
def test_products_that_threads_cannot_share_evenly_are_refused(num_threads):
    with pytest.raises(ValueError, match=f"rung 7: {num_threads} threads, 128 prod"):
        shared({"rung 7": (num_threads, 16)})


def test_logits_and_threads_that_groups_cannot_share_evenly_are_refused():
    for num_logits in (0, 4, 12):
        with pytest.raises(ValueError, match=f"rung 7: {num_logits} logits, 8 at once"):
            shared({"rung 7": (16, num_logits)})
    with pytest.raises(ValueError, match="rung 7: groups of 128 threads, 64 in a"):
        shared({"rung 7": (128, 16)}, num_threads=64)


def test_the_parts_of_bars_are_as_long_as_their_counts():
    figure = shared()
    every = [box for box in figure.axes[0].patches if isinstance(box, Rectangle)]
    scale = None
    for name, (logits, others) in COUNTS.items():
        (_, y) = places_of(figure, name)[-1]
        row = [box for box in every if box.get_y() + box.get_height() / 2 == y]
        first, second = sorted(row, key=lambda box: box.get_x())
        scale = scale or first.get_width() / logits
        assert first.get_width() == pytest.approx(scale * logits)
        assert second.get_width() == pytest.approx(scale * others)
        end = first.get_x() + first.get_width()
        assert second.get_x() == pytest.approx(end)
        (total, _) = places_of(figure, str(logits + others))[-1]
        assert total == pytest.approx(second.get_x() + second.get_width() + 8)
    said = {"for logits", "for the rest of the step"}
    assert said | {"all threads of a warp at once: one exchange"} <= set(texts(figure))
