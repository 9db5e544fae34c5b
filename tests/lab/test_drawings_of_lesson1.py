"""Lesson 1's pictures of a memory that nobody guards: true, and readable."""

import pytest
from matplotlib.text import Text

from helpers.drawn import boxes, texts
from helpers.readable import readable_in_all_themes
from minipaged.lab import plot_histogram, plot_overrun
from minipaged.lab.plots.palette import BAD
from minipaged.lab.plots.tones import strong


def overrun(prompt=21, story=65, other=13, size=36, word=None):
    """A grows from a piece of `size` slots; C's piece comes next, its prompt in it."""
    before = list("A" * prompt + "." * (size - prompt) + "C" * other)
    before += "." * (2 * size - len(before))
    after = ["A"] * story + before[story:]
    starts = {"A": 0, "C": size}
    words = {name: [word or f"{name}{n}" for n in range(2 * size)] for name in starts}
    return plot_overrun(before, after, starts, "title", words)


DRAWINGS = {
    "overrun": overrun,
    "long words": lambda: overrun(word="abcdefghijkl"),
    "by one slot": lambda: overrun(story=37),
    "by many": lambda: overrun(4, 60, 30),
    "in a long memory": lambda: overrun(100, 300, 150, 200),
    "not at all": lambda: overrun(story=36),
}


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_every_overwritten_slot_says_what_was_there_and_what_is():
    figure = overrun()
    assert len(boxes(figure, BAD)) == 13 + 1  # the slots, and the legend
    shown = texts(figure)
    for n in range(13):
        assert {f"C{n}", f"A{36 + n}", str(36 + n)} <= set(shown)
    assert "C13" not in shown and "A35" not in shown and "A49" not in shown
    # New are those that were free, the words below, and the legend.
    new = strong("A").face
    assert len(boxes(figure, new)) == (65 - 21 - 13) + 13 + 1


def test_more_slots_than_can_be_written_out_are_counted():
    assert "and 8 more" in texts(overrun(4, 60, 30))


def test_a_story_that_fits_harms_nobody():
    figure = overrun(story=36)
    assert not boxes(figure, BAD) and "overwritten" not in texts(figure)


def test_a_memory_keeps_its_size():
    with pytest.raises(ValueError, match="2 slots before, but 3 after"):
        plot_overrun("A.", "AAA", {"A": 0}, "title", {"A": "abc"})


def test_the_mean_stands_above_all_bars():
    """No bar can touch its label, wherever it is."""
    figure = plot_histogram([170] * 9 + [180] * 9 + [600], "title", "x")
    figure.draw_without_rendering()
    (label,) = figure.axes[0].texts
    room = Text.get_window_extent(label)
    bars = [bar.get_window_extent() for bar in figure.axes[0].patches]
    assert room.y0 > max(bar.y1 for bar in bars)
    (title,) = figure.texts
    assert room.y1 < title.get_window_extent().y0
