"""The site's list of scenes."""

import json
import re

import pytest

from book import play, sources
from book.playground.opening import Opening
from helpers import notebook_files as files
from minipaged.lab.pool.board import Board
from minipaged.lab.pool.scenes import SCENES
from tools.make_playground import titles_of


def titles():
    return titles_of(
        {name: (scene.title, scene.lesson) for name, scene in SCENES.items()}
    )


def test_each_scene_stands_below_its_notebook():
    listed, notebook = {}, ""
    page = play.page(f"const TITLES = {json.dumps(titles())};\n")
    for line in page.partition("## Guided")[2].splitlines():
        if found := re.match(r"From \[.*\]\(notebooks/(\w+\.ipynb)\):", line):
            notebook = found[1]
        if found := re.match(r"- \[(.+)\]\(playground\.html#(\w+)\)", line):
            listed[found[2]] = notebook, found[1]
    assert listed.keys() == SCENES.keys()
    lessons = files.NOTEBOOKS[1:]  # the first one borrows a scene
    texts = {path.name: path.read_text("utf-8") for path in lessons}
    for name, (notebook, title) in listed.items():
        assert title == SCENES[name].title
        playing = [one for one in texts if f'scene=\\"{name}\\"' in texts[one]]
        assert not playing or notebook in playing, (name, notebook)


def test_the_pools_page_leads_to_the_same_notebooks():
    found = titles()
    assert found["copy"][1] == found["cow"][1] == "04_cow_beam_search"
    assert found["swap"][1:] == ("B_preemption", "appendix B: Preemption")
    assert found["simulator"][1] == "F_the_papers_evaluation"


def test_without_the_pool_nothing_leads_to_it():
    assert "playground.html" not in play.page("")


def test_only_the_sites_copy_is_told_that_it_is_in_a_site():
    assert sources.in_site('<html lang="en"><p>') == (
        '<html lang="en" data-in-site><p>'
    )
    with pytest.raises(ValueError, match="has no"):
        sources.in_site("<p>no page")


def test_blocks_are_handed_out_in_the_order_that_the_pages_foot_tells():
    foot = (sources.ROOT / "book" / "playground" / "page.html").read_text("utf-8")
    told = " ".join(foot.partition("<footer>")[2].split())
    order = ("freed last, even if it was half full", "never used", "still be found")
    places = [told.index(words) for words in (*order, "the longest unused first")]
    assert places == sorted(places)
    board = Board(num_blocks=8, block_size=4)
    for num_tokens in (9, 5):  # A has blocks 0 to 2, B has 3 and 4
        board.start(num_tokens, uses_cache=True)
    board.free("A")
    board.free("B")
    handed_out = [board.pool.allocate() for _ in range(8)]
    half_full, never_used, found = handed_out[:2], handed_out[2:5], handed_out[5:]
    assert half_full == [4, 2]  # B's was freed last
    assert never_used == [5, 6, 7]
    assert found == [1, 0, 3]  # of A, from its end; then of B


def test_the_first_view_says_why_nobody_can_fork():
    opening = Opening()
    for at in range(3):
        assert "Nobody can fork" not in opening.said.value, at
        opening.move("fork", "A", 1)
    assert "Nobody can fork now: 4 sequences are the most here" in opening.said.value
    opening.move("free", "D")
    assert "Nobody can fork" not in opening.said.value
