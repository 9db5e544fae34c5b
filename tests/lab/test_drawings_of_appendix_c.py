"""Appendix C: layouts, paging and batches are drawn as they are, readably."""

import re
from collections import Counter
from itertools import pairwise

import pytest
import torch

from helpers.drawn import boxes, rims, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.draw.marks import Box, Dots, Words
from minipaged.draw.tones import NOTHING, free, others, sign_of, soft, strong
from minipaged.lab import (
    launch_of,
    measured_batches,
    measured_tuning,
    plot_batches,
    plot_belt,
    plot_layouts,
    plot_paging_cost,
    plot_pieces,
    plot_warps,
    plot_ways,
    run_rung,
    stretches_for_k,
)
from minipaged.lab.measure.launches import Launch

DEVICES = {"H200": 0, "H200, 60 others": 1}
REPORTS = {name: measured_batches(seed=seed) for name, seed in DEVICES.items()}
PEERS = "flashinfer", "vllm_flash_attention", "vllm_triton"
CURVES = {"in order": {1: 1.01, 16: 1.0}, "shuffled": {1: 1.04, 16: 1.02}}


def report(*ratios, peers=PEERS):
    """A batch for each ratio; the peers take turns as the best."""
    batches = {
        f"batch {at}": {
            "step_over_best_peer": ratio,
            "best_peer": peers[at % len(peers)],
        }
        for at, ratio in enumerate(ratios)
    }
    share = sum(ratio <= 1 for ratio in ratios) / len(ratios)
    found = {"at_most_1.00": share, "geometric_mean": 0.875, "largest": max(ratios)}
    return {"summary": {"step": found}, "batches": batches}


def batches(*ratios, **options):
    return plot_batches({"a GPU": report(*ratios, **options)}, "title")


def paging(**options):
    return plot_paging_cost({"a": CURVES, "b": CURVES}, "title", **options)


def belts(*megabytes, latency=1.0):
    return plot_belt(4600, latency, megabytes, "title")


def way(running, kib, on=132, **facts):
    """A launch with so many programs on each multiprocessor, or on so many of 132."""
    programs = running * on
    given = {"waves": [programs], "fit": running + 2, "places": 132 * (running + 2)}
    given |= {"under_way": programs * kib * 1024 / 1e6, "us": 39.47, "percent": 74.06}
    given |= {"rooms": {}, "takes": {}, "least": 4.6, "spilled": 0, "best": 75.3}
    return Launch(**given | facts)


def ways():
    few = way(1, 128, on=128, us=39.91, percent=73.24)
    return plot_ways({"four": way(4, 32), "two": way(2, 64), "one": few}, "title")


PIECES = {"light first": [[1, 3], [2, 4]], "heavy first": [[4, 1], [3, 2]]}
OTHERS = 1.2, 1.26, "somebody else's"
DRAWINGS = {
    "layouts": lambda: plot_layouts("title"),
    "layouts, one block size": lambda: plot_layouts("title", [8]),
    "layouts, large blocks": lambda: plot_layouts("title", [32, 128]),
    "belts": lambda: belts(2.3, 4.6, 9.2),
    "belts, no queue": lambda: belts(2.3, 4.6),
    "a belt, a long queue": lambda: belts(30.0),
    "belts, a long latency": lambda: belts(0.5, 20.0, latency=2.5),
    "batches": lambda: plot_batches(REPORTS, "title"),
    "one batch": lambda: batches(0.7),
    "batches, half of them slower": lambda: batches(0.8, 0.95, 1.1, 1.25),
    "batches, all alike": lambda: batches(*[0.99] * 5),
    "paging, a narrow band": lambda: paging(doubt={"a": 1.01, "b": 0.9997}),
    "ways": lambda: ways(),
    "ways, one": lambda: plot_ways({"a": way(1, 32)}, "title"),
    "ways, small programs": lambda: plot_ways({"a": way(16, 4), "b": way(2, 96)}, "t"),
    "ways, a long name": lambda: plot_ways({"a name " * 9: way(2, 64)}, "title"),
    "paging, others above": lambda: paging(band=OTHERS, doubt={"a": 1.01, "b": 0.99}),
    "warps, one rung": lambda: plot_warps({"rung 1": run_rung(1, 3)}, "title"),
    "warps": lambda: plot_warps({str(n): run_rung(n) for n in (2, 3)}, "title"),
    "pieces": lambda: plot_pieces(PIECES, "title"),
    "pieces, even": lambda: plot_pieces({"one": [[2, 2], [4]]}, "title"),
}

test_it_can_be_read = readable_in_all_themes(DRAWINGS)


# --- stretches of K -------------------------------------------------------------------


def stretches_by_force(block_size, is_turned):
    """All places of numbers of a tile that lies in every third block."""
    tile, dim, stretch = 64, 128, 32
    slots = [
        3 * stretch * block_size * block + offset
        for block in range(-(-tile // block_size))
        for offset in range(block_size)
    ][:tile]
    heads, num_slots = 3, slots[-1] + block_size + (-slots[-1] - block_size) % stretch
    shape = (heads, dim, num_slots) if is_turned else (num_slots, heads, dim)
    places = torch.arange(heads * dim * num_slots).view(shape)
    if is_turned:
        places = places.movedim(2, 0)
    return (places[slots, 1] // stretch).unique().numel()


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("block_size", [1, 2, 16, 32, 64, 128])
def test_stretches_of_k_are_counted(block_size, is_turned):
    expected = stretches_by_force(block_size, is_turned)
    assert stretches_for_k(block_size, is_turned) == expected


def test_a_tile_of_64_brings_up_to_32_times_as_many_stretches():
    found = {n: [stretches_for_k(n, t) for t in (False, True)] for n in (16, 1)}
    assert found == {16: [256, 512], 1: [256, 8192]}


def test_runs_that_begin_within_a_stretch_are_not_counted():
    with pytest.raises(ValueError, match=r"runs of 24 .* choose powers of two"):
        stretches_for_k(24, True)


# --- belts ----------------------------------------------------------------------------


def lying(figure):
    """By row: the places on the belt that are covered, and how many parts wait."""
    boxes = figure.scene.of(Box)
    parts = [box for box in boxes if box.width == box.height]
    rows = {}
    for box in parts:
        rows.setdefault(round(box.y / 20), [[], []])[box.face != strong(0).face].append(
            box.x
        )
    return [[*map(sorted, rows[y])] for y in sorted(rows)]


def test_a_belt_is_covered_as_far_as_what_is_under_way_reaches():
    few, enough, more = lying(belts(2.3, 4.6, 9.2))
    assert [len(row) for row in (*few, *enough, *more)] == [8, 0, 16, 0, 16, 16]
    (step,) = {round(b - a, 6) for a, b in pairwise(enough[0])}
    # Even gaps; the one that arrives now is at the same place in all rows.
    assert {round(b - a, 6) for a, b in pairwise(few[0])} == {round(2 * step, 6)}
    assert few[0][-1] == enough[0][-1] == more[0][-1]
    assert max(more[1]) < min(more[0])  # before the belt


@pytest.mark.parametrize("latency", [0.5, 1.0, 2.0])
def test_a_rate_is_what_is_under_way_over_the_time_that_it_takes(latency):
    full = 4.6 * latency
    said = texts(belts(full / 4, full / 2, full, 2 * full, latency=latency))
    rates = [words for words in said if words in ("1,150", "2,300", "4,600")]
    assert rates == ["1,150", "2,300", "4,600", "4,600"]
    sums = [words for words in said if words.startswith("= ")]
    times = [latency, latency, latency, 2 * latency]
    parts = [full / 4, full / 2, full, 2 * full]
    assert sums == [
        f"= {mb:.1f} MB / {us:g} µs" for mb, us in zip(parts, times, strict=True)
    ]
    assert "25 % of the belt is covered" in said and "GB/s" in said
    assert "the belt is covered: this is the ceiling" in said
    assert f"memory gives no more: {full:.1f} MB wait" in said


def test_a_queue_is_explained_only_where_there_is_one():
    assert "asked for, waits" in texts(belts(9.2))
    assert "asked for, waits" not in texts(belts(2.3, 4.6))
    assert "0.29 MB on the way" in texts(belts(2.3))


# --- layouts --------------------------------------------------------------------------


def test_layouts_count_what_comes_for_a_tile_and_why():
    said = texts(plot_layouts("title"))
    for words, times in {
        "a tile of 64 in blocks of 16:": 2,
        "64 slots × 4 stretches = 256; all 32 numbers used": 2,
        "4 blocks × 128 stretches = 512; 16 of 32 numbers used": 1,
        "a tile of 64 in blocks of 1:": 2,
        "64 blocks × 128 stretches = 8,192; 1 of 32 numbers used": 1,
        "one stretch, 64 bytes:": 2,
        "all 32 numbers used": 1,
        "(side by side lie a head's 128 numbers of a slot)": 1,
        "16 of 32 numbers used": 1,
        "(side by side lie a number each of 16 slots)": 1,
        "first slot": 1,
        "fifth numbers": 1,
        "K of a head, of a block of 16": 1,
    }.items():
        assert said.count(words) == times, words
    for block_size in (8, 64):
        said = texts(plot_layouts("title", [block_size]))
        for is_turned in (False, True):
            total = stretches_for_k(block_size, is_turned)
            assert any(f" = {total:,}; " in words for words in said)


def test_verdicts_are_good_where_all_of_a_stretch_is_used():
    verdicts = [
        words
        for words in plot_layouts("title").scene.of(Words)
        if "numbers used" in words.text
    ]
    for words in verdicts:
        is_good = "all 32" in words.text
        assert words.color == (palette.GOOD if is_good else palette.BAD)
    assert len(verdicts) == 6
    assert palette.BAD not in {w.color for w in plot_layouts("t", [32]).scene.of(Words)}


@pytest.mark.parametrize("block_size", [1, 2, 8, 16, 32])
def test_a_stretch_has_so_many_numbers_of_which_the_first_are_used(block_size):
    """Between runs lies what is not asked for."""
    figure, stretch = plot_layouts("title", [block_size]), 32
    whole, turned = (row.tones for row in figure.scene.rows)
    assert {*whole} <= {strong(0), free(), NOTHING} and strong(0) in whole
    needed = min(block_size, stretch)
    one = [strong(0)] * needed + [soft(0)] * (stretch - needed)
    assert turned == [*one, free()] * 5
    said = "of other slots: comes in vain"
    assert (said in texts(figure)) == (needed < stretch)


def test_stretches_of_both_strips_are_equally_wide_and_apart():
    """Of a slot, four can be counted."""
    figure = plot_layouts("title")
    first, second = rims(figure, 2.0)
    assert first.width == second.width
    places = [
        box.x
        for box in boxes(figure, strong(0).face)
        if first.y < box.y < second.y and box.x < 3.5 * first.width
    ]
    steps = Counter(round(after - before, 3) for before, after in pairwise(places))
    assert steps[max(steps)] == 3 and len(steps) == 2


def test_a_strip_that_goes_on_within_a_run_says_so():
    row, turned = plot_layouts("title").scene.rows
    ends = [(n, tone) for n, tone in enumerate(row.tones) if tone != strong(0)]
    gaps = [(33 * n - 1, NOTHING) for n in (1, 2, 3)]  # between stretches
    assert ends == [*gaps, (4 * 33 - 1, free()), (5 * 33 - 1, NOTHING)]
    assert [row.words[n] for n, _ in ends] == ["", "", "", "…", "…"]
    assert turned.words.count("…") == 5


# --- what paging costs ----------------------------------------------------------------


def test_what_others_found_is_named_above_and_leaves_the_axis_as_it_is():
    alone, beside = paging(), paging(band=OTHERS)
    assert "↑ 1.20 to 1.26 above: somebody else's" in texts(beside)
    heights = [
        [y for dots in figure.scene.of(Dots) for _, y in dots.places]
        for figure in (alone, beside)
    ]
    spans = [max(found) - min(found) for found in heights]
    assert spans[0] == pytest.approx(spans[1])


def test_a_band_is_as_wide_as_a_second_measurement_was_off_and_the_legend_says_it():
    figure = paging(doubt={"a": 1.001, "b": 0.9997})
    said = "as far as it differed when measured again: ±0.10 and 0.03 %"
    assert said in texts(figure)
    wide, narrow, _ = boxes(figure, others().face)  # and the legend
    assert wide.height / narrow.height == pytest.approx(10 / 3, rel=0.01)
    assert not any("again" in words for words in texts(paging()))


def test_others_that_are_not_above_are_refused():
    with pytest.raises(ValueError, match=re.escape("1.03 is not above 1.04")):
        paging(band=(1.03, 1.1, "somebody else's"))


# --- many small programs or few large ones --------------------------------------------


def test_programs_of_a_multiprocessor_lie_side_by_side_as_wide_as_their_bytes():
    four, two, one = ways().scene.rows
    assert four.words == ["32 KiB"] * 4 and four.widths == pytest.approx([32] * 4)
    assert two.words == ["64 KiB"] * 2 and two.widths == pytest.approx([64] * 2)
    assert one.words == ["128 KiB"] and one.widths == pytest.approx([128])
    assert {"0", "32", "64", "96", "128"} <= set(texts(ways()))
    assert "the aim" in texts(plot_ways({"a": way(1, 32)}, "title", mark="the aim"))


def test_a_way_says_how_many_programs_it_has_how_long_it_takes_and_how_fast_it_is():
    rows = [(row.label, row.remark, *row.values) for row in ways().scene.rows]
    assert rows[0] == ("four", "528 programs, 4 on each", "39.5 µs", "74 %")
    assert rows[2] == ("one", "128 programs, at most 1 on each", "39.9 µs", "73 %")


def test_ways_that_were_measured_have_as_much_under_way():
    tuning, found = measured_tuning("nvidia-h200"), {}
    for splits, tile, num_warps in ((8, 32, 1), (4, 64, 2), (2, 128, 4)):
        sizes = {"tile": tile, "num_warps": num_warps, "num_stages": 5}
        found[f"{splits} splits"] = launch_of(
            tuning, "8x4k", **sizes, num_splits=splits
        )
    rows = plot_ways(found, "title").scene.rows
    kib = zip((4, 2, 1), (32, 64, 128), strict=True)
    assert [row.words for row in rows] == [[f"{each} KiB"] * n for n, each in kib]


# --- batches --------------------------------------------------------------------------


def test_a_dot_for_each_batch_with_the_sign_of_its_best_peer():
    (row,) = batches(0.7, 0.9, 0.98, 1.05).scene.rows
    square, triangle, diamond = (sign_of(at).marker for at in (1, 2, 3))
    assert row.signs == [
        (0.7, square), (0.9, triangle), (0.98, diamond), (1.05, square),
    ]  # fmt: skip


def test_it_says_that_the_axis_is_logarithmic_and_where_both_are_equal():
    said = texts(batches(0.5, 1.0, 0.25))
    assert any("logarithmic" in words for words in said) and "equal" in said


def test_only_the_best_peers_are_named():
    said = texts(batches(0.9, 0.8, peers=PEERS[1:2]))
    assert "FlashAttention-3" in said
    assert "FlashInfer" not in said and "vLLM's Triton" not in said


def test_the_share_is_the_reports():
    said = texts(batches(0.9, 0.8, 0.7, 1.1))
    assert "75 %: 3 of 4 equal or less" in said
    assert "in the mean 0.88, at most 1.10" in said
    found = report(0.9, 1.0)
    found["summary"]["step"]["at_most_1.00"] = 0.5  # counted before it was rounded
    assert "50 %: 1 of 2 equal or less" in texts(plot_batches({"a": found}, "title"))


def test_all_stored_batches_are_drawn():
    rows = plot_batches(REPORTS, "title").scene.rows
    for row, found in zip(rows, REPORTS.values(), strict=True):
        ratios = [one["step_over_best_peer"] for one in found["batches"].values()]
        assert [ratio for ratio, _ in row.signs] == ratios


# --- warps, and pieces of work --------------------------------------------------------


def test_each_lane_has_what_was_done_in_it():
    run = run_rung(2, 3)
    rows = {row.label: row for row in plot_warps({"rung 2": run}, "title").scene.rows}
    assert [*rows] == ["copies", "matrix unit", "consumer 0", "consumer 1"]
    words = {name: [word for word in row.words if word] for name, row in rows.items()}
    assert words["copies"] == ["K0", "V0", "K1", "V1", "K2", "V2"]
    products = [span for span in run.spans if span.kind == "product"]
    made = sorted((span.start, span.what) for span in products)
    assert words["matrix unit"] == [what for _, what in made]
    assert words["consumer 1"] == [f"weighs {tile}" for tile in range(3)]


def test_pieces_lie_on_their_multiprocessors_until_all_have_ended():
    figure = plot_pieces(PIECES, "title")
    words = [row.words for row in figure.scene.rows]
    assert words == [["1", "3", ""], ["2", "4"], ["4", "1"], ["3", "2"]]
    said = texts(figure)
    assert "6 tiles until the end, 17% idle" in said
    assert "5 tiles until the end, 0% idle" in said
