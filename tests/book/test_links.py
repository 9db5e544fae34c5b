"""The checker of the built site: it finds what it is made for."""

import pytest

from book.links import faults

GOOD = """\
<html><head><link rel="stylesheet" href="style.css"></head><body>
<h1 id="top">One</h1><a href="#top">top</a> <a href="two/page.html#cell-id=x">cell</a>
<a href="https://arxiv.org/abs/2309.06180">paper</a> <img src="data:image/png;base64,">
<a href="playground.html#cow">play</a></body></html>
"""
OTHER = (
    '<html><body><p id="cell-id=x">Two</p><a href="../index.html">1</a></body></html>'
)


@pytest.fixture
def site(tmp_path):
    (tmp_path / "two").mkdir()
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "style.css").write_text("p { color: red }")
    (tmp_path / "two" / "page.html").write_text(OTHER)
    return tmp_path


def test_a_good_site_has_no_faults(site):
    assert faults(site) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('<a href="three.html">', "three.html"),
        ('<a href="two/page.html#cell-id=y">', "two/page.html#cell-id=y"),
        ('<a href="#absent">', "#absent"),
        ('<a href="http://example.org">', "http://example.org"),
        ('<a href="../outside.html">', "../outside.html"),
        ('<script src="https://cdn.example.org/x.js">', "x.js (fetched)"),
        ('<link rel="preload stylesheet" href="//fonts.example.org/">', "(fetched)"),
        ('<img src="absent.png">', "absent.png (fetched)"),
    ],
)
def test_a_fault_is_found(site, line, fault):
    path = site / "index.html"
    path.write_text(path.read_text().replace("<body>", f"<body>{line}"))
    (found,) = faults(site)
    assert found.startswith("index.html: ") and fault in found


def test_a_style_sheet_that_fetches_a_font_is_found(site):
    (site / "style.css").write_text("@font-face{src:url(https://fonts.example.org/a)}")
    assert faults(site) == ["style.css: https://fonts.example.org/a"]


def test_a_file_of_the_repository_must_be_there(site):
    from book.places import address

    path = site / "index.html"
    there = address("LICENSE")
    assert there.endswith("/blob/main/LICENSE")
    both = f'<body><a href="{there}">yes</a><a href="{there}-absent">no</a>'
    path.write_text(path.read_text().replace("<body>", both))
    assert faults(site) == [f"index.html: {there}-absent"]
