"""Launches taken apart: their facts, the three faults, the bars, and the widget."""

import math
import statistics

import pytest

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.tones import free, soft, strong
from minipaged.lab import (
    by_fault,
    launch_of,
    launch_of_rung,
    measured_tuning,
    plot_quantities,
    plot_sieve,
)
from minipaged.lab.measure.launches import FAULTS, Bar, Launch, ran
from minipaged.lab.measure.occupancy import programs_that_fit

FIRST = {"tile": 16, "num_warps": 4, "num_stages": 1, "num_splits": 1}
EVEN = ["1x8k", "8x4k", "32x2k", "64x4k"]


@pytest.fixture(scope="module")
def h200():
    return measured_tuning("nvidia-h200")


def sizes(tile, warps, stages, splits=1):
    values = tile, warps, stages, splits
    return dict(zip(FIRST, values, strict=True))


def launch(**changed):
    """Two full waves of four programs on each of 64 multiprocessors."""
    facts = {
        "rooms": {"registers": 4, "shared memory": 6},
        "takes": {"registers": 0.25, "shared memory": 0.15},
        "fit": 4,
        "waves": [256, 256],
        "places": 256,
        "under_way": 5.0,
        "least": 4.0,
        "spilled": 0,
        "us": 10.0,
        "percent": 50.0,
        "best": 80.0,
    }
    return Launch(**(facts | changed))


def test_a_launch_without_faults_and_one_with_each():
    assert launch().faults == []
    assert launch(under_way=3.9).faults == [FAULTS[0]]
    assert launch(waves=[256, 127]).faults == [FAULTS[1]]
    assert launch(waves=[256, 128]).faults == []  # half full
    assert launch(waves=[10, 4], places=10).faults == [FAULTS[1]]
    assert launch(waves=[1]).faults == []  # the only wave: nobody waits
    assert launch(spilled=8).faults == [FAULTS[2]]
    assert launch(spilled=8, under_way=1.0, waves=[256, 64]).faults == [*FAULTS]


def test_all_programs_are_in_a_wave_and_as_many_fit_as_there_is_room_for(h200):
    for batch in EVEN:
        for row in ran(h200, batch):
            found = launch_of(h200, batch, **{name: row[name] for name in FIRST})
            facts, splits, tile = h200["batches"][batch], row["num_splits"], row["tile"]
            share = math.ceil(math.ceil(facts["longest"] / splits) / tile) * tile
            with_work = sum(n * share < facts["longest"] for n in range(splits))
            assert sum(found.waves) == 8 * facts["num_seqs"] * with_work
            assert max(found.waves) <= found.places == 132 * row["programs"]
            assert found.waves[:-1] == [found.places] * (len(found.waves) - 1)
            assert found.fit == min(found.rooms.values()) == row["programs"]
            assert found.percent <= found.best + 1e-9


def test_rooms_are_those_that_occupancy_counts(h200):
    row = next(
        row for row in ran(h200, "64x4k") if sizes(64, 4, 5).items() <= row.items()
    )
    taken = row["num_warps"], row["registers"], row["shared_bytes"]
    found = launch_of(h200, "64x4k", **sizes(64, 4, 5))
    assert programs_that_fit(h200["gpu"], *taken) == found.fit == 3
    assert found.rooms == {"registers": 4, "shared memory": 3}
    assert found.waves == [396, 116] and found.faults == [FAULTS[1]]
    assert found.least == pytest.approx(4.591)  # MB: 4,591 GB/s x 1 µs


def test_sizes_that_nobody_measured_are_refused(h200):
    with pytest.raises(LookupError, match=r"8x4k.*'tile': 48"):
        launch_of(h200, "8x4k", tile=48)


def test_the_first_rung_has_a_program_for_each_query_head(h200):
    one, two = (launch_of_rung(h200, "64x4k", number) for number in (1, 2))
    assert sum(one.waves) == 64 * 32 and sum(two.waves) == 64 * 8
    assert two.waves == [396, 116] and two.us == 1919.0


def test_each_launch_is_in_one_group(h200):
    groups = by_fault(h200, EVEN)
    assert list(groups) == ["none of the three", *FAULTS, "several of them"]
    assert sum(map(len, groups.values())) == sum(len(ran(h200, one)) for one in EVEN)
    assert max(map(max, groups.values())) == pytest.approx(100.0)
    middles = {name: statistics.median(values) for name, values in groups.items()}
    assert max(middles, key=middles.get) == "none of the three"
    assert min(middles, key=middles.get) == "several of them"


def test_bars_add_up():
    registers, shared, first, second, way, speed = launch(waves=[256, 64]).bars()
    assert registers.used == [0.25] * 4 and registers.unused == []
    assert shared.used == [0.15] * 4 and shared.unused == [0.15] * 2
    assert (
        registers.said == "room for 4: runs out first" and shared.said == "room for 6"
    )
    assert first.used == [1.0] and second.used == [0.25]
    assert second.is_bad and not first.is_bad and second.said == "64 programs"
    assert not way.is_bad
    assert speed.used == [0.5] and speed.marks == [0.8]
    (alone,) = launch(waves=[1]).bars("wave")
    assert alone.said == "1 program"


@pytest.mark.parametrize(
    ("waves", "running"), [([256, 1], 4), ([193], 4), ([192], 3), ([65], 2), ([1], 1)]
)
def test_only_programs_that_run_use_something(waves, running):
    """On 64 multiprocessors; there is room for four and for six on each."""
    registers, shared = launch(waves=waves).bars("registers", "shared")
    assert registers.used == [0.25] * running
    assert registers.unused == [0.25] * (4 - running)
    assert shared.used == [0.15] * running and shared.unused == [0.15] * (6 - running)
    few = f"4 fit, {running} run" + "s" * (running == 1)
    assert registers.said == ("room for 4: runs out first" if running == 4 else few)


def test_programs_that_run_are_those_of_the_first_wave(h200):
    """The H200 has 132 multiprocessors."""
    running = {
        "256 of 396 places": launch_of(h200, "8x4k", **sizes(64, 2, 5, 4)),
        "396 of 396 places": launch_of(h200, "8x4k", **sizes(64, 2, 5, 8)),
        "512 of 792 places": launch_of(h200, "8x4k", **sizes(32, 1, 5, 8)),
        "128 of 132 places": launch_of(h200, "8x4k", **sizes(128, 4, 5, 2)),
    }
    assert [one.running for one in running.values()] == [2, 3, 4, 1]
    for words, one in running.items():
        assert words == f"{one.waves[0]} of {one.places} places"


def test_the_least_and_the_aim_are_marked_at_their_megabytes(h200):
    """128 KiB on each of 64 multiprocessors are 8.4 MB; of 132, 17.3."""
    (way,) = launch().bars("under way")
    least, aim = way.marks
    each = way.used[0] / 5.0  # of the bar for a megabyte
    assert least / each == pytest.approx(4.0)
    assert aim / each == pytest.approx(64 * 128 * 1024 / 1e6)
    assert way.remark == "4.0 MB at least, aim 8" and aim < 1
    for device, words in {"h200": "4.6", "h100-80gb-hbm3": "3.1"}.items():
        tuning = measured_tuning(f"nvidia-{device}")
        (way,) = launch_of(tuning, "8x4k", **sizes(64, 2, 4)).bars("under way")
        assert way.remark == f"{words} MB at least, aim 17"


def test_bars_of_some_kinds():
    names = [bar.name for bar in launch().bars("wave", "speed")]
    assert names == ["wave 1 of 2", "wave 2 of 2", "speed"]
    names = [bar.name for bar in launch(waves=[256] * 8 + [1]).bars("wave")]
    assert names == ["wave 1 of 9", "wave 2 of 9", "wave 9 of 9"]  # the last is there


def test_registers_that_spill_are_said():
    registers, shared = launch(spilled=8).bars("registers", "shared")
    assert registers.said == "room for 4, and they spill" and registers.is_bad
    assert not shared.is_bad and not launch().bars("registers")[0].is_bad


def test_what_is_under_way_fills_a_bar_at_most():
    (way,) = launch(under_way=100.0).bars("under way")
    assert way.used == [1.0] and way.said == "100.0 MB"
    (way,) = launch(under_way=3.0).bars("under way")
    assert way.is_bad


def panels():
    bars = launch(waves=[256, 64], spilled=8, under_way=1.0).bars()
    return {"a launch": bars, "another": launch().bars("registers")}


DRAWINGS = {
    "quantities": lambda: plot_quantities(panels(), "title"),
    "one quantity": lambda: plot_quantities({"a": launch().bars("wave")}, "title"),
    "quantities, many programs": lambda: plot_quantities(
        {
            "a": [
                Bar("registers", "of one", "room for 32", [1 / 32] * 32, [], [], False)
            ]
        },
        "title",
    ),
    "sieve": lambda: plot_sieve({"none": [90.0, 95.0], "one of them": [20.0]}, "title"),
    "sieve of many": lambda: plot_sieve(
        {f"group {n}": [n * k % 101 for k in range(300)] for n in (3, 7)}, "title"
    ),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def quantities(bars):
    return plot_quantities({"a": bars}, "title").scene.rows


def test_a_bar_is_as_long_as_its_parts():
    rows = quantities(launch(waves=[256, 64]).bars("wave"))
    assert [row.widths for row in rows] == [[1.0], [0.25, 0.75]]
    assert rows[1].tones == [strong(0), free()] and rows[1].aside == "64 programs"


def test_room_that_is_not_used_is_said():
    figure = plot_quantities({"a": launch(waves=[192]).bars("shared")}, "title")
    assert {"used", "room for more programs", "not used"} <= set(texts(figure))
    (row,) = figure.scene.rows
    assert row.tones[:6] == [strong(0)] * 3 + [soft(0)] * 3


def test_marks_are_drawn_where_they_are():
    bars = launch().bars("under way")
    assert [at for at, _ in quantities(bars)[0].signs] == bars[0].marks
    ((best, _),) = quantities(launch().bars("speed"))[0].signs
    assert best == pytest.approx(0.8)


def test_a_sieve_counts_what_is_fast():
    some, none = plot_sieve(
        {"some": [79.9, 80.0, 100.0, 10.0], "none": [5.0]}, "title"
    ).scene.rows
    assert (some.values, none.values) == (["50%"], ["0%"])
    assert (some.remark, none.remark) == ("4 launches", "1 launch")
    assert (79.95, "line") in [(round(at, 2), what) for at, what in some.signs]
    assert [at for at, what in some.signs if what == "o"] == [79.9, 80.0, 100.0, 10.0]
