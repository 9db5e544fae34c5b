"""Scenes on a page: what can be pointed at, what is linked, light and dark."""

import re
from xml.etree import ElementTree

import pytest

from minipaged.draw.html import to_page, to_svg
from minipaged.draw.marks import Box, Group, Item, Scene, Stroke, Words
from minipaged.draw.palette import PAGE, ink_on, theme, themed
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import SPAN
from minipaged.draw.style import style_sheet
from minipaged.draw.tones import free, shared, soft, strong


def linked_picture():
    """A table of two entries that leads to two blocks of two slots."""
    picture, below = Picture(), Picture()
    table = picture.row(
        "A",
        "its table",
        [Cell("1", strong("A"), above="entry 0"), Cell("0", soft("A"))],
        items=[Item(("b1", "A"), "entry 0", is_stop=True), Item(("b0",), "entry 1")],
        handle=Item(("A",), "A's", "img", True),
        tone=strong("A"),
        part=Item(title="table", role="list"),
    )
    blocks = below.blocks(
        blocks=[[Cell("2", strong("A")), Cell()], [Cell("0", soft("A")), Cell()]],
        items=[Item(("b0",), "block 0"), Item(("b1", "A"), "block <1>")],
        part=Item(title="blocks", role="list"),
    )
    below.over(blocks.block(1), "1", "none")
    picture.beside(below)
    picture.link(table[0], blocks.block(1), item=Item(("b1", "A"), is_hint=True))
    return picture


def groups_in(svg):
    return [g for g in ElementTree.fromstring(svg).iter() if g.tag.endswith("}g")]


def test_items_are_drawn_together_with_their_words_and_in_their_lists():
    scene = linked_picture().scene()
    found = {g.item.title: g for g in scene.of(Group)}
    assert [*found][:4] == ["A's", "table", "entry 0", "entry 1"]
    inside = {title: Scene("", 0.0, marks=g.marks) for title, g in found.items()}
    words = {title: [w.text for w in each.of(Words)] for title, each in inside.items()}
    assert words["A's"] == ["A", "its table"] and words["entry 0"] == ["1", "entry 0"]
    assert words["block <1>"] == ["0", "1"]  # also what stands above it
    assert words["blocks"] == ["2", *words["block <1>"]]
    svg = to_svg(scene)
    roles = [g.get("role") for g in groups_in(svg)]
    assert roles.count("list") == 2 and roles.count("listitem") == 4
    assert 'role="group"' in svg and "<title>block &lt;1&gt;</title>" in svg
    stops = [g for g in groups_in(svg) if g.get("tabindex") == "0"]
    assert len(stops) == 2


def test_a_label_stands_on_its_tone():
    (label,) = (g for g in linked_picture().scene().of(Group) if g.item.title == "A's")
    plate, letter, _ = label.marks
    assert plate.face == strong("A").face and letter.color == ink_on(plate.face)
    assert plate.holds(letter.x, letter.y)


def test_a_picture_without_items_is_an_image():
    picture = Picture("title")
    picture.row("a", "", [Cell("x", strong("A"))])
    svg = to_svg(picture.scene())
    assert not groups_in(svg) and 'role="img"' in svg


def test_a_link_that_is_an_item_takes_no_room_and_runs_down_over_what_is_drawn():
    picture = linked_picture()
    scene = picture.scene()
    heights = []
    for item in (None, Item(("A",), is_hint=True)):
        both = Picture()
        row = both.row("A", "", [Cell("1")])
        both.link(row[0], both.row("B", "", [Cell("2")])[0], item=item)
        heights.append(both.scene().height)
    assert heights[0] > heights[1]
    (arrow,) = (stroke for stroke in scene.of(Stroke) if stroke.head)
    (x0, y0), *_, (x1, y1) = arrow.points
    assert y1 > y0 and abs(x1 - x0) > 10
    assert isinstance(scene.marks[-1], Group) and scene.marks[-1].item.is_hint
    (svg,) = (g for g in groups_in(to_svg(scene)) if "mp-hint" in g.get("class", ""))
    assert svg.get("class").split() == ["mp-hint", "mp-k-b1", "mp-k-A"]


@pytest.mark.parametrize("num_between", [0, 2])
def test_a_line_to_a_lower_row_of_blocks_passes_beside_those_above_it(num_between):
    picture, below = Picture(), Picture()
    table = picture.row("A", "", [Cell("7", strong("A"))])
    for _ in range(num_between):
        picture.row("B", "", [Cell("1"), Cell("2")])
    style = {"gap": 8.0, "unit": 80.0}
    rows = [
        below.blocks(blocks=[[Cell(f"{row}{at}", free())] for at in range(4)], **style)
        for row in range(3)
    ]
    picture.beside(below)
    target = rows[2].block(1)
    picture.link(table[0], target, item=Item(("b7",)))
    scene = picture.scene()
    (arrow,) = (stroke for stroke in scene.of(Stroke) if stroke.head)
    *_, (x, high), (also_x, low), _, (_, end) = arrow.points
    assert x == also_x == rows[2].area(1, 2).x - 4
    assert high <= rows[0].y and rows[1].y + rows[1].height < low < end <= rows[2].y
    assert not any(box.holds(x, y) for box in scene.of(Box) for y in range(200))


def test_scenes_for_a_page_have_its_colours_and_follow_it():
    with themed(PAGE):
        picture = linked_picture()
        picture.row("free", "", [Cell("", free()), Cell("", shared(soft("B"), "B"))])
        scene = picture.scene()
    assert theme() != PAGE
    svg, sheet = to_svg(scene), style_sheet(["b1"])
    used = set(re.findall(r"var\(--(\w+)\)", svg))
    defined = set(re.findall(r"--(\w+):light-dark\(#", sheet))
    assert {"ink", "quiet", "rim", "free"} <= used <= defined
    page = to_page([scene])
    assert '<html class="mp mp-linked">' in page  # so its ground follows, too
    assert f"<style>{sheet}"[:200] in page and "mp-own-b0" in page
    for key in ("b1", "b0", "A"):
        at = f":has(.mp-own-{key}:is(:hover,:focus-visible))"
        assert f"{at} .mp-k-{key}{{opacity:1}}" in page


def test_hatches_of_scenes_on_one_page_have_names_of_their_own():
    picture = Picture()
    picture.row("a", "", [Cell("", shared(strong("A"), "A"))])
    for name in ("one", "other"):
        svg = to_svg(picture.scene(), name=f"{name}-")
        assert re.findall(r"url\(#(\w+)-", svg)[:1] == [name]
        assert f'<pattern id="{name}-' in svg


def test_a_scene_is_as_wide_as_it_is_asked_to_be():
    picture = Picture()
    row = picture.row("a", "", [Cell("x", strong("A"))] * 40)
    assert picture.scene(400.0).width == 400 and row.area(0, 40).width < 400
    assert picture.scene().width == SPAN
