"""A launch tuned step by step: its climb is drawn under its roof, readably."""

from itertools import pairwise
from math import atan2, degrees, dist, hypot, log

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Affine2D, Bbox

from helpers.drawn import arrows, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.lab import (
    launch_of,
    measured_tuning,
    plot_climb,
    plot_under_way,
    points_under_way,
)
from minipaged.lab.measure.launches import Launch
from minipaged.lab.plots import palette
from minipaged.lab.plots.room import HALF, STRUCK, Box, Room, along_line
from minipaged.lab.plots.signs import SPAN

BLUE, CEILING = palette.line_colour(0), 4000.0
H200 = measured_tuning("nvidia-h200")
SPLITS = {"5 stages": 1, "2 splits": 2, "4 splits": 4, "8 splits: a second wave": 8}


def measured(batch, tile, warps, stages, splits=1):
    sizes = {"tile": tile, "num_warps": warps, "num_stages": stages}
    return launch_of(H200, batch, **sizes, num_splits=splits)


WALK = {"4 stages, no splits": measured("8x4k", 64, 2, 4)}
WALK |= {name: measured("8x4k", 64, 2, 5, n) for name, n in SPLITS.items()}
LONGER = {
    f"{4 + (at > 0)} stages, {n} splits": launch
    for at, (n, launch) in enumerate(
        zip(("no", "no", 2, 4, 8), WALK.values(), strict=True)
    )
}
OTHER = {
    "tiles of 16, 4 warps, 1 stage": measured("32x2k", 16, 4, 1),
    "tiles of 64": measured("32x2k", 64, 4, 1),
    "5 stages": measured("32x2k", 64, 4, 5),
}


def launch(under_way=5.0, percent=50.0, **changed):
    facts = {
        "rooms": {},
        "takes": {},
        "fit": 4,
        "waves": [4],
        "places": 4,
        "under_way": under_way,
        "least": 4.0,
        "spilled": 0,
        "us": 10.0,
        "percent": percent,
        "best": 80.0,
    }
    return Launch(**(facts | changed))


# MB under way, and percent of 4,000 GB/s; the last wave of the last is mostly empty.
FEW = {"a": launch(2.0, 25.0), "b": launch(4.0, 50.0), "c": launch(10.0, 80.0)}
DOWN = FEW | {"d": launch(20.0, 60.0, waves=[4, 1])}
WIDE = {"a": launch(9.0, 25.0), "b": launch(30.0, 60.0)}
DEEP = {"from here": launch(5.0, 90.0), "to there": launch(20.0, 40.0)}
NEAR = {"this": launch(5.0, 49.0), "that": launch(5.35, 47.0)}
NEAR = {"from here": launch(3.5, 60.0)} | NEAR
SAME = {"a": launch(), "a again": launch(), "and again": launch()}


def climb(launches=FEW, ceiling=CEILING, **options):
    return plot_climb(launches, ceiling, "title", **options)


def real(launches):
    return climb(launches, H200["ceilings"]["read_gb_per_s"])


DRAWINGS = {
    "a climb": lambda: real(dict(list(WALK.items())[:4])),
    "a climb and a fall": lambda: real(WALK),
    "a climb, long names": lambda: real(dict(list(LONGER.items())[:4])),
    "a climb and a fall, long names": lambda: real(LONGER),
    "a climb of another batch": lambda: real(OTHER),
    "a climb, few numbers": climb,
    "a fall": lambda: climb(DOWN),
    "one launch": lambda: climb({"alone": launch()}),
    "a deep fall": lambda: climb(DEEP),
    "launches side by side": lambda: climb(NEAR),
    "launches that are alike": lambda: climb(SAME),
    "a long latency": lambda: climb(WIDE, latency=4.0),
    "a short latency": lambda: climb(DOWN, latency=0.5),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def signs(figure, marker):
    """Where those with this marker are, and their colours."""
    return [
        (line.get_xydata()[0].tolist(), to_hex(line.get_color()).upper())
        for line in figure.axes[0].lines
        if line.get_marker() == marker
    ]


def place(figure, megabytes, rate):
    """Where the numbers at the axes say that this is."""
    (x1, _), (x10, _) = (places_of(figure, n)[0] for n in ("2", "10"))
    (_, y1), (_, y2) = (places_of(figure, n)[0] for n in ("1,000", "2,000"))
    x = x1 + (x10 - x1) * log(megabytes / 2) / log(5)
    return x, y1 + (y2 - y1) * log(rate / 1000) / log(2)


@pytest.mark.parametrize("latency", [0.25, 1.0, 1.25])
def test_a_launch_lies_where_its_numbers_are(latency):
    figure = climb(latency=latency)
    found = [at for at, _ in signs(figure, "o")]
    wanted = [place(figure, *at) for at in ((2, 1000), (4, 2000), (10, 3200))]
    assert len(found) == 3
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, abs=0.01)


def test_the_law_rises_to_the_ceiling_and_there_it_is_marked():
    """1 MB in a microsecond is 1,000 GB/s."""
    for latency, said in ((1.0, "4.0"), (0.75, "3.0"), (4.0, "16")):
        figure = climb(latency=latency)
        thick = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.6]
        lines = [line.get_xydata().tolist() for line in thick]
        (level,) = (ends for ends in lines if ends[0][1] == ends[1][1])
        (mark,) = (ends for ends in lines if ends[0][0] == ends[1][0])
        (law,) = (ends for ends in lines if ends not in (level, mark))
        knee = place(figure, 4 * latency, CEILING)
        assert law[1] == pytest.approx(knee, abs=0.01)
        assert mark[0] == pytest.approx(knee, abs=0.01)
        assert level[0][1] == level[1][1] == pytest.approx(knee[1])
        assert level[1][0] == SPAN
        (x0, y0), (x, y) = law[0], place(figure, 2 * latency, 2000)  # on the line
        assert y == pytest.approx(y0 + (x - x0) * (knee[1] - y0) / (knee[0] - x0))
        assert x0 < x - 50 and y0 <= mark[1][1] + 0.01  # it begins in the field
        ((x, y),) = places_of(figure, said)
        assert x == pytest.approx(knee[0]) and y > mark[1][1]
        assert f"under way / {latency:g} µs" in texts(figure)
        ((_, y),) = places_of(figure, "4,000")
        assert y == pytest.approx(knee[1])


def test_no_number_of_the_axis_stands_beside_what_is_marked():
    said = texts(real(WALK))
    assert {"1", "2", "4.6", "10", "20", "50", "1,000", "2,000", "4,591"} <= {*said}
    assert "5" not in said and "4,000" not in said


def test_both_moments_have_the_same_axes():
    one, other = real(dict(list(WALK.items())[:4])), real(WALK)
    for words in ("1", "2", "4.6", "10", "20", "50", "1,000", "2,000", "4,591"):
        assert places_of(one, words) == places_of(other, words)
    names = list(WALK)[:4]
    assert [places_of(one, n) for n in names] == [places_of(other, n) for n in names]


def ends_of(arrow):
    path = arrow.get_path().vertices
    return path[0], path[2]


def test_arrows_lead_from_launch_to_launch():
    figure = climb()
    dots = [at for at, _ in signs(figure, "o")]
    found = [ends_of(arrow) for arrow in arrows(figure)]
    assert len(found) == 2
    for (start, end), (before, now) in zip(found, pairwise(dots), strict=True):
        assert dist(start, before) == pytest.approx(11, abs=1)
        assert dist(end, now) == pytest.approx(11, abs=4)  # its head has a tip
        assert dist(start, now) > dist(end, now)
    assert not arrows(climb(SAME)) and not arrows(climb({"alone": launch()}))


def test_a_fall_is_a_cross_and_its_arrow_and_share_are_bad():
    figure = climb(DOWN)
    (fall,), dots = signs(figure, "X"), signs(figure, "o")
    assert fall[1] == palette.BAD and fall[0][1] > dots[-1][0][1]
    assert fall[0] == pytest.approx(place(figure, 20, 2400), abs=0.01)
    assert {colour for _, colour in dots} == {BLUE.upper()} and len(dots) == 3
    found = [to_hex(arrow.get_edgecolor()).upper() for arrow in arrows(figure)]
    assert found == [BLUE.upper(), BLUE.upper(), palette.BAD]
    colours = {
        text.get_text(): to_hex(text.get_color()).upper()
        for text in figure.axes[0].texts
    }
    assert colours["60 %"] == palette.BAD != colours["80 %"] == colours["25 %"]


@pytest.mark.parametrize(
    ("last", "is_fall"),
    [
        (launch(20.0, 70.0, waves=[4, 1]), True),
        (launch(20.0, 70.0, spilled=8), True),
        (launch(3.0, 70.0, spilled=8), True),  # it has too little under way, too
        (launch(20.0, 70.0), False),  # slower, and nothing to blame
        (launch(3.0, 70.0), False),  # that it has too little is no other fault
        (launch(20.0, 90.0, waves=[4, 1]), False),  # faster nevertheless
    ],
)
def test_a_fall_is_slower_and_has_another_fault(last, is_fall):
    figure = climb(FEW | {"last": last})
    assert len(signs(figure, "X")) == is_fall
    colours = {to_hex(arrow.get_edgecolor()).upper() for arrow in arrows(figure)}
    assert (palette.BAD in colours) == is_fall
    first = {"last": launch(20.0, 70.0, waves=[4, 1])}  # slower than nothing
    assert not signs(climb(first), "X")


def names(figure, launches):
    """Of each launch: the box of its share and its name, in the sheet's pixels."""
    figure.draw_without_rendering()
    said, found = [text.get_text() for text in figure.axes[0].texts], []
    back = figure.axes[0].transData.inverted()
    for name, one in launches.items():
        at = said.index(name)
        assert said[at - 1] == f"{one.percent:.0f} %"
        both = figure.axes[0].texts[at - 1 : at + 1]
        area = Bbox.union([text.get_window_extent() for text in both])
        found.append(Bbox(back.transform(area)))
    return found


def away(box, at):
    """Pixels from a box to a place."""
    xs, ys = sorted(box.intervalx), sorted(box.intervaly)
    beside = max(xs[0] - at[0], 0, at[0] - xs[1])
    return hypot(beside, max(ys[0] - at[1], 0, at[1] - ys[1]))


@pytest.mark.parametrize("launches", [WALK, LONGER, OTHER, DEEP])
def test_a_name_stands_beside_its_launch(launches):
    figure = real(launches)
    drawn = [at for sign in "oX" for at, _ in signs(figure, sign)]
    for number, box in enumerate(names(figure, launches)):
        far = [away(box, at) for at in drawn]
        assert far[number] == min(far) < 28


@pytest.mark.parametrize("launches", [WALK, LONGER, OTHER, DEEP, NEAR])
def test_a_name_hides_no_launch_and_no_arrow(launches):
    figure = real(launches)
    drawn = [at for sign in "oX" for at, _ in signs(figure, sign)]
    for box in names(figure, launches):
        assert all(away(box, at) > 4 for at in drawn)
        for arrow in arrows(figure):
            (x0, y0), (x1, y1) = ends_of(arrow)
            steps = [n / 50 for n in range(51)]
            on_it = [(x0 + t * (x1 - x0), y0 + t * (y1 - y0)) for t in steps]
            assert all(away(box, at) > 0 for at in on_it)


def test_only_the_name_of_the_quickest_stands_above():
    for walk in (WALK, LONGER):
        figure = real(walk)
        drawn = [at for sign in "oX" for at, _ in signs(figure, sign)]
        boxes = names(figure, walk)
        above = [max(b.intervaly) < y for b, (_, y) in zip(boxes, drawn, strict=True)]
        assert above == [False, False, False, True, False]


def test_what_is_hardly_reached_is_hatched_but_not_behind_words():
    figure = climb()
    (area,) = (p for p in figure.axes[0].patches if type(p) is PathPatch)
    assert area.get_hatch() and not area.get_fill()
    assert len(area.get_edgecolor()) == 4 and area.get_edgecolor()[3] < 0.5  # faint
    around, hole = area.get_path().to_polygons(closed_only=False)
    corners = {tuple(corner) for corner in around.round(6).tolist()}
    knee = place(figure, 4, CEILING)
    for wanted in (knee, (SPAN, knee[1]), (SPAN, 0)):
        assert min(dist(wanted, corner) for corner in corners) < 0.01
    ((x, y),) = places_of(figure, "hardly reached")
    assert hole.min(axis=0)[0] < x < hole.max(axis=0)[0]
    assert hole.min(axis=0)[1] < y < hole.max(axis=0)[1]
    # The way around the hole is the other way: so it stays empty.
    turns = [
        sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairwise(way))
        for way in (around, hole)
    ]
    assert turns[0] * turns[1] < 0
    ((x, y),) = places_of(figure, "the read ceiling")
    assert x == SPAN and 0 < y - knee[1] < 20


def along_the_law(figure):
    """What the words that say what the rising line is cover, on the screen."""
    figure.draw_without_rendering()
    (text,) = (t for t in figure.axes[0].texts if "under way / " in t.get_text())
    turned, (x, y) = (
        text.get_rotation(),
        text.get_transform().transform(text.get_position()),
    )
    text.set_rotation(0)
    flat = text.get_window_extent().translated(-x, -y)
    text.set_rotation(turned)
    corners = [(flat.x0, flat.y0), (flat.x1, flat.y0), (flat.x1, flat.y1)]
    turn = Affine2D().rotate_deg(turned).translate(x, y)
    area = Path(turn.transform([*corners, (flat.x0, flat.y1)])[[0, 1, 2, 3, 0]])
    return area, turned


def drawn_on_the_screen(figure, is_wanted):
    """The ends of lines, or the places of signs."""
    move = figure.axes[0].transData.transform
    return [move(line.get_xydata()) for line in figure.axes[0].lines if is_wanted(line)]


@pytest.mark.parametrize("launches", [WALK, OTHER, DEEP])
def test_nothing_runs_through_the_name_of_the_law(launches):
    figure = real(launches)
    area, _ = along_the_law(figure)
    lines = drawn_on_the_screen(figure, lambda line: line.get_marker() == "None")
    assert len(lines) > 8
    for ends in lines:
        assert not area.intersects_path(Path(ends), filled=False)


@pytest.mark.parametrize("batch", ["1x8k", "8x4k", "32x2k", "64x4k"])
def test_the_name_of_the_law_hides_no_launch(batch):
    points = points_under_way(H200, (batch,))
    ceiling = H200["ceilings"]["read_gb_per_s"]
    figure = plot_under_way(points, ceiling, "title")
    area, turned = along_the_law(figure)
    signs = drawn_on_the_screen(figure, lambda line: line.get_marker() in ("o", "x"))
    places = np.concatenate(signs)
    assert len(places) > len(points[batch])
    assert not area.contains_points(places, radius=2).any()
    assert not area.contains_points(places, radius=-2).any()
    lines = drawn_on_the_screen(figure, lambda line: line.get_linestyle() == "--")
    (law,) = (ends for ends in lines if len({*ends[:, 0]}) == 2 == len({*ends[:, 1]}))
    (x0, y0), (x1, y1) = law
    assert turned == pytest.approx(degrees(atan2(y1 - y0, x1 - x0)), abs=0.01)
    assert not area.intersects_path(Path(law), filled=False)
    assert "the ceiling is hardly reached" in texts(figure)


def test_the_name_of_the_law_gives_way_to_launches():
    """The line rises from 1 MB to 4; at first there are launches over its middle."""
    few = [(1.0, 500.0, []), (40.0, 3900.0, [])]
    over = [(megabytes / 10, 110.0 * megabytes, []) for megabytes in range(17, 23)]
    middles = []
    for points in (few, few + over):
        figure = plot_under_way({"a": points}, 4000, "title")
        area, _ = along_the_law(figure)
        dots = drawn_on_the_screen(figure, lambda line: line.get_marker() == "o")
        assert not area.contains_points(max(dots, key=len)).any()
        middles.append(area.get_extents().get_points().mean(axis=0)[0])
    assert abs(middles[0] - middles[1]) > 20


def test_words_along_a_line_know_what_they_hide():
    """Along a level line, 100 pixels wide: from its middle 50 to each side."""
    words = along_line((0.0, 0.0), (400.0, 0.0), 100.0, 6.0)
    assert [one.middle[0] for one in words[:3]] == [200, 160, 240]
    assert all(one.middle[1] == 6 for one in words)  # below it
    middle = words[0]
    assert middle.num_hidden([(200, 12), (249, 7), (200, -6), (260, 12)]) == 2
    assert middle.struck([149, 151, 249], [5, 7, 18, 20]) == 4 * STRUCK
    above = along_line((0.0, 0.0), (400.0, 0.0), 100.0, -6.0)[0]
    assert above.middle == (200, -6) and above.is_above
    assert above.num_hidden([(200, -12), (160, -7), (200, 12)]) == 2
    assert above.struck([], [-18, -7, -5, 7]) == 2 * STRUCK
    (short,) = along_line((0.0, 0.0), (50.0, 0.0), 100.0, 6.0)
    assert short.middle == (25, 6)


@pytest.mark.parametrize("gap", [-6.0, 6.0])
def test_words_along_a_rising_line_stand_beside_it(gap):
    for one in along_line((0.0, 300.0), (300.0, 0.0), 80.0, gap):
        x, y = one.middle
        assert (x + y - 300) / 2**0.5 == pytest.approx(gap)  # right of it is below it
        inner = x + gap / 2**0.5, y + gap / 2**0.5
        assert one.num_hidden([inner, (300 - y, 300 - x)]) == 1


def test_words_find_room():
    room = Room(Box(0, 0, 400, 200), [111])
    first = room.take_beside((100, 100), 60)
    assert first.left == 112 and (first.top + first.bottom) / 2 == 124  # off the line
    assert first.right - first.left == 60 and first.bottom - first.top == 2 * HALF
    second = room.take_beside((100, 100), 60)  # the part is taken now
    assert second.bottom <= first.top or second.top >= first.bottom
    top = Room(Box(0, 0, 400, 200)).take_beside((100, 100), 60, is_top=True)
    assert (top.left + top.right) / 2 == 100 and top.bottom < 100
    low = Room(Box(0, 0, 400, 200))
    low.take((0, 10), (400, 10))
    assert low.take_beside((390, 195), 60).bottom <= 200  # it stays in the field
    assert low.take_beside((390, 20), 60, is_top=True).top > 10
