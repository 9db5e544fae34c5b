"""The L1 unit: what its cycles are for, its banks, and the drawings of both."""

import pytest

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.draw.marks import Box
from minipaged.draw.tones import behind_words, free, soft, strong
from minipaged.lab import (
    cycle_lines,
    l1_cycles,
    measured_profile,
    plot_banks,
    plot_l1_cycles,
)
from minipaged.lab.measure.l1_cycles import L1Cycles
from minipaged.lab.plots.banks import cycles_at_banks

ONE = L1Cycles(in_all=5255, loads=355, shuffles=480, shared=4420, conflicts=3872)
TWO = L1Cycles(in_all=2719, loads=97, shuffles=1392, shared=1230, conflicts=9)
BLUE = palette.sequence_colour(0)
ROW = {"l1_cycles": 700, "shared_cycles": 600, "conflict_cycles": 400}


def banks(ways=None, **options):
    return plot_banks(ways or {"far": 32, "near": 1}, "title", **options)


def cycles(rungs=None):
    return plot_l1_cycles(rungs or {"rung 1": ONE, "rung 2": TWO}, "title", "H100")


test_it_can_be_read = readable_in_all_themes(
    {
        "banks": banks,
        "banks, two threads each": lambda: banks({"every other": 2}, num_threads=32),
        "banks, one thread": lambda: banks(num_threads=1),
        "cycles": cycles,
        "cycles of one": lambda: cycles({"a rung": ONE}),
        "few cycles": lambda: cycles({"a rung": ONE, "b": L1Cycles(20, 5, 5, 10, 1)}),
    }
)


# --- banks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "cycles"),
    [
        ([7], 1),
        (list(range(32)), 1),
        ([32 * thread for thread in range(16)], 16),
        ([2 * thread for thread in range(32)], 2),
        ([33 * thread for thread in range(32)], 1),  # a number of padding in each line
        ([5] * 32, 1),  # all want the same number
        ([0, 32, 0, 32], 2),
    ],
)
def test_a_bank_gives_one_number_a_cycle(places, cycles):
    assert cycles_at_banks(places) == cycles


def test_what_threads_want_is_filled_in_its_bank():
    """Five lines of the first way, of which the dots stand for others; then one."""
    figure = banks({"far": 33, "near": 1})
    rows = [row for row in figure.scene.rows if row.label != "bank"]
    wanted = [
        [n for n, tone in enumerate(row.tones) if tone == strong(0)] for row in rows
    ]
    assert wanted == [[0], [1], [2], [3], [15], [*range(16)]]
    assert [row.label for row in rows][-3:] == [
        "places 96–127: thread 3", "places 480–511: thread 15",
        "places 0–31: threads 0–15",
    ]  # fmt: skip
    assert "⋮" in texts(figure) and {"16 cycles", "1 cycle"} <= {*texts(banks())}


def test_a_verdict_follows_from_the_places():
    said = texts(banks({"every fourth": 4, "padded": 33}))
    assert said.count("2 cycles") == 1 and said.count("1 cycle") == 1


# --- cycles ---------------------------------------------------------------------------


def test_cycles_are_told_for_one_tile():
    profile = {"machine": {"device": "NVIDIA X9 80GB"}, "tiles": 10}
    profile |= {"rungs": {"a": ROW | {"shuffles": 32 * 150}}}
    (found,) = l1_cycles(profile)
    assert found == L1Cycles(70, loads=10, shuffles=15, shared=45, conflicts=40)
    title, head, line = cycle_lines(profile, 1)
    assert title.endswith("on an X9:")
    assert line.split() == "rung 1 10 15 45 70".split() and len(head) == len(line)


def test_the_counted_conflicts_are_those_that_the_layout_makes():
    """Rung 1's sums lie 32 numbers apart; four programs of four warps, 16 accesses."""
    one, two, three, four = l1_cycles(measured_profile("nvidia-h100-80gb-hbm3"))
    waits = cycles_at_banks([32 * thread for thread in range(16)]) - 1
    assert one.conflicts == pytest.approx(4 * 4 * 16 * waits, rel=0.02)
    assert two.conflicts < 0.01 * two.in_all and three.conflicts == 0
    for each in (one, two, three, four):
        parts = each.loads + each.shuffles + each.shared
        assert parts == pytest.approx(each.in_all, abs=2)
    assert one.loads == pytest.approx(4 * three.loads, rel=0.05)


def test_bars_are_as_long_as_their_cycles():
    scene = cycles().scene
    tones = strong(0), behind_words(soft(0)), free()
    for tone, one, other in (tones[0], 355, 97), (tones[2], 4420, 1230):
        first, second, _ = (b.width + 1 for b in scene.of(Box) if b.face == tone.face)
        assert first / second == pytest.approx(one / other)
    upper, lower = scene.rows
    assert upper.words == ["355", "480", "4,420"] and upper.aside == "5,255 in all"
    assert lower.words == ["", "1,392", "1,230"] and tuple(lower.tones) == tones
    assert lower.aside == "2,719 in all, loads 97"  # it has no room in the bar
