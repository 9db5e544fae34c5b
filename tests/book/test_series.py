"""The map as a picture: boxes, arrows, and links that lead to notebooks."""

import re

import pytest

from book import series
from helpers import notebook_files as files
from minipaged.draw.letters import width_of


@pytest.mark.parametrize(
    ("paragraph", "wanted"),
    [
        ("**You need** PyTorch. No GPU.", []),
        ("**You need** [lesson 2](a.ipynb), not [lesson 3](b.ipynb). No GPU.", ["a"]),
        ("**You need** [4](a.ipynb); [A](b.ipynb) helps. [5](c.ipynb) later.", ["a"]),
        ("**You need** [4](a.ipynb), [3](b.ipynb) for one section, and x.", ["a"]),
        ("**You need** [1](a.ipynb), [3](b.ipynb) and [A](c.ipynb). No.", list("abc")),
    ],
)
def test_what_a_notebook_needs(paragraph, wanted):
    assert series.needs(paragraph) == [f"{name}.ipynb" for name in wanted]


def test_what_comes_with_the_rest_has_no_arrow():
    direct = {"1": [], "2": ["1"], "3": ["2"], "F": ["1", "3", "2"]}
    assert series.without_detours("F", direct) == ["3"]


def test_each_notebook_is_below_all_that_it_needs():
    needed = series.arrows()
    assert set(needed) == {path.name for path in files.NOTEBOOKS}
    assert needed["02_block_pool.ipynb"] == ["01_contiguous_waste.ipynb"]
    rows = series.rows(needed)
    level = {name: number for number, row in enumerate(rows) for name in row}
    assert set(level) == set(needed)
    for name, above in needed.items():
        assert all(level[one] < level[name] for one in above)


def test_the_picture_links_to_each_notebook_and_its_boxes_lie_apart():
    svg = series.map_svg("notebooks/")
    links = re.findall(r'<a class="[\w-]+" href="notebooks/(\w+)\.html"', svg)
    assert sorted(links) == sorted(path.stem for path in files.NOTEBOOKS)
    boxes = re.findall(r'<rect class="series-box" x="([\d.]+)" y="([\d.]+)"', svg)
    corners = [tuple(map(float, box)) for box in boxes]
    assert len(corners) == len(links)
    for at, (x, y) in enumerate(corners):
        for other_x, other_y in corners[at + 1 :]:
            apart = abs(x - other_x) >= series.WIDE, abs(y - other_y) >= series.HIGH
            assert any(apart)


def test_titles_fit_into_their_boxes():
    room = series.WIDE - series.STRIP - 12
    for lesson in series.lessons():
        lines = series.in_lines(lesson.title, room)
        assert " ".join(lines) == lesson.title
        assert len(lines) <= 4  # and the minutes below
        assert all(width_of(line, series.SIZE) <= room for line in lines)


def test_routes_become_links():
    text = """
<!-- routes -->
| route | in this order | to read |
|---|---|---|
| **An evening**: what blocks are | 1, 2, A | 3 h |
<!-- end of routes -->
"""
    assert series.routes(text).splitlines()[2] == (
        "| **An evening**: what blocks are | [1](notebooks/01_contiguous_waste.ipynb)"
        "&nbsp;→ [2](notebooks/02_block_pool.ipynb)"
        "&nbsp;→ [A](notebooks/A_continuous_batching.ipynb) | 3 h |"
    )
    assert series.routes("a map without routes") == ""
