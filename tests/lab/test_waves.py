"""Waves of lesson 6's rungs over time: what was measured, and what follows from it."""

import pytest

from helpers.drawn import boxes, lines, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.draw.letters import width_of
from minipaged.draw.marks import Words
from minipaged.draw.sheet import SPAN
from minipaged.lab import (
    launch_of_rung,
    measured_profile,
    measured_tuning,
    plot_waves,
    wave_lines,
    wave_times,
)
from minipaged.lab.measure.launches import Launch
from minipaged.lab.measure.wave_times import WaveTimes
from minipaged.lab.plots.waves import LEFT, STRIP

BLUE, SOFT = palette.sequence_colour(0), palette.soft_colour(0)


@pytest.fixture(scope="module")
def h200():
    return measured_tuning("nvidia-h200")


def in_waves(programs, us, busy, fit=3):
    """A launch on 132 multiprocessors, for `fit` programs on each at a time."""
    launch = Launch(
        rooms={"registers": fit, "shared memory": 45},
        takes={},
        fit=fit,
        waves=programs,
        places=132 * fit,
        under_way=1.0,
        least=1.0,
        spilled=0,
        us=sum(us),
        percent=50.0,
        best=50.0,
    )
    return WaveTimes(launch, us, busy)


TWO = in_waves([396, 116], [1200.0, 600.0], [0.9, 0.4])
ONE = in_waves([512], [450.0], [0.5], fit=6)

DRAWINGS = {
    "waves": lambda: plot_waves({"rung 2": TWO, "rung 3": ONE}, "title"),
    "waves of a launch": lambda: plot_waves({"rung 2, 64x4k": TWO}, "title"),
    "a short wave": lambda: plot_waves(
        {"a": in_waves([396, 2], [1500.0, 400.0], [1.0, 0.0])}, "title"
    ),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_a_last_wave_takes_as_long_as_programs_that_are_alone(h200):
    times = wave_times(h200, measured_profile(), 2)
    alone = launch_of_rung(h200, "8x4k", 2)
    assert alone.waves == [64]  # on 132 multiprocessors
    assert times.launch.waves == [396, 116] and times.us[1] == alone.us
    assert sum(times.us) == pytest.approx(1919, abs=1)
    assert times.busy == pytest.approx([0.95, 0.43], abs=0.01)


def test_what_the_unit_did_is_divided_and_not_lost(h200):
    profile = measured_profile()
    for number in (2, 3):
        row = list(profile["rungs"].values())[number - 1]
        times = wave_times(h200, profile, number)
        busy = sum(us * share for us, share in zip(times.us, times.busy, strict=True))
        assert busy == pytest.approx(row["us"] * row["shared_memory"] / 100)
        assert all(0 < share < 1 for share in times.busy)


def test_other_waves_are_refused(h200):
    with pytest.raises(ValueError, match="rung 1: nobody knows"):
        wave_times(h200, measured_profile(), 1)  # 728 programs in the second one


def test_a_wave_is_as_long_as_it_takes_and_as_high_as_its_programs():
    figure = plot_waves({"rung 2": TWO, "rung 3": ONE}, "title")
    first, second, alone, _ = boxes(figure, BLUE)  # the last is the legend's
    unit = first.width / 1200
    assert second.width == pytest.approx(600 * unit)
    assert alone.width == pytest.approx(450 * unit)
    assert second.x == pytest.approx(first.x + first.width)
    assert alone.x == first.x
    each = first.height / 396
    assert second.height == pytest.approx(116 * each)
    assert alone.height == pytest.approx(512 * each)
    assert second.y + second.height == first.y + first.height


def test_the_strip_is_filled_as_far_as_the_unit_is_busy():
    figure = plot_waves({"rung 2": TWO}, "title")
    waves, strips = boxes(figure, BLUE), boxes(figure, SOFT)
    for wave, strip, share in zip(waves[:2], strips[:2], (0.9, 0.4), strict=True):
        assert strip.height == pytest.approx(share * STRIP)
        assert (strip.x, strip.width) == (wave.x, wave.width)
    ends = {round(strip.y + strip.height, 6) for strip in strips[:2]}
    assert len(ends) == 1  # filled from below
    said = set(texts(figure))
    assert {"wave 1, the rest: 1,200 µs", "wave 2, reckoned: 600 µs"} <= said
    assert {"396 programs", "116 programs", "room for 3 on each"} <= said
    assert "450 µs" in texts(plot_waves({"rung 3": ONE}, "title"))


def said_in_row(figure, words):
    """What is said at the left of a row, at the height of these words."""
    ((x, height),) = places_of(figure, words)
    (said,) = [
        words.text
        for words in figure.scene.of(Words)
        if words.y == height and words.x < LEFT < x
    ]
    return said


def test_what_was_measured_is_told_from_what_is_reckoned():
    """Of two waves only their sum was measured, and the first one's time is the rest.

    Of a single wave all was.
    """
    figure = plot_waves({"rung 2": TWO, "rung 3": ONE}, "title")
    first, second, _, _ = boxes(figure, BLUE)
    ((x, height),) = places_of(figure, "wave 1, the rest: 1,200 µs")
    assert 0 < x - first.x < 10
    ((x, level),) = places_of(figure, "wave 2, reckoned: 600 µs")
    assert 0 < x - second.x < 10 and level == height
    for words in ("both waves: 1,800 µs", "450 µs"):
        assert said_in_row(figure, words) == "measured"
    assert said_in_row(figure, "225 of 450 µs: 50 %") == "measured: busy for"
    alone = texts(plot_waves({"rung 3": ONE}, "title"))
    words = "reckoned", "both waves", "the rest"
    assert not any(word in said for said in alone for word in words)


def test_how_long_waves_keep_the_unit_busy_is_reckoned():
    figure = plot_waves({"rung 2": TWO}, "title")
    said = "1,080 of 1,200 µs: 90 %", "240 of 600 µs: 40 %"
    for words, wave in zip(said, boxes(figure, BLUE)[:2], strict=True):
        assert said_in_row(figure, words) == "reckoned: busy for"
        ((x, _),) = places_of(figure, words)
        assert 0 < x - wave.x < 10


def test_the_rung_that_lesson_6_draws(h200):
    """In wave 1 three programs share a unit, and each keeps it busy for 369 µs."""
    times = wave_times(h200, measured_profile(), 2)
    said = texts(plot_waves({"rung 2, 64x4k": times}, "title"))
    assert {
        "both waves: 1,919 µs",
        "wave 1, the rest: 1,162 µs",
        "wave 2, reckoned: 757 µs",
        "1,107 of 1,162 µs: 95 %",
        "324 of 757 µs: 43 %",
    } <= set(said)
    assert times.us[0] * times.busy[0] == pytest.approx(3 * 369, abs=1)


def test_words_of_a_short_wave_end_at_the_edge():
    figure = DRAWINGS["a short wave"]()
    *_, wave, _ = boxes(figure, BLUE)
    words = "wave 2, reckoned: 400 µs"
    ((x, _),) = places_of(figure, words)
    assert x < wave.x and x + width_of(words) == pytest.approx(SPAN)


def test_the_measured_time_stands_at_a_line_over_both_waves():
    figure = plot_waves({"rung 3": ONE, "rung 2": TWO}, "title")
    _, first, second, _ = boxes(figure, BLUE)
    ((middle, y),) = places_of(figure, "both waves: 1,800 µs")
    ((_, below),) = places_of(figure, "wave 1, the rest: 1,200 µs")
    assert y < below < first.y
    level = [
        line.points for line in lines(figure) if {at for _, at in line.points} == {y}
    ]
    ends = sorted(x for points in level for x, _ in points)
    left, right = first.x, second.x + second.width
    assert (ends[0], ends[-1]) == pytest.approx((left, right))
    assert middle == pytest.approx((left + right) / 2) and len(level) == 2
    assert ends[1] < middle < ends[2]


def test_the_clock_is_below_the_waves():
    figure = plot_waves({"rung 2": TWO}, "title")
    first, *_ = boxes(figure, BLUE)
    unit = first.width / 1200
    for words, us in (("400 µs", 400), ("1,200 µs", 1200)):
        ((x, y),) = places_of(figure, words)
        assert x == pytest.approx(first.x + us * unit)
        assert y > first.y + first.height


def test_the_waves_of_a_launch_are_reckoned_in_words():
    said = "\n".join(wave_lines(TWO))
    assert "116 programs" in said and "take 600 µs" in said
    assert "1,800 - 600 = 1,200 µs" in said
    assert "busy for 1,320 µs" in said
    assert "1,080 in wave 1, 240 in wave 2; so for 90% and 40%" in said
