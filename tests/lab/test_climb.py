"""A launch tuned step by step: its climb is drawn under its roof, readably."""

from itertools import pairwise, product
from math import atan2, degrees, dist, log

import pytest

from helpers.drawn import arrows, dots, lines, places_of, texts
from helpers.readable import edges_of, readable_in_all_themes
from minipaged.draw.marks import Area, Words
from minipaged.draw.sheet import SPAN
from minipaged.lab import (
    launch_of,
    measured_tuning,
    plot_climb,
    plot_under_way,
    points_under_way,
)
from minipaged.lab.measure.launches import Launch
from minipaged.lab.plots.roof import DASHED, DOTTED

CEILING = 4000.0
H200 = measured_tuning("nvidia-h200")
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


def climb(launches=FEW, ceiling=CEILING):
    return plot_climb(launches, ceiling, "title")


def real(launches):
    return climb(launches, H200["ceilings"]["read_gb_per_s"])


DRAWINGS = {
    "a climb": lambda: real(WALK),
    "a climb of another batch": lambda: real(OTHER),
    "a climb, few numbers": climb,
    "one launch": lambda: climb({"alone": launch()}),
    "much under way": lambda: climb(WIDE),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def place(figure, megabytes, rate):
    """Where the numbers at the axes say that this is."""
    (x1, _), (x10, _) = (places_of(figure, n)[0] for n in ("2", "10"))
    (_, y1), (_, y2) = (places_of(figure, n)[0] for n in ("1,000", "2,000"))
    x = x1 + (x10 - x1) * log(megabytes / 2) / log(5)
    return x, y1 + (y2 - y1) * log(rate / 1000) / log(2)


def heavy(figure, style):
    """The ends of heavy lines in this style."""
    thick = [line for line in lines(figure) if line.linewidth == 1.6]
    return [line.points for line in thick if line.linestyle == style]


def test_a_launch_lies_where_its_numbers_are():
    figure = climb()
    wanted = [place(figure, *at) for at in ((2, 1000), (4, 2000), (10, 3200))]
    for one, other in zip(dots(figure, "o"), wanted, strict=True):
        assert one == pytest.approx(other, abs=0.01)


def test_the_law_rises_to_the_ceiling_and_there_it_is_marked():
    """1 MB in a microsecond is 1,000 GB/s."""
    figure = climb()
    (level,), (law,) = heavy(figure, "-"), heavy(figure, DASHED)
    marks = heavy(figure, DOTTED)  # around a name
    knee = place(figure, 4, CEILING)
    assert law[1] == marks[0][0] == pytest.approx(knee, abs=0.01)
    assert {x for ends in marks for x, _ in ends} == {marks[0][0][0]}
    assert level[0][1] == level[1][1] == pytest.approx(knee[1])
    assert level[1][0] == SPAN
    (x0, y0), (x, y) = law[0], place(figure, 2, 2000)  # on the line
    assert y == pytest.approx(y0 + (x - x0) * (knee[1] - y0) / (knee[0] - x0))
    ((x, y),) = places_of(figure, "4.0 MB")
    assert x == pytest.approx(knee[0]) and y > marks[-1][1][1]
    assert "under way / 1 µs" in texts(figure)
    ((_, y),) = places_of(figure, "4,000")
    assert y == pytest.approx(knee[1])


def test_no_number_of_the_axis_stands_beside_what_is_marked():
    said = texts(real(WALK))
    assert {"1", "2", "4.6 MB", "10", "20", "50", "1,000", "2,000", "4,591"} <= {*said}
    assert "5" not in said and "4,000" not in said


def test_arrows_lead_from_launch_to_launch():
    figure = climb()
    found = [arrow.points for arrow in arrows(figure)]
    steps = pairwise(dots(figure, "o"))
    for (start, end), (before, now) in zip(found, steps, strict=True):
        assert dist(start, before) == pytest.approx(11, abs=1)
        assert dist(end, now) == pytest.approx(11, abs=1)
        assert dist(start, now) > dist(end, now)
    assert not arrows(climb(SAME)) and not arrows(climb({"alone": launch()}))


def names(figure, launches):
    """Of each launch, the room that its share and its name take."""
    said, found = figure.scene.of(Words), []
    for name, one in launches.items():
        at = [words.text for words in said].index(name)
        share, own = said[at - 1 : at + 1]
        assert share.text == f"{one.percent:.0f} %"
        (left, *_), (_, top, right, bottom) = edges_of(share), edges_of(own)
        found.append((left, top, right, bottom))
    return found


def away(room, at):
    """Pixels from words to a place."""
    left, top, right, bottom = room
    aside = max(left - at[0], 0, at[0] - right), max(top - at[1], 0, at[1] - bottom)
    return dist(aside, (0, 0))


def along(points, count=50):
    """Places on a straight line."""
    (x0, y0), (x1, y1) = points
    shares = [n / count for n in range(count + 1)]
    return [(x0 + share * (x1 - x0), y0 + share * (y1 - y0)) for share in shares]


@pytest.mark.parametrize("launches", [WALK, OTHER, FEW])
def test_a_name_stands_beside_its_launch_and_hides_none_and_no_arrow(launches):
    figure = real(launches)
    for number, room in enumerate(names(figure, launches)):
        far = [away(room, at) for at in dots(figure, "o")]
        assert far[number] == min(far) < 48 and min(far) > 4
        for arrow in arrows(figure):
            assert all(away(room, at) > 0 for at in along(arrow.points))


@pytest.mark.parametrize("launches", [WALK, OTHER, FEW, WIDE])
def test_no_line_runs_through_a_name(launches):
    """Neither the roof, nor the mark, nor a thin line."""
    figure = real(launches)
    assert len(lines(figure)) > 8
    for room, line in product(names(figure, launches), lines(figure)):
        assert all(away(room, at) > 0 for at in along(line.points))


def test_what_is_hardly_reached_is_hatched():
    figure = climb()
    (area,) = figure.scene.of(Area)
    assert area.pattern and area.face == "none"
    knee = place(figure, 4, CEILING)
    for wanted in (knee, (SPAN, knee[1])):
        assert min(dist(wanted, corner) for corner in area.corners) < 0.01
    assert min(y for _, y in area.corners) < knee[1]  # above the ceiling, too
    assert "hardly reached" in texts(figure)


def test_the_name_of_the_law_lies_along_it():
    points = points_under_way(H200, ("8x4k",))
    figure = plot_under_way(points, H200["ceilings"]["read_gb_per_s"], "title")
    for drawn in (figure, real(WALK)):
        ((x0, y0), (x1, y1)) = heavy(drawn, DASHED)[0]
        said = drawn.scene.of(Words)
        (name,) = (words for words in said if words.text.startswith("under way / "))
        assert name.rotation == pytest.approx(degrees(atan2(y0 - y1, x1 - x0)))
    assert "the ceiling is hardly reached" in texts(figure)
