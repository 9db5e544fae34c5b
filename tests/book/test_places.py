"""Where links of the site lead: to cells, to files of the repository."""

from pathlib import PurePosixPath

import pytest

from book import places

NOTEBOOKS = PurePosixPath("notebooks")


def test_a_cells_anchor_stands_behind_its_heading():
    lines = places.marked("## Heading\n\nWords.", "some-cell").splitlines()
    assert lines[0] == "## Heading" and lines[-1] == "Words."
    assert lines[2] == '<div class="cell-mark" id="cell-id=some-cell"></div>'
    assert places.MARK.match(lines[2]).groups() == ("cell-id=some-cell", None)


def test_or_before_its_text():
    first, _, rest = places.marked("Words.", "x", is_folded=True).partition("\n")
    assert places.MARK.match(first)[2] and rest == "\nWords."


@pytest.mark.parametrize(
    ("link", "wanted"),
    [
        ("../minipaged/engine/engine.py", "/blob/main/minipaged/engine/engine.py"),
        ("../minipaged", "/tree/main/minipaged"),
        ("tiny_vllm.py", "/blob/main/notebooks/tiny_vllm.py"),
        ("/LICENSE", "/blob/main/LICENSE"),
        ("../absent.py", None),
        ("../../outside", None),
        ("#an-anchor", None),
    ],
)
def test_files_of_the_repository_are_read_there(link, wanted):
    found = places.target_of(link, NOTEBOOKS)
    home = places.address("")
    assert found == (home + wanted if wanted else None)


def test_the_playground_lies_at_the_sites_root():
    assert (
        places.target_of("playground.html#cow", NOTEBOOKS) == "../playground.html#cow"
    )
    assert places.target_of("playground.html", PurePosixPath(".")) == "playground.html"
