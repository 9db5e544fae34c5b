"""Tables as lines of text."""

import pytest

from minipaged.lab.measure.table import table


def test_words_begin_together_and_numbers_end_together():
    rows = [("one", 5, "12 %"), ("seventeen", 1234, "3 %")]
    assert table(("", "µs", "  part"), rows) == [
        "             µs    part",
        "one           5    12 %",
        "seventeen  1234     3 %",
    ]
    assert table(("n", "id"), [(10, 7)], left=0) == [" n  id", "10   7"]


def test_each_row_has_a_cell_for_each_head():
    with pytest.raises(ValueError):
        table(("a", "b"), [("1", "2"), ("3",)])
