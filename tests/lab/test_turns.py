"""Turns of lesson 6's rungs: what is computed of them, and what their picture says."""

import pytest

from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.draw.marks import Words
from minipaged.draw.tones import KEPT, strong
from minipaged.lab import measured_tuning, plot_turns, turns_of
from minipaged.lab.measure.rung_tables import Turn, share_of_ceiling

TURNS = [
    Turn("few", 3, 16, 8, 1000, 2.0, 0.25),
    Turn("few", 4, 64, 8, 4000, 3.0, 1.0),
    Turn("many", 3, 16, 80, 1000, 2.5, 2.0),
    Turn("many", 4, 64, 80, 4000, 12.5, 8.0),
]
IDLE = [Turn("a", 3, 16, 8, 1000, 2.0, 0.0), Turn("a", 4, 48, 8, 3000, 2.0, 2.5)]


def measured(gpu="nvidia-h200"):
    return turns_of(measured_tuning(gpu), ("1x8k", "64x4k"), {3: 16, 4: 64})


def drawing(turns=TURNS):
    return plot_turns(turns, "title")


test_it_can_be_read = readable_in_all_themes(
    {
        "turns": drawing,
        "turns, measured": lambda: drawing(measured()),
        "turns, on the other GPU": lambda: drawing(measured("nvidia-h100-80gb-hbm3")),
        "turns, a single row": lambda: drawing(TURNS[:1]),
        "turns, all idle or never": lambda: drawing(IDLE),
    }
)


# --- what is computed -----------------------------------------------------------------


def made_up():
    """Two rungs, 640 positions of two sequences; the ceiling is 1,000 GB/s."""
    rows = {"x": {"us": 999.0}, "y": {"us": 400.0}, "z": {"us": 120.0}}
    batch = {"num_seqs": 2, "longest": 640}
    return {
        "ceilings": {"read_gb_per_s": 1000},
        "batches": {"a": batch, "b": batch | {"longest": 630}},
        "ladder": {"a": rows, "b": rows},
    }


def test_a_turn_is_what_a_rung_does_for_a_tile():
    """40 tiles of 16 positions in 400 µs, ten of 64 in 120; eight heads each."""
    first, second = turns_of(made_up(), ("a",), {2: 16, 3: 64})
    assert first == ("a", 2, 16, 16, 2 * 16 * 128 * 2, 10.0, pytest.approx(0.131072))
    assert second == ("a", 3, 64, 16, 2 * 64 * 128 * 2, 12.0, pytest.approx(0.524288))


def test_a_tile_that_is_not_full_takes_a_turn_and_half_the_numbers_half_the_bytes():
    (turn,) = turns_of(made_up(), ("b",), {3: 64}, dim=64)
    assert (turn.us, turn.nbytes) == (12.0, 2 * 64 * 64 * 2)
    assert turn.reading == pytest.approx(0.262144)


def test_reading_is_the_share_of_the_ceiling_that_the_ladder_tells():
    """Where all contexts are equally long, and full tiles."""
    tuning = measured_tuning()
    for turn in measured():
        row = [*tuning["ladder"][turn.batch].values()][turn.rung - 1]
        share = share_of_ceiling(tuning, turn.batch, row)
        assert 100 * turn.reading / turn.us == pytest.approx(share, rel=0.01)


# --- the picture ----------------------------------------------------------------------


def parts(turns=TURNS):
    """Of each row: how long it is busy and idle, in turns, and where lines stand."""
    rows = drawing(turns).scene.rows
    return [
        ([*zip(row.tones, row.widths, strict=True)], [at for at, _ in row.signs])
        for row in rows
    ]


def test_a_row_has_the_turns_that_the_widest_tile_needs():
    for turn, (bars, lines) in zip(TURNS, parts(), strict=True):
        count = 64 // turn.tile
        rest = (KEPT, turn.us - turn.reading)
        for at, (tone, wide) in enumerate([(strong(0), turn.reading), rest] * count):
            assert bars[at] == (tone, pytest.approx(wide))
        assert len(bars) == 2 * count
        assert lines == pytest.approx([n * turn.us for n in range(count + 1)])


def test_little_reading_is_still_seen_and_never_more_than_a_turn():
    (narrow, _), (wide, _) = parts(IDLE)
    assert 0 < narrow[0][1] < 0.1 and wide == [(strong(0), 2.0)]


def test_a_row_says_its_time_and_how_much_of_it_is_reading():
    rows = drawing().scene.rows
    assert [row.values for row in rows] == [
        ["4 of 2.00 µs", "12.5 %"], ["1 of 3.00 µs", "33.3 %"],
        ["4 of 2.50 µs", "80.0 %"], ["1 of 12.50 µs", "64.0 %"],
    ]  # fmt: skip
    assert [(row.label, row.remark) for row in rows] == [
        ("rung 3", "16 positions"), ("rung 4", "64 positions"),
    ] * 2  # fmt: skip


def test_a_batch_says_how_much_more_it_gets_and_how_much_later():
    said = {words.text: words.color for words in drawing().scene.of(Words)}
    assert said["4 times the bytes in 1.5 times the time"] == palette.GOOD
    assert said["4 times the bytes in 5.0 times the time"] == palette.BAD
    assert "80 programs; in a turn, each gets a tile" in said
    one = drawing(TURNS[:1]).scene.of(Words)
    assert not any("times the" in words.text for words in one)
