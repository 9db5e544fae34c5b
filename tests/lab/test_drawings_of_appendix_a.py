"""Appendix A's drawings: who has which place, who computes when."""

from statistics import median

import pytest
from matplotlib.colors import to_hex

import minipaged as mp
from helpers.drawn import arrows, boxes, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.lab.measure.measured import measured_engine
from minipaged.lab.plots import speeds
from minipaged.lab.plots.gantt import Asked, plot_gantt, plot_places
from minipaged.lab.plots.ghost import plot_ghost
from minipaged.lab.plots.load import plot_load, plot_present
from minipaged.lab.plots.speeds import plot_engine_speeds
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


def host(**speeds_of_rounds):
    """A run of the engine's benchmark: by rung, tokens a second of each round."""
    machine = {"device": "NVIDIA H200", "torch": "2.11.0", "date": "2026-11-22"}
    rows = {
        rung: {
            "tokens_per_s": median(rounds),
            "rounds": [{"tokens_per_s": speed} for speed in rounds],
            "requests": 64,
        }
        for rung, rounds in speeds_of_rounds.items()
    }
    return {"machine": machine, **rows}


HOSTS = [
    host(eager=[50], generate=[20]),
    host(compiled=[300, 500, 400], without_merging=[100]),
]
DRAWINGS = {
    "speeds": lambda: plot_engine_speeds(HOSTS, "title"),
    "speeds that were measured": lambda: plot_engine_speeds(
        measured_engine()["hosts"], "title"
    ),
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
    "token times, in ms": lambda: plot_token_times(TIMES, "title", "ms", factor=1000),
}


# --- every picture can be read --------------------------------------------------------


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


# --- they show what happened ----------------------------------------------------------


def of(figure, user):
    """The widths of a user's strong boxes, in pixels."""
    return [box.get_width() for box in boxes(figure, palette.sequence_colour(user))]


def test_idle_places_are_counted_as_on_the_board():
    said = texts(plot_places(RUNS, FIVE, "title", places=3))
    assert "16 steps, 20 of 48 places idle" in said
    assert "10 steps, 2 of 30 places idle" in said


def test_who_has_ended_and_stays_is_idle():
    """In the static batch all are in ten steps; A has ended after five of them."""
    figure = plot_places({"Static": STATIC}, FIVE, "title", places=3)
    (a,), (b,), (c,) = (of(figure, user) for user in "ABC")
    assert (a / b, c / b) == pytest.approx((0.5, 0.3))


def test_the_first_free_place_is_taken():
    figure = plot_places({"run": CONTINUOUS}, FIVE, "title", places=3)
    places = {
        user: boxes(figure, palette.sequence_colour(user))[0].get_y() for user in "ACDE"
    }
    assert places["D"] == places["C"] and places["E"] == places["A"]


def signs(figure):
    """The triangles from left to right, without the lowest: it explains the others."""
    lines = [line for line in figure.axes[0].lines if line.get_marker() == "v"]
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines]
    return sorted(sorted(points, key=lambda point: point[1])[:-1])


def test_a_sign_where_one_retires_and_another_is_admitted():
    figure = plot_places({"run": CONTINUOUS}, FIVE, "title", places=3)
    said, points = texts(figure), signs(figure)
    assert "C out, D in" in said and "A out, E in" in said
    for (x, y), user in zip(points, "DE", strict=True):
        (box,) = boxes(figure, palette.sequence_colour(user))
        assert x == pytest.approx(box.get_x()) and 0 < box.get_y() - y < 20


def test_a_static_batch_changes_hands_as_a_whole():
    figure = plot_places({"run": STATIC}, FIVE, "title", places=3)
    assert "A, B out; D, E in" in texts(figure) and len(signs(figure)) == 1


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
    colours = {t.get_text(): t.get_color() for t in figure.axes[0].texts}
    assert colours["16 steps, 20 of 48 places idle"] == palette.BAD
    assert colours["10 steps, 2 of 30 places idle"] == palette.GOOD


def test_chunks_waits_and_pauses():
    figure = plot_gantt({"run": CHUNKS}, BUSY, "title", budget=16)
    said = texts(figure)
    assert said.count("15") == 2 and "14" in said  # chunks of G and H
    assert {"step 5", "step 6", "step 8", "budget 16", "40 + 3"} <= {*said}
    assert "8 steps, at most 16 tokens in one" in said
    assert len(of(figure, "G")) == 3 and len(of(figure, "H")) == 3
    hatched = [p for p in figure.axes[0].patches if p.get_hatch()]
    pauses = [p for p in hatched if p.get_width() > 14 and p.get_height() > 20]
    assert len(pauses) == 2  # A in step 4, in two halves
    assert "pauses" in said and "more than the budget" not in said
    assert "pauses" not in texts(plot_gantt({"": LONG[:9]}, {"A": BUSY["A"]}, "title"))


def test_a_step_over_the_budget_is_marked():
    assert not boxes(plot_gantt({"": CHUNKS}, BUSY, "title", 16), palette.BAD)
    figure = plot_gantt({"": CHUNKS}, BUSY, "title", 15)
    assert len(boxes(figure, palette.BAD)) == 4 + 1  # and one in the legend
    assert "more than the budget" in texts(figure)
    assert not boxes(plot_gantt({"": CHUNKS}, BUSY, "title"), palette.BAD)


def test_the_longest_pause_is_found():
    figure = plot_token_times(TIMES, "title")
    said = texts(figure)
    assert "longest pause: 7 seconds" in said and "longest pause: 2 seconds" in said
    first, second = [b for b in boxes(figure, palette.BAD) if b.get_width() > 20]
    assert first.get_width() > 3 * second.get_width()
    assert "longest pause: 7,000 ms" in texts(DRAWINGS["token times, in ms"]())
    short = plot_token_times({"run": {"A": [0.0, 0.03812]}}, "title")
    assert "longest pause: 0.038 seconds" in texts(short)


def test_each_pause_that_is_as_long_is_marked():
    moments = [0.0, 1.0, 1.5, 2.5, 3.5, 4.4]
    figure = plot_token_times({"run": {"A": moments, "B": [0.0, 0.9]}}, "title")
    assert "longest pause: 1 seconds, 3 times" in texts(figure)
    assert len([b for b in boxes(figure, palette.BAD) if b.get_width() > 20]) == 3


def test_arrivals_are_counted_between_two_moments():
    curves = DRAWINGS["present, and who comes"]().scene.curves
    counts = [[y for _, y in curve.points] for curve in curves[2:]]
    assert counts == [[2, 1, 1], [1, 1, 1]]
    assert [curve.series for curve in curves] == [0, 1, 0, 1]
    assert len(DRAWINGS["present"]().scene.curves) == 1


def test_what_is_decoded_has_the_rim_of_its_sign():
    """On dark pages its soft face alone is hardly seen."""
    figure = plot_gantt({"": CHUNKS[:5]}, {"A": BUSY["A"]}, "title")
    rims = [
        p
        for p in figure.axes[0].patches
        if not p.get_fill() and to_hex(p.get_edgecolor()).upper() == "#0072B2"
    ]
    assert len(rims) == 3 + 1  # three tokens, and the legend's sign


def test_a_wait_lasts_from_the_arrival_to_the_first_token():
    runs = {"soon": {"G": [4.0, 5.0]}, "late": {"G": [8.0, 9.0]}}
    figure = plot_token_times(runs, "title", arrivals={"G": 2.0})
    waits = boxes(figure, palette.theme().free)
    soon, late = [box.get_width() for box in waits if box.get_width() > 20]
    assert (late + 3) / (soon + 3) == pytest.approx((8 - 2) / (4 - 2))
    said = texts(figure)
    assert said.count("waits") == 2 and "waits for the first token" in said
    assert "waits" not in texts(plot_token_times(runs, "title"))


def test_what_was_there_before_looks_as_in_the_legend():
    """Words stand in it, so it is a rim without a face: in both places."""
    figure, soft = ghost(), palette.soft_colour("D")
    assert "there before" in texts(figure) and not boxes(figure, soft)


def test_a_ghost_hits_what_the_new_owner_has_there():
    figure = ghost()
    said = texts(figure)
    assert "K and V of D's “w7” are gone" in said and "position 7" in said
    (lost,) = [b for b in boxes(figure, palette.BAD) if b.get_height() > 20]
    (token,) = [
        b for b in boxes(figure, palette.sequence_colour("B")) if b.get_height() > 20
    ]
    assert lost.get_x() == pytest.approx(token.get_x())
    assert lost.get_y() > token.get_y() and len(arrows(figure)) == 1
    (new,) = [
        b for b in boxes(figure, palette.sequence_colour("D")) if b.get_height() > 20
    ]
    assert new.get_x() - lost.get_x() == pytest.approx(5 * (new.get_width() + 1))


def test_tokens_of_a_step_are_drawn_beside_a_budget():
    said = texts(plot_gantt({"run": CHUNKS}, BUSY, "title"))
    assert "8 steps" in said and not {"tokens", "tokens of a step"} & {*said}
    assert {"tokens", "tokens of a step"} <= {*texts(DRAWINGS["gantt"]())}


def test_what_is_asked_says_what_is_computed():
    """The last token of an answer is chosen, and not computed."""
    assert Asked(21, 32).to_compute == 52 and Asked(3, 1).to_compute == 3


# --- tokens a second, host by host ----------------------------------------------------


def bars(figure):
    """The widths of the bars, in pixels, from above."""
    blue, grey = palette.sequence_colour(0), palette.theme().others
    tones = blue, palette.soft_colour(0), grey
    found = [box for colour in tones for box in boxes(figure, colour)]
    found = [box for box in found if box.get_height() == speeds.HEIGHT]
    return [box.get_width() for box in sorted(found, key=lambda box: box.get_y())]


def check_speeds(figure):
    """Of HOSTS: factors within a host, bars that end at medians, on one scale."""
    said = texts(figure)
    assert [word for word in said if word.startswith("×")] == ["× 2.50", "× 0.25"]
    assert [word for word in said if "Host" in word] == ["Host 1", "Host 2"]
    longest = max(bars(figure))
    assert [width / longest for width in bars(figure)] == pytest.approx(
        [20 / 400, 50 / 400, 1, 100 / 400]  # one scale for all; medians
    )


def test_speeds_are_compared_on_the_same_host_only():
    check_speeds(DRAWINGS["speeds"]())


def test_a_factor_between_hosts_is_noticed(monkeypatch):
    right, first = speeds._draw_row, HOSTS[0]["generate"]
    monkeypatch.setattr(speeds, "_draw_row", lambda *given: right(*given[:-1], first))
    with pytest.raises(AssertionError, match="×"):
        check_speeds(DRAWINGS["speeds"]())


def test_a_bar_that_ends_elsewhere_is_noticed():
    best = HOSTS[1] | {"compiled": HOSTS[1]["compiled"] | {"tokens_per_s": 500}}
    with pytest.raises(AssertionError):
        check_speeds(plot_engine_speeds([HOSTS[0], best], "title"))


def test_each_round_has_a_sign_where_it_lies():
    lines = DRAWINGS["speeds"]().axes[0].lines
    signs = [line for line in lines if line.get_marker() == "^"]
    _key, *signs = sorted(signs, key=lambda line: line.get_ydata()[0])
    places = sorted(line.get_xdata()[0] for line in signs)
    assert len(places) == 3  # of what ran once, the bar says it
    longest = max(bars(DRAWINGS["speeds"]()))  # the median, 400
    assert places[2] - places[1] == pytest.approx(longest / 4)
    assert places[1] - places[0] == pytest.approx(longest / 4)
