"""The museum of bugs quotes the notebooks, and leaves none of their harms out."""

import re
from pathlib import Path

import pytest

from helpers import notebook_files as files
from helpers.sample_notebook import code
from tools import museum

PAGE = museum.PAGE.read_text("utf-8")
CARD = r"^### (.+)\n\n(?:(.+)\n\n)?<!-- harm (.+) -->\n((?:.*\n)*?)<!-- end -->$"
CARDS = re.findall(CARD, PAGE, re.MULTILINE)
OPEN = PAGE.index("## Cases that are still open")
BREAKS = {"expect_harm", "expect_error", "refute", "incident", "incident_of"}

each_card = pytest.mark.parametrize("card", CARDS, ids=lambda card: card[0])


def named(mark: str) -> list[tuple[str, str]]:
    """(notebook, cell) of each harm that a mark names."""
    return [museum.NAMED.fullmatch(name).groups()[:2] for name in mark.split("; ")]


def cell_named(name: tuple[str, str]) -> dict:
    notebook = files.load(files.ROOT / "notebooks" / f"{name[0]}.ipynb")
    (cell,) = (cell for cell in notebook["cells"] if cell["id"] == name[1])
    return cell


def cells_that_break(notebook: dict) -> set[str]:
    """The cells that do harm on purpose, or wait for it to be refused."""
    return {
        cell["id"]
        for cell in files.code_cells(notebook)
        if BREAKS & {*files.called(files.parse(cell))}
    }


def test_the_cards_quote_what_is_stored():
    assert museum.renewed(PAGE) == PAGE, "run python tools/museum.py"


def test_every_harm_has_a_card():
    shown = {name for *_, mark, _ in CARDS for name in named(mark)}
    harms = {
        (path.stem, cell_id)
        for path in files.NOTEBOOKS
        for cell_id in cells_that_break(files.load(path))
    }
    assert harms and harms - shown == set()


def test_a_harm_without_a_card_would_be_found():
    cells = [
        code("x = 1") | {"id": "none"},
        code("with x:\n    refute(1)") | {"id": "a"},
    ]
    assert cells_that_break({"cells": cells}) == {"a"}


def test_the_index_leads_to_every_card():
    """From each notebook that the card names."""
    index = museum.INDEX.search(PAGE)[0]
    for title, _, mark, _ in CARDS:
        for notebook, _ in named(mark):
            (line,) = re.findall(rf"^.*\({notebook}\.ipynb\).*$", index, re.MULTILINE)
            assert f"[{title}](#" in line


def test_each_mark_is_a_card():
    assert len(CARDS) == PAGE.count("<!-- harm ") == PAGE.count("\n### ")


@each_card
def test_a_card_says_what_the_cells_have_printed(card):
    """Looked up once more, by other means than the tool's."""
    title, cause, mark, quoted = card
    cells = [cell_named(name) for name in named(mark)]
    printed = "\n".join(files.output_text(cell) for cell in cells)
    values = [
        one.replace(r"\|", "|") for one in re.findall(r"\| `(.*?)`(?= \|)", quoted)
    ]
    values += re.findall(r"```text\n(.*?)\n```", quoted, re.DOTALL)
    assert values
    for value in values:
        assert value.removeprefix("…") in printed
    sources = "\n".join(map(files.source, cells))
    for number in re.findall(r"\d{2,}", title + cause):
        assert number in printed + sources


@each_card
def test_a_card_says_the_cause_unless_the_reader_is_to_find_it(card):
    title, cause, *_ = card
    is_open = PAGE.index(f"### {title}\n") > OPEN
    assert bool(cause) != is_open


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("`My PIN is 4711`", "`My PIN is 4712`"),
        ("5 of 6 prompts equal", "6 of 6 prompts equal"),
        ("02_block_pool.ipynb#See-it-break-without-a-count", "02_block_pool.ipynb"),
        ("wanted 72 slots", "wanted 73 slots"),
    ],
)
def test_a_card_that_was_changed_is_noticed(old, new):
    assert old in PAGE and museum.renewed(PAGE.replace(old, new)) == PAGE


@pytest.mark.parametrize(
    "mark",
    [
        "02_block_pool/no-such-cell",
        "02_block_pool/cell-24",  # prints nothing
        "02_block_pool/cell-19: another harm",
        "Z_capstone/refute-run: another flaw",
    ],
)
def test_a_mark_that_names_no_harm_ends_the_tool(mark):
    with pytest.raises(SystemExit, match=mark.split(":")[0].split("/")[1]):
        museum.card(mark)


def test_of_long_texts_the_equal_beginning_is_left_out():
    begin = "a text that is the same for both, and longer than anybody wants to read "
    right, wrong = museum.differing(
        begin + "to the end: a dog", begin + "to the end: no"
    )
    assert right.startswith("…") and right.endswith(" a dog") and wrong.endswith(" no")
    assert len(right) < 45 and museum.differing("a dog", "a cat") == ("a dog", "a cat")


def test_the_page_is_written_only_without_check(tmp_path, monkeypatch):
    page = tmp_path / "MUSEUM.md"
    page.write_text(PAGE.replace("4711", "4712"), "utf-8")
    monkeypatch.setattr(museum, "PAGE", page)
    with pytest.raises(SystemExit, match="run python tools/museum"):
        museum.main(check=True)
    assert "4712" in page.read_text("utf-8")
    museum.main(check=False)
    assert page.read_text("utf-8") == PAGE
    museum.main(check=True)
    assert Path(museum.NOTEBOOKS) == files.ROOT / "notebooks"
