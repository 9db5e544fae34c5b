"""The paper side by side: no part is missing, and each number is where its row says."""

import re
from collections import Counter

import pytest

from helpers import notebook_files as files
from helpers import side_by_side as beside

PAGE = (files.ROOT / "notebooks" / "PAPER.md").read_text("utf-8")
ROWS = beside.rows(PAGE)
VERDICTS = ("agrees", "near", "differs", "not rebuilt")
SECTIONS = "1 2.1 2.2 2.3 3 3.1 4.1 4.2 4.3 4.4 4.5 4.6 5 5.1 5.2 6.1 8 9 10".split()

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.part)


def row_of(part):
    (row,) = (row for row in ROWS if row.part == part)
    return row


def part_of(page, title):
    """The rows below a heading."""
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.M | re.DOTALL)
    return beside.rows(text)


def verdict(row):
    return next((word for word in VERDICTS if word in row.found[:14]), None)


@pytest.mark.parametrize(
    ("title", "wanted"),
    [
        ("Sections", [*SECTIONS, "6.2 to 7.3"]),
        ("Equations", [f"({number})" for number in range(1, 5)]),
        ("Figures", [*map(str, range(1, 20))]),
        ("Tables", ["1"]),
    ],
)
def test_no_part_of_the_paper_is_left_out(title, wanted):
    names = ", ".join(row.part.replace(";", ",") for row in part_of(PAGE, title))
    found = {re.sub(r"(\d)[ab]$", r"\1", name) for name in names.split(", ")}
    assert {*wanted} <= found


@each_row
def test_a_rows_numbers_stand_where_it_leads(row):
    assert beside.strange_numbers(row) == []


@each_row
def test_a_row_leads_somewhere_and_says_what_comes_out(row):
    if row.part != "6.2 to 7.3":  # these are the figures' sections
        assert beside.texts(row.here).all
    assert row.found


def test_the_parts_are_counted():
    titles = "Sections", "Equations", "Figures", "Tables"
    compared = [row for title in titles for row in part_of(PAGE, title)]
    compared.remove(row_of("6.2 to 7.3"))
    counts = Counter(map(verdict, compared))
    assert None not in counts
    agree, near, differ, missing = map(counts.get, VERDICTS)
    said = (
        f"{agree} agree, {near} are near, {differ} differ, and {missing} is not rebuilt"
    )
    assert f"\nOf {len(compared)} parts, {said}.\n" in PAGE


@pytest.mark.parametrize(
    ("part", "field", "old", "new"),
    [
        ("2", "found", "97.2", "97.3"),  # of a table that a cell has printed
        ("2", "says", "96.3", "96.4"),
        ("8", "found", "7, 3", "7, 33"),  # of an assertion
        ("Figure 3", "found", "2037", "2036"),  # of a test
        ("18b", "found", "10.88", "10.89"),  # of an answer that is folded
        ("(4)", "found", "100.00000", "100.00001"),
        ("16", "found", "1.10", "1.11"),
        ("1, left", "found", "23.94", "24.94"),
    ],
)
def test_a_wrong_number_is_found(part, field, old, new):
    row = next(r for r in ROWS if r.part == part and old in getattr(r, field))
    wrong = row._replace(**{field: getattr(row, field).replace(old, new)})
    assert beside.strange_numbers(row) == []
    assert beside.strange_numbers(wrong)


def test_what_only_a_text_says_has_not_come_out():
    """A paper's number may stand in prose; ours must have been shown or asserted."""
    here = "[1](01_contiguous_waste.ipynb#Two-more-prices)"
    row = beside.Row("x", "2,048 tokens", here, "35 %")
    assert beside.strange_numbers(row) == []
    assert beside.strange_numbers(row._replace(found="2,047 tokens")) == ["2047"]
    prose = beside.Row("x", "15,728", "[1](01_contiguous_waste.ipynb#Seven-chats)", "7")
    assert beside.strange_numbers(prose._replace(says="", found="40 GB")) == ["40"]


def test_a_section_ends_where_the_next_begins():
    path = files.ROOT / "notebooks" / "01_contiguous_waste.ipynb"
    seven = beside.section(path, "Seven-chats")
    assert "15,728 slots" in seven.shown and "45 tokens" not in seven.all
