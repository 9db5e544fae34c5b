"""A launch tuned step by step: its climb is drawn under its roof, readably."""

from itertools import pairwise
from math import atan2, degrees, dist, hypot, log

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon
from matplotlib.path import Path
from matplotlib.transforms import Affine2D, Bbox

from helpers.drawn import arrows, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.draw.marks import Stroke
from minipaged.draw.sheet import SPAN
from minipaged.lab import (
    launch_of,
    measured_tuning,
    plot_climb,
    plot_under_way,
    points_under_way,
)
from minipaged.lab.measure.launches import Launch

BLUE, CEILING = palette.line_colour(0), 4000.0
H200 = measured_tuning("nvidia-h200")
CEILING_SAID = "the read ceiling"
SPLITS = {"5 stages": 1, "2 splits": 2, "4 splits": 4}


def measured(batch, tile, warps, stages, splits=1):
    sizes = {"tile": tile, "num_warps": warps, "num_stages": stages}
    return launch_of(H200, batch, **sizes, num_splits=splits)


WALK = {"4 stages, no splits": measured("8x4k", 64, 2, 4)}
WALK |= {name: measured("8x4k", 64, 2, 5, n) for name, n in SPLITS.items()}
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


# MB under way, and percent of 4,000 GB/s
FEW = {"a": launch(2.0, 25.0), "b": launch(4.0, 50.0), "c": launch(10.0, 80.0)}
WIDE = {"a": launch(9.0, 25.0), "b": launch(30.0, 60.0)}
SAME = {"a": launch(), "a again": launch(), "and again": launch()}


def climb(launches=FEW, ceiling=CEILING, **options):
    return plot_climb(launches, ceiling, "title", **options)


def real(launches):
    return climb(launches, H200["ceilings"]["read_gb_per_s"])


DRAWINGS = {
    "a climb": lambda: real(WALK),
    "a climb of another batch": lambda: real(OTHER),
    "a climb, few numbers": climb,
    "one launch": lambda: climb({"alone": launch()}),
    "a long latency": lambda: climb(WIDE, latency=4.0),
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
    for latency, said in ((1.0, "4.0 MB"), (0.75, "3.0 MB"), (4.0, "16 MB")):
        figure = climb(latency=latency)
        thick = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.6]
        lines = [line.get_xydata().tolist() for line in thick]
        (level,) = (ends for ends in lines if ends[0][1] == ends[1][1])
        marks = [ends for ends in lines if ends[0][0] == ends[1][0]]  # around a name
        assert len({x for ends in marks for x, _ in ends}) == 1
        mark = marks[0][0], marks[-1][1]
        (law,) = (ends for ends in lines if ends not in (level, *marks))
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
    assert {"1", "2", "4.6 MB", "10", "20", "50", "1,000", "2,000", "4,591"} <= {*said}
    assert "5" not in said and "4,000" not in said


def ends_of(arrow):
    path = arrow.get_path().vertices
    return path[0], path[2]


def test_arrows_lead_from_launch_to_launch():
    figure = climb()
    dots = [at for at, _ in signs(figure, "o")]
    strokes = [stroke for stroke in figure.scene.of(Stroke) if stroke.head]
    found = [stroke.points for stroke in strokes]
    assert len(found) == 2
    for (start, end), (before, now) in zip(found, pairwise(dots), strict=True):
        assert dist(start, before) == pytest.approx(11, abs=1)
        assert dist(end, now) == pytest.approx(11, abs=1)
        assert dist(start, now) > dist(end, now)
    assert not arrows(climb(SAME)) and not arrows(climb({"alone": launch()}))


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


@pytest.mark.parametrize("launches", [WALK, OTHER, FEW])
def test_a_name_stands_beside_its_launch(launches):
    figure = real(launches)
    drawn = [at for at, _ in signs(figure, "o")]
    for number, box in enumerate(names(figure, launches)):
        far = [away(box, at) for at in drawn]
        assert far[number] == min(far) < 48


@pytest.mark.parametrize("launches", [WALK, OTHER, FEW])
def test_a_name_hides_no_launch_and_no_arrow(launches):
    figure = real(launches)
    drawn = [at for at, _ in signs(figure, "o")]
    for box in names(figure, launches):
        assert all(away(box, at) > 4 for at in drawn)
        for arrow in arrows(figure):
            (x0, y0), (x1, y1) = ends_of(arrow)
            steps = [n / 50 for n in range(51)]
            on_it = [(x0 + t * (x1 - x0), y0 + t * (y1 - y0)) for t in steps]
            assert all(away(box, at) > 0 for at in on_it)


def test_only_the_last_name_stands_above_if_it_has_room_below_the_ceiling():
    for walk, has_room in ((WALK, True), (OTHER, False)):
        figure = real(walk)
        drawn = [at for at, _ in signs(figure, "o")]
        boxes = names(figure, walk)
        above = [max(b.intervaly) < y for b, (_, y) in zip(boxes, drawn, strict=True)]
        assert above == [False] * (len(walk) - 1) + [has_room]


@pytest.mark.parametrize("launches", [WALK, OTHER, FEW, WIDE])
def test_no_line_runs_through_a_name(launches):
    """Neither the roof, nor the mark, nor a thin line."""
    figure = real(launches)
    lines = [
        line.get_xydata().tolist()
        for line in figure.axes[0].lines
        if line.get_marker() == "None"
    ]
    ends = [text for text in figure.axes[0].texts if text.get_text() == CEILING_SAID]
    back, areas = figure.axes[0].transData.inverted(), names(figure, launches)
    areas += [Bbox(back.transform(text.get_window_extent())) for text in ends]
    assert len(areas) == len(launches) + 1 and len(lines) > 8
    for area in areas:
        inner = Bbox.from_extents(area.x0, area.y0 - 3, area.x1, area.y1 + 3)
        for line in lines:
            assert not Path(line).intersects_bbox(inner, filled=False)


def test_names_stand_on_one_side_of_the_mark_and_else_it_is_broken():
    for launches, sides, pieces in ((WALK, [True, False], 1), (OTHER, [None], 2)):
        figure = real(launches)
        marks = [
            line.get_xydata().tolist()
            for line in figure.axes[0].lines
            if line.get_linewidth() == 1.6 and len({*line.get_xdata()}) == 1
        ]
        x = marks[0][0][0]
        assert len(marks) == pieces
        for box, is_before in zip(names(figure, launches), sides, strict=False):
            found = True if box.x1 < x else False if box.x0 > x else None
            assert found == is_before


def test_the_name_of_the_law_stands_below_it_and_not_on_the_hatching():
    for figure in (real(WALK), climb(), climb(WIDE, latency=4.0)):
        area, _ = along_the_law(figure)
        (hatched,) = (p for p in figure.axes[0].patches if type(p) is Polygon)
        for corner in area.vertices:
            assert not hatched.contains_point(corner)


def test_what_is_hardly_reached_is_hatched():
    figure = climb()
    (area,) = (p for p in figure.axes[0].patches if type(p) is Polygon)
    assert area.get_hatch() and not area.get_fill()
    assert len(area.get_edgecolor()) == 4 and area.get_edgecolor()[3] < 0.5  # faint
    corners = area.get_xy().tolist()
    knee = place(figure, 4, CEILING)
    for wanted in (knee, (SPAN, knee[1])):
        assert min(dist(wanted, corner) for corner in corners) < 0.01
    assert min(y for _, y in corners) < knee[1]  # above the ceiling, too
    assert area.contains_point(
        area.axes.transData.transform((knee[0] - 99, knee[1] + 9))
    )
    below = knee[0] + 9, knee[1] + 9
    assert not area.contains_point(area.axes.transData.transform(below))
    assert "hardly reached" in texts(figure)
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


@pytest.mark.parametrize("launches", [WALK])
def test_nothing_runs_through_the_name_of_the_law(launches):
    figure = real(launches)
    area, _ = along_the_law(figure)
    lines = drawn_on_the_screen(figure, lambda line: line.get_marker() == "None")
    assert len(lines) > 8
    for ends in lines:
        assert not area.intersects_path(Path(ends), filled=False)


@pytest.mark.parametrize("batch", ["8x4k"])
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
