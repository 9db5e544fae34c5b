"""Appendix A's drawings: who has which place, who computes when."""

from functools import partial
from itertools import accumulate, pairwise

import pytest

import minipaged as mp
from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.draw.marks import Words
from minipaged.draw.tones import KEPT, free, soft, strong
from minipaged.lab.plots.gantt import Asked, plot_gantt, plot_places
from minipaged.lab.plots.ghost import plot_ghost
from minipaged.lab.plots.load import plot_load, plot_present
from minipaged.lab.plots.token_times import plot_token_times

# The design board's: A to E need 5, 10, 3, 6 and 4 steps, three at a time.
FIVE = {
    name: Asked(1, new) for name, new in zip("ABCDE", (5, 10, 3, 6, 4), strict=True)
}
STATIC = [dict.fromkeys("ABC", 1)] * 10 + [dict.fromkeys("DE", 1)] * 6
CONTINUOUS = (
    [dict.fromkeys("ABC", 1)] * 3
    + [dict.fromkeys(["A", "B", "D"], 1)] * 2
    + [dict.fromkeys("BDE", 1)] * 4
    + [{"B": 1}]
)
RUNS = {"Static": STATIC, "Continuous": CONTINUOUS}

BUSY = {"A": Asked(6, 4), "G": Asked(40, 3, arrival=1), "H": Asked(24, 3, arrival=2)}
CHUNKS = [
    {"A": 6},
    {"A": 1, "G": 15},
    {"A": 1, "G": 15},
    {"G": 10, "H": 6},
    {"A": 1, "G": 1, "H": 14},
    {"G": 1, "H": 4},
    {"H": 1},
    {"H": 1},
]
LONG = [{"A": 300}, *[{"A": 1, "B": 1}] * 150]
TIMES = {"whole": {"A": [1.0, 2.0, 9.0, 10.0], "B": [9.0]}, "cut": {"A": [1.0, 3.0]}}


def ghost(size=16, lengths=(8, 13)):
    """B has ended; D has its blocks, and both have a row."""
    first, second = lengths
    pool = mp.BlockPool(4, block_size=size)
    b, d = mp.BlockTable(pool), mp.BlockTable(pool)
    b.append(first)
    old = mp.BlockTable(pool, list(b.block_ids), b.num_tokens)
    b.free()
    d.append(second)
    batch = mp.RaggedBatch.build([mp.Chunk([5], old), mp.Chunk([6], d)])
    words = {"B": ["4"] * first, "D": [f"w{n}" for n in range(second)]}
    return plot_ghost(batch, {"B": old, "D": d}, words, "title")


ARRIVALS = {"one": [0.0, 0.5, 1.9], "two": [0.1, 1.1]}
RATES, LIMITS = [1, 2, 4], {"one bears 1.5": 1.5, "the other bears 3.5": 3.5}


DRAWINGS = {
    "places": lambda: plot_places(RUNS, FIVE, "title", places=3),
    "a place for each": lambda: plot_places({"one": STATIC}, FIVE, "title", places=9),
    "places that change hands often": lambda: plot_places(
        {"run": [{user: 1} for user in "ABCDEFGH" * 12]},
        {user: Asked(1, 1) for user in "ABCDEFGH"},
        "title",
        places=1,
    ),
    "gantt": lambda: plot_gantt({"": CHUNKS}, BUSY, "title", budget=16),
    "gantt of two runs": lambda: plot_gantt(
        {"wide": CHUNKS, "again": CHUNKS}, BUSY, "title", budget=9
    ),
    "gantt without a budget": lambda: plot_gantt({"run": CHUNKS}, BUSY, "title"),
    "gantt of many steps": lambda: plot_gantt(
        {"": LONG}, {"A": Asked(300, 151), "B": Asked(1, 150)}, "title", budget=300
    ),
    "a ghost": ghost,
    "a ghost at the right": lambda: ghost(16, (15, 16)),
    "a ghost in small blocks": lambda: ghost(4, (3, 5)),
    "load": lambda: plot_load(
        RATES, {"one": [1, 2, 9], "other": [1, 1, 2]}, "title", "x", "y", LIMITS, 5
    ),
    "present": lambda: plot_present(range(3), {"one": [1, 9, 47]}, "title", places=32),
    "present, and who comes": lambda: plot_present(
        range(3), {"one": [1, 9, 47], "two": [2, 2, 2]}, "title", 32, ARRIVALS
    ),
    "token times": lambda: plot_token_times(TIMES, "title"),
    "token times, and a wait": lambda: plot_token_times(
        TIMES, "title", arrivals={"A": 0.0}
    ),
}


# --- every picture can be read --------------------------------------------------------


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


# --- they show what happened ----------------------------------------------------------


def bars(figure, colour):
    """From where to where bars of this colour lead, row by row."""
    found = []
    for row in figure.scene.rows:
        starts = [*accumulate(row.widths, initial=0.0)]
        both = zip(pairwise(starts), row.tones, strict=True)
        found.append([ends for ends, tone in both if tone.face == colour])
    return found


def of(figure, user):
    found = bars(figure, palette.sequence_colour(user))
    return [ends for row in found for ends in row]


def test_idle_places_are_counted_as_on_the_board():
    said = texts(plot_places(RUNS, FIVE, "title", places=3))
    assert "16 steps, 20 of 48 places idle" in said
    assert "10 steps, 2 of 30 places idle" in said


def test_who_has_ended_and_stays_is_idle():
    """In the static batch all are in ten steps; A has ended after five of them."""
    figure = plot_places({"Static": STATIC}, FIVE, "title", places=3)
    assert [of(figure, user) for user in "ABC"] == [[(0, 5)], [(0, 10)], [(0, 3)]]
    assert of(figure, "D") == [(10, 16)]


def test_the_first_free_place_is_taken_and_a_sign_says_so():
    rows = plot_places({"run": CONTINUOUS}, FIVE, "title", places=3).scene.rows
    said = [[word for word in row.words if word] for row in rows[:3]]
    assert said == [["A", "E"], ["B"], ["C", "D"]]
    assert [row.signs for row in rows[:3]] == [
        [(5, "A out, E in")], [], [(3, "C out, D in")],
    ]  # fmt: skip


def test_a_static_batch_changes_hands_as_a_whole():
    rows = plot_places({"run": STATIC}, FIVE, "title", places=3).scene.rows
    assert [row.signs for row in rows[:3]] == [[(10, "A, B out; D, E in")], [], []]


def test_no_sign_where_nobody_follows():
    figure = plot_places({"run": STATIC}, FIVE, "title", places=9)
    alone = plot_places({"run": STATIC[:10]}, FIVE, "title", places=9)
    assert any("changes hands" in words for words in texts(figure))
    assert not any("changes hands" in words for words in texts(alone))


def test_limits_are_named():
    assert {*LIMITS} <= {*texts(DRAWINGS["load"]())}
    assert "32 places" in texts(DRAWINGS["present"]())


def test_the_run_with_the_fewest_steps_is_the_good_one():
    figure = plot_places(RUNS, FIVE, "title", places=3)
    colours = {words.text: words.color for words in figure.scene.of(Words)}
    assert colours["16 steps, 20 of 48 places idle"] == palette.BAD
    assert colours["10 steps, 2 of 30 places idle"] == palette.GOOD


def test_chunks_waits_and_pauses():
    figure = plot_gantt({"run": CHUNKS}, BUSY, "title", budget=16)
    a, g, h, *_ = figure.scene.rows
    assert a.tones.count(KEPT) == 1 and a.tones.index(KEPT) == 3  # in step 4
    assert g.words == ["", "15", "15", "10", "", ""] and g.aside == "step 6"
    assert h.words[:4] == ["", "waits", "6", "14"] and h.widths[1] == 1
    assert h.label == "H  24 + 3"
    assert "8 steps, at most 16 tokens in one" in texts(figure)
    assert {"pauses", "budget 16"} < {*texts(figure)}
    assert "pauses" not in texts(plot_gantt({"": LONG[:9]}, {"A": BUSY["A"]}, "title"))


def test_a_step_over_the_budget_is_marked():
    below = plot_gantt({"": CHUNKS}, BUSY, "title", 16)
    assert not any(bars(below, palette.BAD))
    figure = plot_gantt({"": CHUNKS}, BUSY, "title", 15)
    assert [len(row) for row in bars(figure, palette.BAD)] == [0, 0, 0, 4, 0, 0]
    assert "more than the budget" in texts(figure)
    assert "tokens of a step" not in texts(plot_gantt({"": CHUNKS}, BUSY, "title"))
    bar, tokens, step = figure.scene.rows[-3:]
    assert tokens.below == ["6", "16", "16", "16", "16", "5", "1", "1"]
    assert step.below == [*"12345678"] and bar.tones[1].face == palette.BAD


def test_the_steps_of_all_runs_are_numbered_alike():
    runs = {"short": [{"A": 1}] * 22, "long": [{"A": 1}] * 26}
    for plot in (plot_gantt, partial(plot_places, places=1)):
        rows = plot(runs, {"A": Asked(1, 26)}, "title").scene.rows
        short, long = (row.below for row in rows if row.label == "step")
        assert [*filter(None, short)] == ["1", "5", "10", "15", "20"]
        assert long[:22] == short


def test_the_longest_pause_is_found():
    figure = plot_token_times(TIMES, "title")
    said = texts(figure)
    assert "longest pause: 7 seconds" in said and "longest pause: 2 seconds" in said
    (first,), _, (second,) = bars(figure, palette.BAD)
    assert first == pytest.approx((2, 9), abs=0.1)
    assert second == pytest.approx((1, 3), abs=0.1)
    long = plot_token_times({"run": {"A": [0.0, 7000.0]}}, "title")
    assert "longest pause: 7,000 seconds" in texts(long)
    short = plot_token_times({"run": {"A": [0.0, 0.03812]}}, "title")
    assert "longest pause: 0.038 seconds" in texts(short)


def test_each_pause_that_is_as_long_is_marked():
    moments = [0.0, 1.0, 1.5, 2.5, 3.5, 4.4]
    figure = plot_token_times({"run": {"A": moments, "B": [0.0, 0.9]}}, "title")
    assert "longest pause: 1 seconds, 3 times" in texts(figure)
    assert [len(row) for row in bars(figure, palette.BAD)] == [3, 0]
    assert [moment for moment, _ in figure.scene.rows[0].signs] == moments


def test_arrivals_are_counted_between_two_moments():
    curves = DRAWINGS["present, and who comes"]().scene.curves
    counts = [[y for _, y in curve.points] for curve in curves[2:]]
    assert counts == [[2, 1, 1], [1, 1, 1]]
    assert [curve.series for curve in curves] == [0, 1, 0, 1]
    assert len(DRAWINGS["present"]().scene.curves) == 1


def test_a_wait_lasts_from_the_arrival_to_the_first_token():
    runs = {"soon": {"G": [4.0, 5.0]}, "late": {"G": [8.0, 9.0]}}
    figure = plot_token_times(runs, "title", arrivals={"G": 2.0})
    assert bars(figure, palette.theme().free) == [[(2, 4)], [(2, 8)]]
    said = texts(figure)
    assert said.count("waits") == 2 and "waits for the first token" in said
    assert "waits" not in texts(plot_token_times(runs, "title"))


def test_a_ghost_hits_what_the_new_owner_has_there():
    figure = ghost()
    row, block = figure.scene.rows
    assert row.remark == "position 7" and "is computed again" in row.above[0]
    assert block.below[7] == "K and V of D's “w7” are gone"
    assert block.cells[7].ink == palette.BAD
    (link,) = figure.scene.links
    assert link[:5] == ("B's row", 0, "block 0", 7, palette.BAD)
    assert block.words[7] == "w7" and block.tones[7].face == palette.BAD
    assert block.tones.index(strong("D")) == 12
    assert block.tones[:7] == [soft("D")] * 7 and block.tones[13:] == [free()] * 3


def test_what_is_asked_says_what_is_computed():
    """The last token of an answer is chosen, and not computed."""
    assert Asked(21, 32).to_compute == 52 and Asked(3, 1).to_compute == 3
