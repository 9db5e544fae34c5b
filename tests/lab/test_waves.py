"""Waves of lesson 6's rungs over time: what was measured, and what follows from it."""

import pytest

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Box
from minipaged.draw.tones import KEPT, soft, strong
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
    """In rows of a program on each of the 132 multiprocessors, from below."""
    rows = plot_waves({"rung 2": TWO, "rung 3": ONE}, "title").scene.rows
    two, one = rows[:3], rows[4:10]
    assert [row.widths for row in two] == [[1200, 600]] * 3
    assert [row.widths for row in one] == [[450]] * 6
    assert [row.tones for row in two] == [[strong(0), KEPT]] * 2 + [[strong(0)] * 2]
    assert [row.tones for row in one] == [[KEPT]] * 2 + [[strong(0)]] * 4
    assert two[-1].cells[1].high == pytest.approx(116 / 132)
    assert one[2].cells[0].high == pytest.approx(512 / 132 - 3)
    assert two[-1].words == ["396 programs", "116 programs"]
    assert one[-1].words == ["512 programs"]


def test_places_without_a_program_are_hatched_in_every_row():
    """Two rows, and above the 116 programs the places of 16 multiprocessors."""
    figure = plot_waves({"rung 2": TWO}, "title")
    hatched = [box for box in figure.scene.of(Box) if box.pattern and box.width > 18]
    rows = {}
    for box in hatched:  # each in two halves
        rows[box.y] = rows.get(box.y, 0) + box.width * box.height
    first, second, third = (rows[y] for y in sorted(rows))
    assert first == second and third == pytest.approx(first * 16 / 132)
    assert [row.label for row in figure.scene.rows] == ["", "places", "", "L1 unit"]
    assert figure.scene.rows[1].remark == "3 on each multiprocessor"


def test_where_few_run_their_number_stands_above_them():
    *_, above, below, _ = DRAWINGS["a short wave"]().scene.rows
    assert above.words == ["", "2 programs"] and below.words == ["396 programs", ""]


def test_the_strip_is_filled_as_far_as_the_unit_is_busy():
    *_, unit = plot_waves({"rung 2": TWO}, "title").scene.rows
    assert [cell.high for cell in unit.cells] == [0.9, 0.4]
    assert unit.tones == [soft(0)] * 2 and unit.widths == [1200, 600]


def test_what_was_measured_is_told_from_what_is_computed():
    """Of two waves only their sum was measured, and the first one's time is the rest.

    Of a single wave all was.
    """
    two, one = (plot_waves({"rung": times}, "title") for times in (TWO, ONE))
    assert {
        "both waves: 1,800 µs, measured",
        "wave 1, the rest: 1,200 µs",
        "wave 2, computed: 600 µs",
        "1,080 of 1,200 µs: 90 %",
        "240 of 600 µs: 40 %",
    } <= set(texts(two))
    assert {"450 µs, measured", "225 of 450 µs: 50 %"} <= set(texts(one))
    assert [figure.scene.rows[-1].remark for figure in (two, one)] == [
        "computed", "measured",
    ]  # fmt: skip
    words = "computed", "both waves", "the rest"
    assert not any(word in said for said in texts(one) for word in words)


def test_the_rung_that_lesson_6_draws(h200):
    """In wave 1 three programs share a unit, and each keeps it busy for 369 µs."""
    times = wave_times(h200, measured_profile(), 2)
    said = texts(plot_waves({"rung 2, 64x4k": times}, "title"))
    assert {
        "both waves: 1,919 µs, measured",
        "wave 1, the rest: 1,162 µs",
        "wave 2, computed: 757 µs",
        "1,107 of 1,162 µs: 95 %",
        "324 of 757 µs: 43 %",
    } <= set(said)
    assert times.us[0] * times.busy[0] == pytest.approx(3 * 369, abs=1)


def test_the_waves_of_a_launch_are_computed_in_words():
    said = "\n".join(wave_lines(TWO))
    assert "116 programs" in said and "take 600 µs" in said
    assert "1,800 - 600 = 1,200 µs" in said
    assert "busy for 1,320 µs" in said
    assert "1,080 in wave 1, 240 in wave 2; so for 90% and 40%" in said
