"""Lesson 1's pictures of a memory that nobody guards: true, and readable."""

import pytest

from helpers.drawn import crosses, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Words
from minipaged.draw.palette import BAD
from minipaged.draw.tones import Tone, free, others, strong
from minipaged.lab import (
    plot_copies,
    plot_kv_growth,
    plot_overrun,
    plot_padding,
)
from minipaged.lab.plots.moved import MOVED


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
    "copies": lambda: plot_copies(range(21, 65), "title"),
    "one copy": lambda: plot_copies([7], "title"),
    "many copies": lambda: plot_copies(range(500, 620), "title", name="B"),
    "padding": lambda: plot_padding({"A": 21, "B": 7, "C": 13}, "title"),
    "no padding": lambda: plot_padding({"A": 4, "B": 4}, "title"),
    "padding of many": lambda: plot_padding(
        dict(zip("ABCDEFGH", range(1, 90, 11), strict=False)), "title"
    ),
}


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_every_overwritten_slot_says_what_was_there_and_what_is():
    before, after, slot, was, now = overrun().scene.rows
    assert slot.below == [str(n) for n in range(36, 49)]
    assert was.words == [f"C{n}" for n in range(13)]
    assert now.words == [f"A{n}" for n in range(36, 49)]
    tones = before.tones.count(free()), after.tones.count(free())
    assert tones == (15 + 23, 7) and before.tones[:21] == after.tones[:21]
    lost = [at for at, tone in enumerate(after.tones) if tone == Tone(BAD)]
    assert lost == list(range(36, 49)) and crosses(overrun(), 1.4) == 13
    assert after.tones.count(strong("A")) == 65 - 21 - 13


def test_more_slots_than_can_be_written_out_are_counted():
    assert "and 8 more" in texts(overrun(4, 60, 30))


def test_a_story_that_fits_harms_nobody():
    figure = overrun(story=36)
    assert not crosses(figure, 1.4) and "overwritten" not in texts(figure)


def test_a_memory_keeps_its_size():
    with pytest.raises(ValueError, match="2 slots before, but 3 after"):
        plot_overrun("A.", "AAA", {"A": 0}, "title", {"A": "abc"})


def test_the_copies_are_counted_to_the_last_one():
    for copies in (range(21, 65), range(5, 9), [7]):
        rows = plot_copies(copies, "title").scene.rows
        assert [row.tones for row in rows] == [[MOVED, strong("A")]] * len(copies)
        assert [row.widths for row in rows] == [[moved, 1] for moved in copies]
        assert rows[-1].values == [str(copies[-1]), f"{sum(copies):,}"]
        assert rows[-1].label == f"decode {len(copies)}"


def test_the_prompts_words_stand_over_both_halves():
    words = [f"w{n}" for n in range(9)]
    figure = plot_kv_growth(words, [5, 6, 7], "title", 5, without=[5, 6, 7])
    above = [row.above for row in figure.scene.rows]
    assert [row for row in above if any(row)] == [words[:7], words[:5]]


def test_padding_is_counted_in_tokens_and_in_pairs():
    """Of 3 x 4 cells, 7 hold tokens; of 3 x 10 pairs, 10 + 1 + 3 are of tokens."""
    counts = {"A": 4, "B": 1, "C": 2}
    scene = plot_padding(counts, "title").scene
    said = [words.text for words in scene.of(Words)]
    assert {"5 of 12 tokens are padding", "16 of 30 pairs are padding"} <= set(said)
    rows, triangles = scene.rows[:3], scene.rows[3:]
    assert [row.tones for row in rows] == [
        [strong(name)] * count + [others()] * (4 - count)
        for name, count in counts.items()
    ]
    assert [row.tones[0] for row in triangles] == [t for row in rows for t in row.tones]
    assert [row.widths for row in triangles] == [[1], [2], [3], [4]] * 3


def test_prompts_of_one_length_have_no_padding():
    words = plot_padding({"A": 4, "B": 4}, "title").scene.of(Words)
    (title,) = (one for one in words if one.text == "0 of 8 tokens are padding")
    assert title.color != BAD
