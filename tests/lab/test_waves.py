"""Waves of lesson 6's rungs over time: what was measured, and what follows from it."""

import pytest

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.draw.marks import Box
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
from minipaged.lab.plots.waves import EACH, STRIP

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
    running, unit, alone, _ = figure.scene.rows
    assert running.widths == unit.widths == [1200, 600] and alone.widths == [450]
    heights = [box.height for box in figure.scene.of(Box) if box.face == BLUE]
    each = 3 * EACH / 396
    assert heights[:3] == pytest.approx([396 * each, 116 * each, 512 * each])


def test_the_strip_is_filled_as_far_as_the_unit_is_busy():
    figure = plot_waves({"rung 2": TWO}, "title")
    heights = [box.height for box in figure.scene.of(Box) if box.face == SOFT]
    assert heights[:2] == pytest.approx([0.9 * STRIP, 0.4 * STRIP])


def test_what_was_measured_is_told_from_what_is_reckoned(h200):
    """Of two waves only their sum was measured, and the first one's time is the rest.

    Of a single wave all was.
    """
    assert {
        "both waves: 1,800 µs, measured",
        "wave 1: 396 programs, 1,200 µs, the rest",
        "wave 2: 116 programs, 600 µs, reckoned",
        "reckoned: busy for",
        "1,080 of 1,200 µs: 90 %",
        "240 of 600 µs: 40 %",
    } <= {*texts(plot_waves({"rung 2": TWO}, "title"))}
    alone = texts(plot_waves({"rung 3": ONE}, "title"))
    assert {"450 µs, measured", "512 programs", "measured: busy for"} <= {*alone}
    words = "reckoned", "both waves", "the rest"
    assert not any(word in said for said in alone for word in words)
    times = wave_times(h200, measured_profile(), 2)
    said = texts(plot_waves({"rung 2, 64x4k": times}, "title"))
    assert {"both waves: 1,919 µs, measured", "1,107 of 1,162 µs: 95 %"} <= {*said}
    # In wave 1 three programs share a unit, and each keeps it busy for 369 µs.
    assert times.us[0] * times.busy[0] == pytest.approx(3 * 369, abs=1)


def test_the_waves_of_a_launch_are_reckoned_in_words():
    said = "\n".join(wave_lines(TWO))
    assert "116 programs" in said and "take 600 µs" in said
    assert "1,800 - 600 = 1,200 µs" in said
    assert "busy for 1,320 µs" in said
    assert "1,080 in wave 1, 240 in wave 2; so for 90% and 40%" in said
