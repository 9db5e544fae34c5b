"""Launches taken apart: their facts, the three faults, the bars, and the widget."""

import math
import statistics
from collections import Counter

import pytest

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.tones import free, soft, strong
from minipaged.lab import (
    TuningWidget,
    by_fault,
    launch_of,
    launch_of_rung,
    measured_tuning,
    near_best,
    plot_quantities,
    plot_sieve,
)
from minipaged.lab.measure.launches import BEYOND, FAULTS, NO_FAULT, Bar, Launch, ran
from minipaged.lab.measure.occupancy import programs_that_fit
from minipaged.lab.pool.tuning_widget import DIMMED, UNUSED, USED

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


@pytest.fixture
def widget(h200):
    return TuningWidget(h200, "8x4k", FIRST)


def launch_with(widget, **chosen):
    """Choose these sizes, and launch."""
    for name, value in chosen.items():
        widget.rows[name].value = value
    widget.go.click()


def test_the_widget_shows_what_was_measured(widget, h200):
    assert "404.9 µs: too little under way." in widget.said.value
    launch_with(widget, **sizes(32, 1, 5, 8))
    best = launch_of(h200, "8x4k", **sizes(32, 1, 5, 8))
    assert f"{best.us} µs: none of the three faults." in widget.said.value
    assert (
        "Tried: 2 of 480. This one is within 5 % of the best of all."
        in widget.said.value
    )
    assert "mp-wrong" not in widget.stage.value
    launch_with(widget, **FIRST)
    assert "Your best reaches 74 % of the ceiling." in widget.said.value
    launch_with(widget, **sizes(32, 1, 5, 8))
    for bar in best.bars():
        assert bar.said in widget.stage.value
        for mark in bar.marks:
            assert f"left:{100 * mark:.1f}%" in widget.stage.value
    launch_with(widget, num_splits=1)
    assert widget.stage.value.count("mp-wrong") == 1  # too little under way


def test_no_verdict_stands_beside_sizes_that_are_not_launched_yet(widget):
    shown, verdict = widget.stage.value, widget.said.value
    widget.rows["tile"].value = 32
    assert "Press Launch to see what these sizes take." in widget.said.value
    assert "µs" not in widget.said.value and "Tried" not in widget.said.value
    assert DIMMED in widget.stage.value and len(widget.tried) == 1
    widget.rows["tile"].value = 16  # as launched
    assert (widget.stage.value, widget.said.value) == (shown, verdict)
    launch_with(widget, tile=32)
    assert "Press Launch" not in widget.said.value and DIMMED not in widget.stage.value
    widget.rows["tile"].value = 16  # tried, but it is not what the bars show
    assert "Press Launch" in widget.said.value and DIMMED in widget.stage.value
    widget.start()
    assert (widget.stage.value, widget.said.value) == (shown, verdict)


def test_where_nothing_is_found_the_widget_says_how_far_the_aim_is(widget, h200):
    aim = "Under way: {} MB; the aim: 17. Tried"
    assert "the aim" not in widget.said.value  # it has a fault
    launch_with(widget, **sizes(64, 2, 5, 2))
    assert "none of the three faults." in widget.said.value
    assert aim.format(8.4) in widget.said.value  # and nothing to try
    launch_with(widget, num_splits=4)  # the best
    assert "the aim" not in widget.said.value
    for row in ran(h200, "8x4k"):
        found = launch_of(h200, "8x4k", **{name: row[name] for name in FIRST})
        launch_with(widget, **{name: row[name] for name in FIRST})
        is_slow = found.us > 1.05 * min(one["us"] for one in ran(h200, "8x4k"))
        way = aim.format(f"{found.under_way:.1f}").removesuffix(" Tried")
        assert (way in widget.said.value) == (is_slow and not found.faults)


def test_far_more_than_the_aim_is_told_if_nothing_else_is_wrong():
    """The aim is 8.4 MB on 64 multiprocessors; 1.4 times that, 11.7."""
    assert launch().verdict == launch(under_way=11.7).verdict == NO_FAULT
    beyond = launch(under_way=11.8)
    assert beyond.faults == [] and beyond.verdict == BEYOND
    assert launch(under_way=11.8, percent=76.1).verdict == BEYOND
    assert launch(under_way=11.8, percent=76.2).verdict == NO_FAULT  # within 5 %
    assert launch(under_way=11.8, spilled=8).verdict == FAULTS[2]
    both = launch(spilled=8, waves=[256, 64], under_way=11.8)
    assert beyond.is_beyond and not both.is_beyond
    assert both.verdict == f"{FAULTS[1]} and {FAULTS[2]}"


@pytest.mark.parametrize("device", ["h200", "h100-80gb-hbm3"])
def test_what_is_said_of_too_much_under_way_helps(device):
    """Of every launch of 32x2k: less of what is named, and it is quicker."""
    tuning = measured_tuning(f"nvidia-{device}")
    widget = TuningWidget(tuning, "32x2k", FIRST)
    rows = ran(tuning, "32x2k")
    best, told = min(row["us"] for row in rows), 0
    for row in rows:
        launch_with(widget, **{name: row[name] for name in FIRST})
        said = widget.said.value
        less = {
            "num_splits": "fewer splits",
            "num_stages": "fewer stages",
            "tile": "narrower tiles",
        }
        named = {size for size, words in less.items() if words in said}
        if BEYOND not in said:
            continue
        assert named and "Try " in said
        told += 1
        assert row["us"] > 1.05 * best
        if row["num_splits"] > 1:
            assert named == {"num_splits", "num_stages"}
        else:
            assert named == {"num_stages", "tile"}
        assert any(
            other["us"] < row["us"]
            for other in rows
            for size in named
            if other[size] < row[size]
            and all(other[name] == row[name] for name in FIRST if name != size)
        ), row
    assert told > 20


def changed(row, words):
    """The sizes that this advice may mean, in place of those of a row."""
    tile, warps, stages, splits = (row[name] for name in FIRST)
    return {
        "fewer warps": [(tile, n, stages, splits) for n in (1, 2, 4)],
        "fewer splits": [(tile, warps, stages, n) for n in (1, 2) if n < splits],
        "more stages": [(tile, warps, n, splits) for n in (2, 3, 4, 5, 7)],
        "wider tiles in fewer splits": [
            (k * tile, n, stages, splits // k) for k in (2, 4) for n in (1, 2, 4)
        ],
    }[words]


@pytest.mark.parametrize("device", ["h200", "h100-80gb-hbm3"])
def test_what_a_slow_launch_without_a_fault_is_told_nearly_always_helps(device):
    tuning = measured_tuning(f"nvidia-{device}")
    widget = TuningWidget(tuning, "32x2k", FIRST)
    times = {
        tuple(row[name] for name in FIRST): row["us"] for row in ran(tuning, "32x2k")
    }
    helped, told = Counter(), Counter()
    for row in ran(tuning, "32x2k"):
        launch_with(widget, **{name: row[name] for name in FIRST})
        said = widget.said.value
        if NO_FAULT not in said or "Try " not in said:
            continue
        words = said.split("Try ")[1].split(". ")[0]
        told[words] += 1
        tried = (times.get(sizes, math.inf) for sizes in changed(row, words))
        helped[words] += min(tried, default=math.inf) < row["us"]
    assert len(told) == 4 and min(told.values()) >= 5
    assert helped.total() > 0.9 * told.total(), (helped, told)


def test_four_splits_with_26_megabytes_are_told_to_be_fewer(h200):
    widget = TuningWidget(h200, "32x2k", FIRST)
    launch_with(widget, **sizes(128, 4, 2, 4))
    assert f"78.32 µs: {BEYOND}." in widget.said.value
    words = "Under way: 26.0 MB; the aim: 17. Try fewer splits or fewer stages."
    assert words in widget.said.value
    assert f"4 splits: 78.32 µs, {BEYOND}" in widget.history.value
    launch_with(widget, **sizes(64, 2, 7, 1))  # within 5 % of the best, with 25.2
    assert "none of the three faults." in widget.said.value
    assert "the aim" not in widget.said.value


@pytest.mark.parametrize(
    ("chosen", "helps"),
    [
        ((16, 4, 1, 1), "Try wider tiles, more stages or more splits."),
        ((128, 1, 2, 1), "Try narrower tiles or more warps."),
    ],
)
def test_what_helps_against_a_fault_is_said(h200, chosen, helps):
    widget = TuningWidget(h200, "32x2k", FIRST)
    launch_with(widget, **sizes(*chosen))
    assert helps in widget.said.value


def test_beside_the_buttons_stands_when_a_press_is_answered_late(widget):
    buttons = widget.children[1].children[-1]
    assert buttons.children[:2] == (widget.go, widget.anew)
    late = "While other cells run, Launch waits for them."
    assert late in buttons.children[2].value


def test_the_widget_draws_programs_that_run_and_room_for_more(widget, h200):
    """Three fit, and two of them run; there are registers for four."""
    launch_with(widget, **sizes(64, 2, 5, 4))
    registers, shared, *_ = widget.stage.value.split('role="img"')[1:]
    assert registers.count(f";{USED}") == 2 == registers.count(f";{UNUSED}")
    assert shared.count(f";{USED}") == 2 and shared.count(f";{UNUSED}") == 1
    assert registers.index(USED) < registers.index(UNUSED)


def test_the_widget_keeps_what_was_tried(widget):
    launch_with(widget, num_splits=16)
    told = "tile 16, 4 warps, 1 stage, {}: {} µs, {}"
    short, empty = "too little under way", "a last wave mostly empty"
    assert told.format("1 split", 404.9, short) in widget.history.value
    assert told.format("16 splits", 74.88, empty) in widget.history.value
    last, first = map(widget.history.value.index, ("16 splits", "1 split:"))
    assert last < first
    launch_with(widget, num_splits=1)  # it is launched again: the newest
    last, first = map(widget.history.value.index, ("16 splits", "1 split:"))
    assert first < last and "Tried: 2 of 480" in widget.said.value
    widget.start()
    assert "16 splits" not in widget.history.value


def test_near_the_best(h200):
    found = near_best(h200, EVEN, (0, 4.6, 15, 19, 100))
    assert sum(count for _, count in found.values()) == 1440
    assert found[0, 4.6][0] == 0  # none with so little
    shares = {between: near / count for between, (near, count) in found.items()}
    assert max(shares, key=shares.get) == (15, 19)
    assert sum(near for near, _ in found.values()) == 71


def test_the_widget_knows_the_best_that_was_tried(widget):
    launch_with(widget, num_splits=16)
    best = max(one.percent for one in widget.tried.values())
    launch_with(widget, num_splits=1)
    assert (
        f"Tried: 2 of 480. Your best reaches {best:.0f} % of the ceiling."
        in widget.said.value
    )
    launch_with(widget, tile=128)
    widget.start()
    assert len(widget.tried) == 1 and "Tried: 1 of 480." in widget.said.value
    assert {name: made.value for name, made in widget.rows.items()} == FIRST


def test_a_page_without_widgets_is_told_the_first_launch(widget):
    launch_with(widget, tile=64)
    told = widget._repr_mimebundle_()["text/plain"]
    assert "'tile': 16" in told and "64 programs" in told
    assert told.endswith("404.9 µs: too little under way")
