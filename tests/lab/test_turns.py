"""Turns of lesson 6's rungs: what is computed of them, and what their picture says."""

from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from helpers.drawn import boxes, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.lab import measured_tuning, plot_turns, turns_of
from minipaged.lab.measure.rung_tables import Turn, share_of_ceiling

BUSY = palette.sequence_colour(0)
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


def busy(figure):
    """By row, the left end and the width of each busy part."""
    rows = {}
    for box in boxes(figure, BUSY)[:-1]:  # without the legend's
        rows.setdefault(box.get_y(), []).append((box.get_x(), box.get_width()))
    return [sorted(rows[y]) for y in sorted(rows)]


def idle(figure):
    """By row, where each hatched part begins and ends, the legend left out."""
    rows = {}
    for box in figure.axes[0].patches:
        if isinstance(box, Rectangle) and box.get_hatch() and box.get_height() > 20:
            ends = rows.setdefault(box.get_y(), set())
            left, right = box.get_x(), box.get_x() + box.get_width()
            if right - left > 0.1:  # a part that is drawn in two has both ends once
                ends ^= {round(left, 3), round(right, 3)}
    return [sorted(rows[y]) for y in sorted(rows)]


def zero_and_unit(figure):
    """Where the clock's numbers stand: that of 0, and pixels for a microsecond."""
    (zero, _), (two, _) = (places_of(figure, said)[0] for said in ("0", "2"))
    return zero, (two - zero) / 2


def test_a_row_has_the_turns_that_the_widest_tile_needs():
    assert [len(row) for row in busy(drawing())] == [4, 1, 4, 1]
    assert [len(row) for row in busy(drawing(IDLE))] == [3, 1]
    assert [len(row) for row in busy(drawing(TURNS[:1]))] == [1]


def test_turns_follow_each_other_on_the_clock_that_all_rows_share():
    figure = drawing()
    zero, unit = zero_and_unit(figure)
    for turn, row in zip(TURNS, busy(figure), strict=True):
        assert row[0][0] == pytest.approx(zero)
        for (before, _), (after, _) in pairwise(row):
            assert after - before == pytest.approx(turn.us * unit)
        assert [wide for _, wide in row] == pytest.approx(
            [turn.reading * unit] * len(row)
        )


def test_a_line_stands_where_a_turn_begins_or_ends():
    figure = drawing()
    zero, unit = zero_and_unit(figure)
    lines = [line for line in figure.axes[0].lines if line.get_linewidth() > 1.5]
    for turn, (top, bottom) in zip(TURNS, boxes_of_rows(figure), strict=True):
        own = [line for line in lines if top - 9 < min(line.get_ydata()) < bottom]
        assert all(max(line.get_ydata()) > bottom for line in own)
        moments = [number * turn.us for number in range(64 // turn.tile + 1)]
        found = sorted(line.get_xdata()[0] for line in own)
        assert found == pytest.approx([zero + m * unit for m in moments])


def test_the_rest_of_a_turn_is_hatched():
    figure = drawing()
    zero, unit = zero_and_unit(figure)
    for turn, row in zip(TURNS, idle(figure), strict=True):
        starts = [number * turn.us for number in range(64 // turn.tile)]
        moments = [
            m for start in starts for m in (start + turn.reading, start + turn.us)
        ]
        assert row == pytest.approx([zero + m * unit for m in moments], abs=0.01)


def test_little_reading_is_still_seen_and_never_more_than_a_turn():
    figure = drawing(IDLE)
    zero, unit = zero_and_unit(figure)
    (narrow, *_), (wide,) = busy(figure)
    assert 1 < narrow[1] < 3
    assert wide == pytest.approx((zero, 2.0 * unit))
    assert [len(row) for row in idle(figure)] == [6, 0]


def test_a_row_says_its_time_and_how_much_of_it_is_reading():
    figure = drawing()
    for said, share in (
        ("4 turns of 2.00 µs", "12.5 %"),
        ("1 turn of 3.00 µs", "33.3 %"),
        ("4 turns of 2.50 µs", "80.0 %"),
        ("1 turn of 12.50 µs", "64.0 %"),
    ):
        ((x, y),) = places_of(figure, said)
        ((below, lower),) = places_of(figure, f"{share} of the ceiling")
        assert below == x and 10 < lower - y < 25


def test_words_stand_at_the_end_of_their_row():
    figure = drawing()
    zero, unit = zero_and_unit(figure)
    for turn, row in zip(TURNS, boxes_of_rows(figure), strict=True):
        count = 64 // turn.tile
        said = f"{count} turn{'s' * (count > 1)} of {turn.us:.2f} µs"
        ((x, y),) = places_of(figure, said)
        assert 0 < x - (zero + count * turn.us * unit) < 20
        assert row[0] < y < row[1]


def boxes_of_rows(figure):
    """From where to where each row is, downwards."""
    found = {(box.get_y(), box.get_height()) for box in boxes(figure, BUSY)[:-1]}
    return [(y, y + height) for y, height in sorted(found)]


def test_a_batch_says_how_much_more_it_gets_and_how_much_later():
    figure = drawing()
    rows = boxes_of_rows(figure)
    for name, programs, said, colour, first in (
        ("few", 8, "4 times the bytes in 1.5 times the time", palette.GOOD, 0),
        ("many", 80, "4 times the bytes in 5.0 times the time", palette.BAD, 2),
    ):
        (verdict,) = (t for t in figure.axes[0].texts if t.get_text() == said)
        assert verdict.get_color() == colour
        remark = f"{programs} programs; in a turn, each gets a tile"
        heights = [places_of(figure, words)[0][1] for words in (name, remark, said)]
        assert len(set(heights)) == 1 and 0 < rows[first][0] - heights[0] < 40
    assert not any("times the" in said for said in texts(drawing(TURNS[:1])))


def test_tiles_have_a_cell_for_each_of_the_narrowest():
    figure = drawing()
    lined = palette.line_colour(0)
    cells = {}
    for box in figure.axes[0].patches:
        if not box.get_fill() and not box.get_hatch() and has_line(box, lined):
            cells.setdefault(box.get_y(), []).append(box.get_x())
    assert [len(cells[y]) for y in sorted(cells)] == [1, 4, 1, 4]
    apart = {round(b - a, 3) for row in cells.values() for a, b in pairwise(row)}
    assert len(apart) == 1
    said = texts(figure)
    assert said.count("16 positions") == said.count("64 positions") == 2
    assert said.count("rung 3") == said.count("rung 4") == 2


def has_line(box, colour):
    return to_hex(box.get_edgecolor()).upper() == colour.upper()


def test_the_clock_says_what_has_come_at_the_end_of_a_row():
    assert "µs until each program has got 64 positions" in texts(drawing())
    assert "µs until each program has got 48 positions" in texts(drawing(IDLE))
