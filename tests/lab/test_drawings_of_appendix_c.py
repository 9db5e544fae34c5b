"""Appendix C: layouts, paging and batches are drawn as they are, readably."""

import re
from collections import Counter
from itertools import pairwise

import pytest
import torch
from matplotlib.colors import to_hex

from helpers.drawn import arrows, boxes, places_of, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw import palette
from minipaged.draw.tones import NOTHING, sign_of, strong
from minipaged.lab import (
    launch_of,
    measured_batches,
    measured_tuning,
    plot_batches,
    plot_belt,
    plot_layouts,
    plot_paging_cost,
    plot_ways,
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


OTHERS = 1.2, 1.26, "somebody else's"
DRAWINGS = {
    "layouts": lambda: plot_layouts("title"),
    "layouts, one block size": lambda: plot_layouts("title", [8]),
    "layouts, large blocks": lambda: plot_layouts("title", [32, 128], tile=32),
    "layouts, short heads": lambda: plot_layouts("title", dim=32),
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
}

test_it_can_be_read = readable_in_all_themes(DRAWINGS)


# --- stretches of K -------------------------------------------------------------------


def stretches_by_force(block_size, is_turned, tile, dim, stretch):
    """All places of numbers of a tile that lies in every third block."""
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
@pytest.mark.parametrize("sizes", [(64, 128, 32), (32, 64, 32), (64, 128, 16)])
def test_stretches_of_k_are_counted(block_size, is_turned, sizes):
    expected = stretches_by_force(block_size, is_turned, *sizes)
    assert stretches_for_k(block_size, is_turned, *sizes) == expected


def test_a_tile_of_64_brings_up_to_32_times_as_many_stretches():
    found = {n: [stretches_for_k(n, t) for t in (False, True)] for n in (16, 1)}
    assert found == {16: [256, 512], 1: [256, 8192]}


def test_runs_that_begin_within_a_stretch_are_not_counted():
    with pytest.raises(ValueError, match="choose powers of two"):
        stretches_for_k(24, True, tile=48)
    with pytest.raises(ValueError, match="runs of 80 numbers"):
        stretches_for_k(16, False, dim=80)


# --- belts ----------------------------------------------------------------------------


def lying(figure):
    """By row: how many wait, how many places the belt has, and which are covered."""
    blue, found = strong(0), []
    for row in figure.scene.rows:
        waiting = sum(tone not in (NOTHING, blue) for tone in row.tones)
        belt = row.tones[-16:]
        found.append((waiting, [n for n, tone in enumerate(belt) if tone == blue]))
    return found


def test_a_belt_is_covered_as_far_as_what_is_under_way_reaches():
    few, enough, more = lying(belts(2.3, 4.6, 9.2))
    assert few == (0, [*range(1, 16, 2)])  # even gaps up to the one that arrives now
    assert enough == (0, [*range(16)])
    assert more == (16, [*range(16)])


@pytest.mark.parametrize("latency", [0.5, 1.0, 2.0])
def test_a_rate_is_what_is_under_way_over_the_time_that_it_takes(latency):
    full = 4.6 * latency
    said = texts(belts(full / 4, full / 2, full, 2 * full, latency=latency))
    rates, times = ("1,150", "2,300", "4,600", "4,600"), (1, 1, 1, 2)
    for part, rate, time in zip((0.25, 0.5, 1, 2), rates, times, strict=True):
        us = f"{time * latency:g} µs"
        assert f"{rate} GB/s at most = {part * full:.1f} MB / {us}" in said
        assert f"{us} from asking to use" in said
    assert "25 % of the belt is covered" in said
    assert "the belt is covered: this is the ceiling" in said
    assert f"memory gives no more: {full:.1f} MB wait" in said


def test_a_queue_is_explained_only_where_there_is_one():
    assert "asked for, waits" in texts(belts(9.2))
    assert "asked for, waits" not in texts(belts(2.3, 4.6))
    assert "0.29 MB on the way" in texts(belts(2.3))


# --- layouts --------------------------------------------------------------------------


def test_layouts_count_what_comes_for_a_tile_and_why():
    said = Counter(texts(plot_layouts("title")))
    for words, times in {
        "a tile of 64 in blocks of 16:": 2,
        "a tile of 64 in blocks of 1:": 2,
        "64 slots × 4 stretches = 256; all 32 numbers used": 2,
        "4 blocks × 128 stretches = 512; 16 of 32 numbers used": 1,
        "64 blocks × 128 stretches = 8,192; 1 of 32 numbers used": 1,
        "one stretch, 64 bytes:": 2,
        "all 32 numbers used": 1,  # of the stretch that is measured
        "16 of 32 numbers used": 1,
        "first slot:": 1,
        "second slot:": 1,
        "a head's 128 numbers": 2,
        "first numbers": 1,
        "fifth numbers": 1,
        "of 16 slots": 5,
        "K of a head, of a block of 16": 1,
    }.items():
        assert said[words] == times, words
    for options in ({"dim": 32}, {"stretch": 16}, {"block_sizes": [64]}):
        said = texts(plot_layouts("title", **options))
        sizes = {"block_sizes": [16], "tile": 64, "dim": 128, "stretch": 32} | options
        block_size = sizes.pop("block_sizes")[0]
        for is_turned in (False, True):
            total = stretches_for_k(block_size, is_turned, **sizes)
            assert any(f" = {total:,}; " in words for words in said)
        assert f"one stretch, {2 * sizes['stretch']} bytes:" in said
    assert "64 slots × 1 stretch = 64; all 32 numbers used" in texts(
        plot_layouts("title", dim=32)
    )


def test_verdicts_are_good_where_all_of_a_stretch_is_used():
    figure = plot_layouts("title")
    colours = {
        text.get_text(): to_hex(text.get_color()).upper()
        for text in figure.axes[0].texts
    }
    for words, colour in colours.items():
        if words.endswith("32 numbers used"):
            assert colour == (palette.GOOD if "all 32" in words else palette.BAD)
    assert {palette.GOOD, palette.BAD} <= set(colours.values())


def strips(figure):
    """From above: what is used of memory, comes in vain, and is not asked for."""
    kinds = palette.sequence_colour(0), palette.soft_colour(0), palette.theme().free
    tops = {}
    for at, colour in enumerate(kinds):
        for box in boxes(figure, colour):
            if box.get_height() > 20:  # not the legend's
                found = tops.setdefault(box.get_y(), ([], [], []))
                found[at].append((box.get_x(), box.get_x() + box.get_width()))
    return [tuple(map(sorted, found)) for _, found in sorted(tops.items())]


def first_stretch(figure):
    """From above: the left and the right edge of what is framed."""
    frames = [box for box in figure.axes[0].patches if box.get_linewidth() == 1.6]
    return [(box.get_x(), box.get_x() + box.get_width(), box.get_y()) for box in frames]


@pytest.mark.parametrize("block_size", [1, 2, 8, 16])
@pytest.mark.parametrize("stretch", [16, 32])
def test_a_stretch_has_so_many_numbers_of_which_the_first_are_used(block_size, stretch):
    figure = plot_layouts("title", [block_size], stretch=stretch)
    (lying, none, _), (used, vain, _) = strips(figure)
    framed = first_stretch(figure)
    assert len(framed) == 2 and not none and len(lying) % stretch == 0
    needed = min(block_size, stretch)
    inner = [
        [
            [edges for edges in found if left <= edges[0] and edges[1] <= right]
            for found in row
        ]
        for row, (left, right, _) in zip(
            ((lying, none), (used, vain)), framed, strict=True
        )
    ]
    assert [len(found) for row in inner for found in row] == [
        stretch,
        0,
        needed,
        stretch - needed,
    ]
    assert not vain or max(inner[1][0]) < min(inner[1][1])
    assert len(used) == 5 * needed and len(vain) == 5 * (stretch - needed)


def test_between_runs_lies_what_is_not_asked_for():
    """A slot of 128 numbers is four stretches side by side; turned round it is one."""
    for (used, vain, gaps), each in zip(
        strips(plot_layouts("title")), (4, 1), strict=True
    ):
        start, end = gaps[0]
        inner = [edges for edges in (*used, *vain) if edges[1] <= start + 1]
        assert len(inner) == 32 * each
        assert min(a for a, _ in (*used, *vain) if a > start) == pytest.approx(end)
    alone = strips(plot_layouts("title", [1]))[0]  # the only slot of its block
    assert len(alone[0]) == 4 * 32 and len(alone[2]) == 1


def test_a_strip_that_goes_on_within_a_run_says_so():
    figure = plot_layouts("title")
    dots = sorted(places_of(figure, "…"), key=lambda place: place[::-1])
    gaps = [edges for _, _, found in strips(figure) for edges in found]
    inside = [any(a < x < b for a, b in gaps) for x, _ in dots]
    assert [len(dots), sum(inside)] == [1 + 1 + 5, 1 + 5]
    assert dots[1][0] > max(b for _, b in strips(figure)[0][0])


@pytest.mark.parametrize("stretch", [16, 32])
def test_one_stretch_is_measured_above_its_frame(stretch):
    figure = plot_layouts("title", stretch=stretch)
    levels = [
        line
        for line in figure.axes[0].lines
        if line.get_ydata()[0] == line.get_ydata()[1]
    ]
    places = sorted(places_of(figure, f"one stretch, {2 * stretch} bytes:"))
    for line, (left, right, top), (_, y) in zip(
        levels, first_stretch(figure), sorted(places, key=lambda at: at[1]), strict=True
    ):
        level = line.get_ydata()[0]
        assert sorted(line.get_xdata()) == pytest.approx([left, right], abs=2)
        assert y < level < top < y + 30
        ends = [
            one.get_xdata()[0]
            for one in figure.axes[0].lines
            if min(one.get_ydata()) < level < max(one.get_ydata())
        ]
        assert sorted(ends) == sorted(line.get_xdata())


def test_what_comes_in_vain_is_explained_where_something_does():
    for options, words in (
        ({}, ["of other slots: comes in vain"]),
        ({"block_sizes": [32], "dim": 16}, ["of other heads: comes in vain"]),
        ({"dim": 16}, ["of other heads and slots: comes in vain"]),
        ({"block_sizes": [32]}, []),
    ):
        said = texts(plot_layouts("title", **options))
        assert [one for one in said if "in vain" in one] == words


def test_captions_say_what_is_needed_of_a_run():
    """Each stands below its run: which one it is, and below that of how many."""
    figure = plot_layouts("title", [8, 1], dim=64)
    said = Counter(texts(figure))
    slots = sum(words.endswith(" slot:") for words in said)
    assert said["a head's 64 numbers"] == slots > 1
    assert said["of 8 slots"] == 5
    for above, below in (
        ("first slot:", "a head's 64 numbers"),
        ("first numbers", "of 8 slots"),
    ):
        (x, y), (at, under) = places_of(figure, above)[0], places_of(figure, below)[0]
        assert x == at == 0 and 10 < under - y < 20
    alone = texts(plot_layouts("title", [1]))
    assert alone.count("of 1 slot") == 5 and "first number" in alone


# --- what paging costs ----------------------------------------------------------------


def heights(figure, marker):
    """Of the markers of a series, from left to right, without the legend's."""
    lines = [line for line in figure.axes[0].lines if line.get_marker() == marker]
    return [y for line in lines[1:] for y in line.get_ydata()]


def test_what_others_found_is_named_above_and_leaves_the_axis_as_it_is():
    alone, beside = paging(), paging(band=OTHERS)
    assert {"1.20 to 1.26", "above: somebody else's"} <= set(texts(beside))
    assert "1.20 to 1.26" not in texts(alone)
    (arrow,) = arrows(beside)
    (_, start), *_, (_, end) = arrow.get_path().vertices[:4]
    assert end < start < min(heights(beside, "s"))  # upwards, above all that is drawn
    spans = [
        max(found) - min(found) for found in (heights(f, "s") for f in (alone, beside))
    ]
    assert spans[0] == pytest.approx(spans[1])
    # From 1.00 to 1.04 is nearly the whole height.
    found = heights(beside, "o") + heights(beside, "s")
    assert max(found) - min(found) > 130


def test_a_band_that_the_line_hides_is_told():
    """Where it is seen, no words are needed; below 1 there is room, above it none."""
    figure = paging(doubt={"a": 1.01, "b": 0.9997})
    told = [words for words in texts(figure) if words.startswith("again")]
    assert told == ["again: ±0.03 %"]
    ((x, y),) = places_of(figure, told[0])
    (left, _), (right, _) = places_of(figure, "a") + places_of(figure, "b")
    assert left < right < x
    ones = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.6]
    level = next(line.get_ydata()[0] for line in ones if len(line.get_ydata()) == 2)
    assert 8 < abs(y - level) < 14
    said = texts(paging(doubt={"a": 1.0005, "b": 1.001}))
    told = [words for words in said if words.startswith("again")]
    assert told == ["again: ±0.05 %"]
    assert not any("again:" in words for words in texts(paging()))


@pytest.mark.parametrize("side", [-1, 1])
def test_it_is_told_away_from_the_curves(side):
    """They lie on this side of 1, so the words on the other one."""
    curves = {"in order": {1: 1 + side * 0.004, 16: 1 + side * 0.004}}
    far = {"in order": {1: 1.1, 16: 0.9}}
    figure = plot_paging_cost(
        {"a": curves, "b": far}, "title", doubt={"a": 1.0003, "b": 1.05}
    )
    ((_, y),) = places_of(figure, "again: ±0.03 %")
    assert (y > heights(figure, "o")[0]) == (side > 0)


def test_others_that_are_not_above_are_refused():
    with pytest.raises(ValueError, match=re.escape("1.03 is not above 1.04")):
        paging(band=(1.03, 1.1, "somebody else's"))


# --- many small programs or few large ones --------------------------------------------


def programs(figure):
    """By row: the left and right edges of its programs."""
    rows = {}
    for box in boxes(figure, palette.sequence_colour(0)):
        if box.get_height() > 20:  # not the legend's
            ends = box.get_x(), box.get_x() + box.get_width()
            rows.setdefault(box.get_y(), []).append(ends)
    return [sorted(row) for _, row in sorted(rows.items())]


def aim(figure):
    (line,) = figure.axes[0].lines
    assert len({*line.get_xdata()}) == 1
    return line.get_xdata()[0]


def test_programs_of_a_multiprocessor_lie_side_by_side_at_one_scale():
    figure = ways()
    four, two, one = programs(figure)
    assert [len(row) for row in (four, two, one)] == [4, 2, 1]
    assert len({row[0][0] for row in (four, two, one)}) == 1
    widths = [row[0][1] - row[0][0] + 2 for row in (four, two, one)]
    assert widths == pytest.approx([widths[2] / 4, widths[2] / 2, widths[2]])
    for row in (four, two, one):
        assert row[-1][1] == pytest.approx(aim(figure), abs=3)
        assert all(0 < b - a < 4 for (_, a), (b, _) in pairwise(row))
    said = texts(figure)
    assert [said.count(f"{kib} KiB") for kib in (32, 64, 128)] == [4, 2, 1]
    assert "128 KiB on each multiprocessor" in said


def test_a_row_ends_where_its_bytes_do():
    """Half of the aim; once and a half, where the aim lies within the row."""
    figure = plot_ways({"little": way(2, 32), "much": way(3, 64)}, "title")
    little, much = programs(figure)
    start, whole = little[0][0], aim(figure) - little[0][0]
    assert (little[-1][1] + 2 - start) / whole == pytest.approx(0.5)
    assert (much[-1][1] + 2 - start) / whole == pytest.approx(1.5)


def test_a_way_says_how_many_programs_it_has_how_long_it_takes_and_how_fast_it_is():
    figure = ways()
    tops = sorted(y for _, y in (places_of(figure, n)[0] for n in ("four", "one")))
    for name, words, us, share in (
        ("four", "528 programs, 4 on each", "39.5 µs", "74 % of the read ceiling"),
        (
            "one",
            "128 programs, at most 1 on each",
            "39.9 µs",
            "73 % of the read ceiling",
        ),
    ):
        ((_, y),) = places_of(figure, name)
        for said in (words, us, share):
            assert min(abs(at - y) for _, at in places_of(figure, said)) < 20, said
    assert tops[1] - tops[0] > 100


def test_ways_that_were_measured_have_as_much_under_way():
    tuning, found = measured_tuning("nvidia-h200"), {}
    for splits, tile, num_warps in ((8, 32, 1), (4, 64, 2), (2, 128, 4)):
        sizes = {"tile": tile, "num_warps": num_warps, "num_stages": 5}
        found[f"{splits} splits"] = launch_of(
            tuning, "8x4k", **sizes, num_splits=splits
        )
    figure = plot_ways(found, "title")
    assert [len(row) for row in programs(figure)] == [4, 2, 1]
    said = texts(figure)
    assert [said.count(f"{kib} KiB") for kib in (32, 64, 128)] == [4, 2, 1]
    for one in found.values():
        assert f"{one.us:.1f} µs" in said
        assert f"{one.percent:.0f} % of the read ceiling" in said


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
