"""Pictures lay themselves out: nothing overlaps, and a scene says what it shows."""

import re
import subprocess
import sys
from itertools import combinations
from math import dist
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.readable import check_that_no_words_overlap, edges_of
from minipaged.draw.bands import Legend
from minipaged.draw.chart import Chart
from minipaged.draw.html import to_page, to_svg
from minipaged.draw.lanes import spread
from minipaged.draw.letters import width_of
from minipaged.draw.marks import Box, Dots, Stroke, Words
from minipaged.draw.palette import BAD, THEMES
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import SPAN
from minipaged.draw.tones import (
    FOUND,
    KEPT,
    free,
    held,
    others,
    shared,
    sign_of,
    soft,
    strong,
)

PAGE = Path(__file__).parents[2] / "minipaged" / "draw" / "README.md"
NAMES = st.text("abc WMi", max_size=12)
TONES = st.sampled_from(
    [strong("A"), soft("B"), free(), others(), shared(strong("A"), "A"), KEPT, FOUND]
)


@st.composite
def pictures(draw):
    """Rows of any cells, some of them linked, bracketed, with values and captions."""
    picture = Picture("title")
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 30))
        captions = draw(st.booleans())
        cells = [
            Cell(draw(NAMES), draw(TONES), above=str(at) if captions else "")
            for at in range(count)
        ]
        rows.append(
            picture.row(
                draw(NAMES),
                draw(NAMES),
                cells,
                values=draw(st.lists(NAMES, max_size=2)),
            )
        )
    for _ in range(draw(st.integers(0, 3))):
        one, other = draw(st.sampled_from(rows)), draw(st.sampled_from(rows))
        if one is not other:
            picture.link(one[0], other[-1])
    if draw(st.booleans()):
        picture.over(rows[0][:], draw(NAMES))
    picture.legend((strong("A"), "first"), (KEPT, "second"), verdict=draw(NAMES))
    return picture


@settings(max_examples=60, deadline=None)
@given(pictures())
def test_any_picture_can_be_read(picture):
    scene = picture.scene()
    check_that_no_words_overlap(scene)
    ElementTree.fromstring(to_svg(scene))


def test_rows_stand_apart_where_links_lead():
    def gap(is_linked):
        picture = Picture()
        one, other = (picture.row(name, "", [Cell("x")]) for name in "ab")
        if is_linked:
            picture.link(one[0], other[0])
        picture.scene()
        return other.y - one.y

    assert gap(True) > gap(False) + 20


def test_rows_are_as_far_apart_as_they_say():
    picture = Picture()
    one, other = (picture.row("", "", [Cell()], apart=n) for n in (2, 30))
    picture.scene()
    assert other.y == one.y + one.height + 2


@pytest.mark.parametrize("words", ["", "said"])
def test_a_bracket_lies_below_its_cells(words):
    picture = Picture()
    row = picture.row("a", "", [Cell("1"), Cell("2")])
    picture.under(row[:], words)
    heights = [y for line in picture.scene().of(Stroke) for _, y in line.points]
    low = row.y + row.height
    assert low < min(heights) and max(heights) <= low + row.below


def test_brackets_without_words_have_ends_that_tell_neighbours_apart():
    picture = Picture()
    row = picture.row("a", "", [Cell("1"), Cell("2")])
    for at in range(2):
        picture.under(row[at], "", BAD)
    lines = [line.points for line in picture.scene().of(Stroke)]
    upright = sorted(x for (x, _), (other, _) in lines if x == other)
    assert len(upright) == 4 and upright[1] < row.area(1, 2).x < upright[2]


@pytest.mark.parametrize(("end", "is_near"), [(0, False), (1, True)])
def test_an_arrow_ends_at_its_cell_or_at_the_words_that_stand_there(end, is_near):
    picture = Picture()
    upper = picture.row("a", "", [Cell("1"), Cell("2")])
    lower = picture.row("b", "", [Cell("1", above="words"), Cell("2")])
    picture.link(upper[end], lower[end])
    (arrow,) = (line for line in picture.scene().of(Stroke) if line.head)
    assert (lower.y - arrow.points[-1][1] < 4) == is_near


def test_a_straight_link_has_no_bend():
    picture = Picture()
    rows = [picture.row(name, "", [Cell("1"), Cell("2")]) for name in "ab"]
    picture.link(rows[0][0], rows[1][1], is_straight=True)
    (arrow,) = (line for line in picture.scene().of(Stroke) if line.head)
    middles = rows[0].area(0, 1).middle, rows[1].area(1, 2).middle
    assert [x for x, _ in arrow.points] == [*middles] and not arrow.curved


def test_a_link_leads_from_the_one_cell_to_the_other():
    picture = Picture()
    one = picture.row("one", "", [Cell(str(n)) for n in range(4)])
    other = picture.row("other", "", [Cell(str(n)) for n in range(4)])
    picture.link(one[3], other[1], BAD)
    picture.link(other[0], one[0])
    scene = picture.scene()
    assert [link[:4] for link in scene.links] == [
        ("one", 3, "other", 1), ("other", 0, "one", 0),
    ]  # fmt: skip
    down, up = (stroke for stroke in scene.of(Stroke) if stroke.head)
    assert down.color == BAD and down.points[0][0] == one.area(3, 4).middle
    assert down.points[-1][0] == other.area(1, 2).middle
    assert one.area(3, 4).y < down.points[0][1] < down.points[-1][1] < other.y
    assert up.points[0][1] > up.points[-1][1] > one.y + one.height


def test_words_of_a_link_stand_beside_its_middle():
    picture = Picture()
    one, other = (picture.row(name, "", [Cell("x")]) for name in "ab")
    picture.link(one[0], other[0], words="copied")
    scene = picture.scene()
    (words,) = (words for words in scene.of(Words) if words.text == "copied")
    assert one.y + one.height < words.y < other.y
    assert one.area(0, 1).middle < words.x < one.area(0, 1).middle + 12


def test_panels_may_be_linked():
    table, pool = Picture("a table"), Picture("the pool")
    entry = table.row("entry 0", "", [Cell("1", soft("A"))])
    blocks = [pool.row(f"block {n}", "", [Cell("", free(), wide=4)]) for n in range(3)]
    both = Picture("title")
    both.beside(table, pool, shares=(1, 2))
    both.link(entry[0], blocks[1][0])
    scene = both.scene()
    (arrow,) = (stroke for stroke in scene.of(Stroke) if stroke.head)
    label = next(words for words in scene.of(Words) if words.text == "block 1")
    assert arrow.points[0][0] < arrow.points[-1][0] <= label.x
    assert label.x == pytest.approx((SPAN - 28) / 3 + 28)
    assert arrow.points[-1][1] == pytest.approx(blocks[1].y + blocks[1].height / 2)
    assert [row.label for row in scene.rows] == [
        "entry 0",
        *(f"block {n}" for n in range(3)),
    ]


def test_a_block_is_its_cells_and_has_a_rim():
    picture = Picture()
    row = picture.blocks("pool", "", [[Cell(), Cell()], [Cell(wide=2)]], gap=12)
    picture.over(row.block(1), "block 1", "none")
    scene = picture.scene()
    first, second = rims = [row.area(0, 2), row.area(2, 3)]
    assert first.width == pytest.approx(second.width)
    assert second.x == pytest.approx(first.x + first.width + 12)
    assert [box[:4] for box in scene.of(Box) if box.rim != "none"] == rims
    assert scene.rows[0].widths == [1, 1, 2]
    (words,) = (words for words in scene.of(Words) if words.text == "block 1")
    assert words.x == pytest.approx(second.middle) and words.y < second.y


def test_frames_stand_in_the_gaps_and_do_not_meet():
    picture = Picture()
    row = picture.row("a", "", [Cell("x"), Cell("y")], gap=14.0)
    picture.frame(row[0], BAD)
    picture.frame(row[1], BAD)
    left, right = (box for box in picture.scene().of(Box) if box.rim == BAD)
    assert left.x < row.area(0, 1).x and right.x < row.area(1, 2).x
    assert left.x + left.width < right.x


def test_a_level_arrow_leads_to_the_next_cell_and_a_false_one_bears_a_cross():
    picture = Picture()
    row = picture.row("a", "", [Cell("x"), Cell("y"), Cell("z")], gap=30.0)
    picture.link(row[0], row[1])
    picture.link(row[1], row[2], BAD, is_false=True)
    scene = picture.scene()
    level = [stroke for stroke in scene.of(Stroke) if stroke.head]
    middle = row.y + row.height / 2
    assert {y for stroke in level for _, y in stroke.points} == {middle}
    for stroke, at in zip(level, (0, 1), strict=True):
        ends = row.area(at, at + 1), row.area(at + 1, at + 2)
        assert ends[0].x + ends[0].width < stroke.points[0][0]
        assert stroke.points[-1][0] < ends[1].x
    assert sum(stroke.color == BAD for stroke in scene.of(Stroke)) == 1 + 2
    assert [link.is_false for link in scene.links] == [False, True]


def test_arcs_of_a_row_reach_further_down_if_they_are_longer():
    picture = Picture()
    row = picture.row("a", "", [Cell(str(n)) for n in range(4)])
    for at in (1, 2, 3):
        picture.link(row[at], row[0])
    arcs = [stroke.points for stroke in picture.scene().of(Stroke) if stroke.head]
    deep = [points[1][1] for points in arcs]
    assert deep == sorted({*deep})
    ends = [points[-1][0] for points in arcs]
    assert ends == sorted({*ends}, reverse=True) and ends[-1] > row.area(0, 1).middle


def test_a_long_arc_stays_below_a_short_one_that_it_encloses():
    picture = Picture()
    row = picture.row("a", "", [Cell(str(n)) for n in range(4)])
    picture.link(row[0], row[3])
    picture.link(row[1], row[0])
    long, short = (line.points for line in picture.scene().of(Stroke) if line.head)

    def height(points, t):
        return points[0][1] + 3 * t * (1 - t) * (points[1][1] - points[0][1])

    def along(points, t):
        (a, _), *_, (b, _) = points
        return a + (3 * t**2 - 2 * t**3) * (b - a)

    middle = along(short, 0.5)
    t = next(n / 100 for n in range(100) if along(long, n / 100) >= middle)
    assert height(long, t) > height(short, 0.5) + 4


def test_a_level_link_joins_the_sides_of_cells_in_two_rows():
    def drawn(is_level):
        picture = Picture()
        one = picture.row("", "", [Cell("1", below="words"), Cell("2")], gap=30.0)
        two = picture.row("", "", [Cell(), Cell("3", above="words")], gap=30.0)
        picture.link(one[0], two[1], is_level=is_level)
        (arrow,) = (line for line in picture.scene().of(Stroke) if line.head)
        return one.area(0, 1), two.area(1, 2), arrow.points

    start, end, ((x0, y0), *_, (x1, y1)) = drawn(True)
    assert start.x + start.width < x0 < x1 < end.x
    assert (y0, y1) == (start.y + start.height / 2, end.y + end.height / 2)
    assert end.y < drawn(False)[1].y - 20  # it needs no room between the rows


def test_words_above_and_below_a_cell_may_have_a_colour_and_are_bold_then():
    picture = Picture()
    cells = [Cell("1", below="quiet"), Cell("2", above="loud", below="loud", ink=BAD)]
    picture.row("", "", cells, gap=30.0)
    said = [words for words in picture.scene().of(Words) if len(words.text) > 1]
    assert [(words.text, words.weight) for words in said] == [
        ("loud", "bold"), ("quiet", "normal"), ("loud", "bold"),
    ]  # fmt: skip
    assert [words.color == BAD for words in said] == [True, False, True]


@pytest.mark.parametrize("at", [0, -1])
def test_words_of_an_outer_cell_stay_within_the_picture(at):
    picture = Picture()
    cells = [Cell(str(n)) for n in range(16)]
    cells[at] = cells[at]._replace(below="far wider than its cell", ink=BAD)
    picture.row("", "", cells)
    check_that_no_words_overlap(picture.scene())


def test_dashed_cells_of_a_block_have_one_rim():
    room = Cell("", free(), rim="dashed")
    picture = Picture()
    row = picture.blocks("", "", [[Cell("1"), room, room], [room]], rim="none")
    dashed = [box for box in picture.scene().of(Box) if box.linestyle == "--"]
    assert [box[:4] for box in dashed] == [row.area(1, 3), row.area(3, 4)]
    (divider,) = picture.scene().of(Stroke)
    assert {x for x, _ in divider.points} == {row.area(2, 3).x}


def test_of_several_holders_each_has_a_band_and_words_stand_below_them():
    tone = held("AB")
    for word, high in (("", 48), ("word", 12)):
        picture = Picture()
        row = picture.row("", "", [Cell(word, tone)], height=48.0)
        scene = picture.scene()
        bands = [box for box in scene.of(Box) if box.face in tone.bands]
        assert [band.face for band in bands] == [soft("A").face, soft("B").face]
        assert [band.y - row.y for band in bands] == [0, high / 2]
        assert [band.height for band in bands] == [high / 2] * 2
        (lines,) = (box for box in scene.of(Box) if box.pattern)
        assert lines[:4] == (*bands[0][:3], high)
    assert not held("A").hatching


def test_words_break_into_lines_if_there_is_room_for_them():
    def lines(height):
        picture = Picture(widest=90)
        picture.row("", "", [Cell("once upon a time in a land")], height=height)
        return [words.text for words in picture.scene().of(Words) if words.text]

    assert lines(48) == ["once upon a", "time in a", "land"]
    assert len(lines(32)) == 2
    assert len(lines(26)) == 1


def test_arrows_to_one_cell_do_not_meet_and_do_not_cross():
    picture = Picture()
    row = picture.row("a", "", [Cell("x"), Cell("y"), Cell("z")])
    end = picture.row("b", "", [Cell("w", wide=3)])
    for at in (2, 0, 1):
        picture.link(row[at], end[0])
    arrows = [stroke.points for stroke in picture.scene().of(Stroke) if stroke.head]
    start, stop = ([points[at][0] for points in arrows] for at in (0, -1))
    assert stop[1] < stop[2] < stop[0] and start[1] < start[2] < start[0]
    assert stop[2] == pytest.approx(end.area(0, 1).middle)


def test_an_arc_below_the_last_row_has_room():
    picture = Picture()
    row = picture.row("a", "", [Cell("x"), Cell("y")])
    height = picture.measure(SPAN)
    picture.link(row[0], row[1], words="copied")
    assert picture.measure(SPAN) > height + 40
    check_that_no_words_overlap(picture.scene())


def test_a_frame_may_reach_down_to_another_row():
    picture = Picture()
    rows = [picture.row("", "", [Cell(), Cell()]) for _ in range(3)]
    picture.frame(rows[0][1], BAD, last=rows[1][1])
    (box,) = (box for box in picture.scene().of(Box) if box.rim == BAD)
    middles = [(row.area(1, 2).middle, row.y + 9) for row in rows]
    assert [box.holds(*middle) for middle in middles] == [True, True, False]
    assert not box.holds(rows[0].area(0, 1).middle, rows[0].y + 9)


def test_a_word_without_room_is_a_short_one():
    def said(wide):
        picture = Picture()
        picture.row("a", "", [Cell("block 3", soft("A"), wide, short="3")])
        return [words.text for words in picture.scene().of(Words)]

    assert "block 3" in said(3) and "3" in said(0.6)


def test_a_bracket_without_words_lies_outside_of_the_cells():
    picture = Picture()
    row = picture.row("a", "", [Cell("1", above="one"), Cell("2", above="two")])
    picture.over(row[:], "", BAD)
    lines = [s.points for s in picture.scene().of(Stroke) if s.color == BAD]
    assert lines and all(y < row.y - 18 for points in lines for _, y in points)


def test_upright_words_have_room_above_the_cells():
    picture = Picture()
    cells = [Cell("", strong("A"), above=word) for word in ("a", "capital", "of")]
    row = picture.row("a", "", cells, unit=14, is_upright=True)
    found = [words for words in picture.scene().of(Words) if words.rotation]
    assert [words.text for words in found] == ["a", "capital", "of"]
    middles = [row.area(at, at + 1).middle for at in range(3)]
    assert [words.x for words in found] == middles
    assert row.y > width_of("capital") and {words.y for words in found} == {row.y - 4}


def test_upright_words_begin_above_their_cells_in_html_too():
    picture = Picture()
    row = picture.row(
        "", "", [Cell("", strong("A"), above="up  high")], is_upright=True
    )
    (text,) = (t for t in ElementTree.fromstring(to_svg(picture.scene())) if t.text)
    x, y = row.area(0, 1).middle, row.y - 4
    assert text.get("transform") == f"rotate(-90 {x:.2f} {y:.2f})"
    assert float(text.get("x")) == pytest.approx(x, abs=0.01)
    assert text.get("text-anchor") is None  # it begins there
    space = "{http://www.w3.org/XML/1998/namespace}space"
    assert text.get(space) == "preserve"  # browsers do not inherit it


def test_a_row_with_no_such_option_or_cells():
    picture = Picture()
    row = picture.row("a", "", [Cell("1")])
    with pytest.raises(IndexError):
        row[1]
    with pytest.raises(IndexError):
        row[1:]
    with pytest.raises(TypeError, match="'tallness'"):
        picture.row("a", "", [], tallness=3)


def test_the_row_that_matters_is_heavy_and_its_numbers_stay_in_their_columns():
    picture = Picture()
    picture.heads("first", "second")
    picture.row("a", "", [Cell("1")], values=["1", "10,000"], aside="behind")
    picture.row(
        "b", "", [Cell("1")], values=["2", "20,000"], aside="last", is_heavy=True
    )
    scene = picture.scene()
    weights = {words.text: words.weight for words in scene.of(Words)}
    bold = {words for words, weight in weights.items() if weight == "bold"}
    assert bold == {"2", "20,000", "last"}
    ends = {words.text: words.x for words in scene.of(Words) if words.ha == "right"}
    assert ends["1"] == ends["2"] == ends["first"] < ends["10,000"] == SPAN
    check_that_no_words_overlap(scene)


def signs_of(scene, colour):
    """Boxes of this face or rim that are as large as the signs of a legend."""
    small = [box for box in scene.of(Box) if box.height < 13]
    return [box.face for box in small if colour in (box.face, box.rim)]


@pytest.mark.parametrize("word", ["", "word"])
def test_a_legend_shows_a_tone_as_the_rows_above_it(word):
    tone = soft("A")
    picture = Picture()
    picture.row("a", "", [Cell(word, tone), Cell("", others())])
    picture.legend((tone, "there before"), (others(), "others'"))
    scene = picture.scene()
    assert signs_of(scene, tone.face) == ([] if word else [tone.face])
    # Nobody writes on others' blocks: they keep their face.
    faces = [box.face for box in scene.of(Box)]
    assert faces.count(others().face) == 2


def test_words_of_a_narrow_bracket_are_cut_only_beside_others():
    def said(*places):
        picture = Picture(widest=12)
        row = picture.row("a", "", [Cell() for _ in range(9)])
        for at in places:
            picture.under(row[at], "scales")
        return [words.text for words in picture.scene().of(Words)]

    assert "scales" in said(4) and said(3, 7).count("scales") == 2
    assert "scales" not in said(4, 5)


def test_a_false_arrow_is_orange_as_a_whole():
    picture = Picture()
    one, other = (picture.row(name, "", [Cell("x")]) for name in "ab")
    picture.link(one[0], other[0], is_false=True)
    assert {stroke.color for stroke in picture.scene().of(Stroke)} == {BAD}


def test_a_bar_says_where_it_is_for_links():
    picture = Picture()
    lane, row = picture.lane("a"), picture.row("b", "", [Cell("x")])
    assert lane.bar(3, 3, strong("A")) is None
    first = lane.bar(2, 4, strong("A"))
    second = lane.bar(6, 7, strong("A"), rim=BAD)
    picture.link(row[0], second)
    picture.scene()
    assert [lane.area(one.start, one.stop).x for one in (first, second)] == [
        lane.place(2), lane.place(6),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("points", "side"),
    [([(1, 1), (2, 1), (3, 9)], "right"), ([(1, 9), (2, 1), (3, 1)], "left"),
     ([(1, 1), (2, 1), (3, 1)], "center")],
)  # fmt: skip
def test_a_note_stands_where_no_line_runs_through_it(points, side):
    chart = Chart()
    chart.line(points)
    chart.note(2, 1, "here")
    (note,) = (words for words in chart.scene().of(Words) if words.text == "here")
    assert note.ha == side


def test_a_long_legend_takes_several_lines():
    signs = [(strong("A"), "what a tone means, in many words")] * 7
    short, long = (Legend(signs[:n], "", None, {}, Picture()) for n in (1, 7))
    assert long.measure(SPAN) > 2 * short.measure(SPAN)
    picture = Picture()
    picture.legend(*signs)
    check_that_no_words_overlap(picture.scene())


def test_chart_points_lie_where_their_numbers_are():
    chart = Chart("title", xlabel="x", ylabel="y")
    chart.line([(0, 0), (5, 10), (10, 20)], "a line")
    chart.mark(x=5, words="half")
    scene = chart.scene()
    (start, middle, end) = scene.of(Dots)[0].places
    assert middle[0] == pytest.approx((start[0] + end[0]) / 2)
    assert middle[1] == pytest.approx((start[1] + end[1]) / 2)
    assert start[0] < end[0] and start[1] > end[1]
    (mark,) = (s for s in scene.of(Stroke) if s.linestyle == "--")
    assert mark.points[0][0] == pytest.approx(middle[0])
    check_that_no_words_overlap(scene)


def test_a_line_ends_where_the_axis_does():
    chart = Chart("title", y_limits=(0, 2))
    chart.line([(0, 1), (1, 1), (2, 3), (3, 3), (4, 1)], "a line", has_markers=True)
    scene = chart.scene()
    (dots,) = scene.of(Dots)[:1]
    lines = [s.points for s in scene.of(Stroke) if s.linewidth == 1.6]
    first, last, _ = lines  # and the legend
    assert len(dots.places) == 3 and len(first) == 3 and len(last) == 2
    assert first[-1][1] == last[0][1] == pytest.approx(min(y for _, y in first))
    assert scene.curves[0].points[2] == (2, 3)


def test_charts_one_above_the_other_have_one_scale():
    above = Chart()
    above.line([(0, 1), (10, 20_000)], "a line")
    below = Chart(below=above)
    below.line([(5, 1), (10, 2)], "another", marker="x")
    above.mark(y=7, words="a limit")
    picture = Picture("title")
    picture.add(above)
    picture.add(below)
    one, other = (dots for dots in picture.scene().of(Dots) if len(dots.places) == 2)
    assert one.places[1][0] == pytest.approx(other.places[1][0])
    assert other.marker == "x"


def test_words_of_several_marks_stand_one_above_the_other():
    chart = Chart("title", x_limits=(0, 10))
    chart.line([(0, 0), (10, 20)])
    for x in (4, 5, 9.9):
        chart.mark(x=x, words=f"words of the mark at {x}")
    scene = chart.scene()
    check_that_no_words_overlap(scene)
    heights = [words.y for words in scene.of(Words) if "mark" in words.text]
    assert heights == sorted(heights) and len({*heights}) == 3


def test_a_band_lies_between_its_heights_and_ends_where_the_axis_does():
    chart = Chart("title", y_limits=(0, 4))
    chart.line([(0, 0), (1, 4)])
    chart.band(1, 2)
    chart.band(3, 9)
    scene = chart.scene()
    low, high = (box for box in scene.of(Box) if box.face == others().face)
    bottom, top = (y for _, y in scene.of(Dots)[0].places)
    assert low.height == high.height == pytest.approx((bottom - top) / 4)
    assert high.y == pytest.approx(top) and low.y == pytest.approx(top + 2 * low.height)


def test_columns_are_as_high_as_their_counts():
    chart = Chart("title", ylabel="count")
    chart.columns([0, 1, 2, 3], [4, 0, 2])
    four, two = (box for box in chart.scene().of(Box) if box.face == strong(0).face)
    assert four.height == pytest.approx(2 * two.height)


def test_stairs_hold_a_value_to_the_next():
    chart = Chart("title")
    chart.line([(0, 1), (2, 3)], "held", is_stairs=True)
    (path,) = (s for s in chart.scene().of(Stroke) if len(s.points) == 3)
    (_, low), (turn, also_low), (_, high) = path.points
    assert low == also_low > high and turn == path.points[2][0]


def examples():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


def lanes(**axis):
    picture = Picture("title")
    one, other = picture.lane("one"), picture.lane("other", "a remark")
    one.bar(1, 3, soft("A"), "waits")
    one.bar(3, 4, strong("A"), high=0.5)
    one.point(2, "here")
    other.line(8)
    other.dots([0.5, 1, 2, 4, 4, 4], sign_of(1))
    picture.axis("seconds", **axis)
    return picture, one, other


def test_numbers_of_a_lane_lie_where_the_axis_says():
    picture, one, other = lanes()
    scene = picture.scene()
    check_that_no_words_overlap(scene)
    said = {words.text: words.x for words in scene.of(Words)}
    assert one.area(2, 3).x == one.place(3) == pytest.approx(said["3"])
    assert other.place(8) == pytest.approx(said["8"], abs=4)
    (half,) = (box for box in scene.of(Box) if box.face == strong("A").face)
    assert half.height == one.height / 2 == half.y - one.y
    assert half.x == pytest.approx(one.place(3), abs=1)
    assert scene.rows[0].widths == [1, 2, 1] and scene.rows[0].signs == [(2, "here")]
    assert (8, "line") in scene.rows[1].signs


def test_a_logarithmic_axis_has_equal_factors_and_says_its_marks():
    picture, _, other = lanes(is_logarithmic=True, marks={1.0: "equal"})
    scene = picture.scene()
    check_that_no_words_overlap(scene)
    one, two, four = map(other.place, (1, 2, 4))
    assert four - two == pytest.approx(two - one)
    said = {words.text: words.x for words in scene.of(Words)}
    assert said["equal"] == pytest.approx(one) and "1" not in said


def test_an_axis_has_the_numbers_that_it_is_given():
    picture, one, _ = lanes(ticks=[0, 3])
    said = {words.text: words.x for words in picture.scene().of(Words)}
    assert said["3"] == pytest.approx(one.place(3)) and "2" not in said


def test_dots_give_way_and_no_farther_than_needed():
    _, _, other = drawn = lanes()
    dots = [dot.places[0] for dot in drawn[0].scene().of(Dots) if dot.marker == "s"]
    assert len(dots) == 6 and dots[0][1] == other.y + other.height / 2
    apart = [abs(a[1] - b[1]) for a, b in combinations(dots[3:], 2)]
    assert min(apart) > 5
    draw = Random(0)
    places = [draw.uniform(0, 100) for _ in range(50)]
    moved = zip(places, spread(places, 9.0), strict=True)
    assert all(dist(*pair) > 9 - 1e-6 for pair in combinations(moved, 2))
    assert spread([1, 50, 11], 9.0) == [0.0, 0.0, 0.0]
    assert list(map(abs, spread([5, 5, 1], 5.0))) == [3.0, 3.0, 0.0]


def test_a_level_lies_at_its_share_of_the_lane_and_its_words_behind_it():
    picture = Picture("title")
    lane = picture.lane("counts", "", [Cell("", others(), high=0.25)] * 3, height=80.0)
    lane.level(0.25, "the limit", linestyle="--")
    scene = picture.scene()
    (line,) = (line for line in scene.of(Stroke) if line.linestyle == "--")
    area = lane.area(0, 3)
    ends = (area.x, area.y + 60), (area.x + area.width, area.y + 60)
    assert line.points == ends and {box.y for box in scene.of(Box)} == {area.y + 60}
    (said,) = (words for words in scene.of(Words) if words.text == "the limit")
    assert said.y == area.y + 60 and said.x > area.x + area.width


def test_captions_become_smaller_before_some_are_left_out():
    def words(unit):
        picture = Picture()
        cells = [Cell(below=str(n)) for n in range(10, 30)]
        picture.row("step", "", cells, height=0.0, unit=unit)
        found = picture.scene().of(Words)
        return [w for w in found if w.text != "step"]

    assert [len(words(unit)) for unit in (30, 16, 12)] == [20, 20, 10]
    assert words(30)[0].size > words(16)[0].size


def test_the_page_s_examples_run_with_the_standard_library_alone(tmp_path):
    code = "\n".join(examples())
    code += "\nimport sys\nassert not {'numpy', 'torch', 'matplotlib'} & {*sys.modules}"
    script = tmp_path / "page.py"
    script.write_text(code)
    subprocess.run([sys.executable, script], check=True)


@pytest.mark.parametrize("theme", THEMES)
def test_svg_is_well_formed_in_every_theme(theme, monkeypatch):
    monkeypatch.setenv("MINIPAGED_THEME", theme)
    picture = Picture("A <title> & more")
    row = picture.row(
        "a", "b", [Cell("<x>", strong("A")), Cell("", KEPT), Cell("", FOUND)]
    )
    picture.link(row[0], row[2], words="copied")
    picture.cross(row[1])
    chart = Chart(ylabel="y")
    chart.line([(1, 2), (2, 3)], "line")
    picture.add(chart)
    svg = ElementTree.fromstring(to_svg(picture.scene()))
    texts = [
        "".join(node.itertext()) for node in svg.iter() if node.tag.endswith("text")
    ]
    assert "A <title> & more" in texts and "<x>" in texts
    used = set(re.findall(r"url\(#([^)]+)\)", to_svg(picture.scene())))
    defined = {n.get("id") for n in svg.iter() if n.tag.endswith("pattern")}
    assert used == defined and used
    assert to_page([picture.scene()]).count("<svg") == 1


def test_words_of_a_low_cell_stay_in_one_line():
    picture = Picture()
    picture.row("", "", [Cell("1 × 1", wide=0.8)], height=12.0)
    said = [words.text for words in picture.scene().of(Words)]
    assert [words for words in said if words] == ["1 × 1"]


def test_words_of_a_triangle_stand_where_there_is_room():
    """At its right; else at its left; else they are left out."""
    picture = Picture()
    lane = picture.lane("a")
    lane.bar(0, 10, soft("A"))
    for number, words in (0, "first"), (9.9, "last"), (9.95, "none"):
        lane.point(number, words)
    picture.axis("seconds")
    found = {words.text: words.x for words in picture.scene().of(Words)}
    assert found["first"] > lane.place(0) and found["last"] < lane.place(9.9)
    assert "none" not in found


def test_words_above_and_below_cells_stand_clear_of_a_frame_around_them():
    picture = Picture()
    row = picture.row("a", "", [Cell("x", soft("A"), above="up"), Cell(below="low")])
    picture.frame(row[:], BAD)
    scene = picture.scene()
    (frame,) = (box for box in scene.of(Box) if box.rim == BAD)
    rooms = {words.text: edges_of(words) for words in scene.of(Words)}
    assert rooms["up"][3] < frame.y - 1
    assert rooms["low"][1] > frame.y + frame.height + 1
