"""Every mechanism has its picture: the list in notebooks/README.md is true."""

import re

import pytest

from helpers import notebook_files as files

README = (files.ROOT / "notebooks" / "README.md").read_text("utf-8")
ROW = re.compile(r"^\| ([^|]+) \| `(plot_\w+)` \| ([\dA-Z, ]+) \|$", re.MULTILINE)
LISTED = {
    (name, lesson)
    for _, name, lessons in ROW.findall(README.split("<!-- pictures -->")[1])
    for lesson in lessons.split(", ")
}


def pictures(notebook: dict) -> dict[str, list[dict]]:
    """The stored images of every cell that draws, by the function that it calls."""
    found: dict[str, list[dict]] = {}
    for cell in files.code_cells(notebook):
        images = [
            output
            for output in cell["outputs"]
            if "image/png" in output.get("data", {})
        ]
        for name in files.called(files.parse(cell)):
            if name.startswith("plot_"):
                found.setdefault(name, []).extend(images)
    return found


DRAWN = {
    path.name.partition("_")[0].removeprefix("0"): pictures(files.load(path))
    for path in files.NOTEBOOKS
}


def test_what_is_drawn_is_what_is_listed():
    assert {(name, lesson) for lesson, own in DRAWN.items() for name in own} == LISTED


@pytest.mark.parametrize(("name", "lesson"), sorted(LISTED))
def test_the_picture_is_stored_sharp_and_named(name, lesson):
    images = DRAWN[lesson][name]
    assert images, "not stored"
    for image in images:
        facts = image["metadata"]["image/png"]
        assert facts["width"] <= 760 and facts["alt"].strip()
