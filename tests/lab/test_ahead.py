"""What is on its way to a multiprocessor: from the stored rungs, and as bars."""

import pytest

from helpers.drawn import boxes, texts
from helpers.readable import readable_in_all_themes
from minipaged.lab import Rungs, UnderWay, measured_tuning, plot_ahead
from minipaged.lab.plots import palette
from minipaged.lab.plots.signs import SPAN

BATCHES = {
    "few": {"before": UnderWay(1.5, 1, 32.0), "after": UnderWay(3.0, 2, 16.0)},
    "many": {"before": UnderWay(4.0, 1, 32.0), "after": UnderWay(4.0, 1, 48.0)},
}
BLUE = palette.sequence_colour(0)


def under_way(batches=BATCHES, enough=128):
    return plot_ahead(batches, enough, "title")


test_it_can_be_read = readable_in_all_themes(
    {
        "under way": under_way,
        "all more than enough": lambda: under_way(enough=16),
        "one": lambda: under_way({"64x4k": {"rung 1": UnderWay(3.88, 2, 16.0)}}),
    }
)


@pytest.mark.parametrize(
    ("batch", "number", "expected"),
    [
        ("1x8k", 6, UnderWay(32 * 8 / 132, 1, 32.0)),  # 32 of 33 splits have work
        ("1x8k", 7, UnderWay(64 * 8 / 132, 2, 16.0)),
        ("32x2k", 7, UnderWay(32 * 8 / 132, 1, 64.0)),
        ("64x4k", 2, UnderWay(3.0, 1, 8.0)),  # 512 programs, of which three fit on each
        ("64x4k", 6, UnderWay(64 * 8 / 132, 1, 32.0)),
    ],
)
def test_of_a_rung_it_follows_from_what_was_measured(batch, number, expected):
    found = Rungs(measured_tuning("nvidia-h200")).under_way(number, batch)
    assert found == pytest.approx(expected)
    made = expected.programs * expected.tiles * expected.kib
    assert found.total == pytest.approx(made)


def test_bars_are_as_long_as_what_is_under_way():
    """The last of a batch is filled; the line of what is enough has the same scale."""
    figure = under_way()
    few, many = boxes(figure, BLUE)
    assert few.get_width() / many.get_width() == pytest.approx(96 / 192)
    (line,) = (line for line in figure.axes[0].lines if line.get_linestyle() == "--")
    edge = line.get_xdata()[0] - few.get_x()
    assert edge / many.get_width() == pytest.approx(128 / 192)
    assert many.get_x() + many.get_width() < SPAN
    said = {*texts(figure)}
    assert {"1.50 programs × 32 = 48", "3.00 programs × 2 × 16 = 96"} <= said
    assert "128 KiB keep the memory busy" in said
