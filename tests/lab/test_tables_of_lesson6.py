"""Lesson 6's and appendix C's tables: from made-up reports with known ratios."""

import re

import pytest

from helpers import notebook_files as files
from minipaged.lab import Rungs, measured_tuning
from minipaged.lab.measure import peer_tables, rung_tables, tuning_tables
from minipaged.lab.measure.launches import launches_of
from minipaged.lab.measure.rule_evidence import LLAMA
from minipaged.lab.plots import size_rule
from minipaged.lab.tour.assembly import count_shuffles, stage_lines
from minipaged.lab.tour.ladder import (
    _kv_head_kernel,
    _query_head_kernel,
    update_by_sums,
    update_by_units,
)

SPILLS = "registers that spill"
GPU = {"multiprocessors": 4, "registers": 65536, "shared_bytes": 2**18, "threads": 2048}


def row(us, tile=64, warps=2, stages=4, splits=1, **more):
    names = "tile", "num_warps", "num_stages", "num_splits", "us"
    made = dict(zip(names, (tile, warps, stages, splits, us), strict=True))
    facts = {"registers": 128, "spilled_bytes": 0, "shared_bytes": 2**16, "programs": 1}
    return made | facts | more


def tuning(**parts):
    """100 MB to read at 1,000 GB/s: 100 µs are the whole ceiling."""
    batch = {"num_seqs": 1, "longest": 640, "kv_megabytes": 100.0}
    return {
        "gpu": GPU,
        "ceilings": {"read_gb_per_s": 1000},
        "batches": {"a": batch},
        "sweep": {"a": [row(200.0)]},
        "splits": {"a": []},
        "cells": {LLAMA: {"a": [row(200.0)]}},
        **parts,
    }


def text_of(name):
    (path,) = (
        path for path in files.NOTEBOOKS if path.name.lstrip("0").startswith(name)
    )
    return files.markdown(files.load(path))


def test_the_kinds_of_appendix_c_are_those_of_the_rule():
    """Tile, warps, stages, KiB under way."""
    for kind, known in size_rule.KINDS.items():
        (line,) = re.findall(rf"^\|{kind}\|(.+)\|$", text_of("C"), re.MULTILINE)
        found = [*map(int, re.findall(r"\d+", line))]
        assert found[:4] == [*known[:3], known.kib]


def test_appendix_c_tells_the_rule():
    """Of each kind what fits, and how many have 128 KiB; and when it is taken."""
    text = text_of("C")
    for kind, known in size_rule.KINDS.items():
        (line,) = re.findall(rf"^\|{kind}\|(.+)\|$", text, re.MULTILINE)
        *_, kib, fit, need = map(int, re.findall(r"\d+", line))
        assert need * kib == 128 and (kind == "small" or fit == known.room)
    (few,) = re.findall(r"^- \*\*Fewer than ([\d.]+):\*\*", text, re.MULTILINE)
    (more,) = re.findall(r"^- \*\*More than ([\d.]+):\*\*", text, re.MULTILINE)
    assert f"- **{few} to {more}:**" in text
    for pieces, below, above in (
        (float(few), "small", "large"),
        (float(more), "large", "medium"),
    ):
        assert size_rule.chosen(pieces - 0.01) == below
        assert size_rule.chosen(pieces + 0.01) == above


def test_appendix_c_tells_what_the_rule_misses():
    """Medium programs with a fifth stage, beside the rule's, in percent."""
    report, found = measured_tuning("nvidia-h200"), []
    for batch in ("1x8k", "8x4k", "24x4k", "32x2k", "64x4k", "128x2k"):
        by_rule, *others = report["cells"][LLAMA][batch]
        sizes = {"tile": 64, "num_warps": 2, "num_stages": 5}
        fifth = tuning_tables.rows_of(others, **sizes)
        us = min(one["us"] for one in fifth if one["us"])
        found.append(round(100 * (us / by_rule["us"] - 1)))
        if batch == "64x4k":
            (whole,) = tuning_tables.rows_of(fifth, num_splits=1)
            (four,) = tuning_tables.rows_of(fifth, num_splits=4)
            assert four["us"] == us
            assert round(100 * (whole["us"] / by_rule["us"] - 1)) == 21
            told = [round(one["us"]) for one in (whole, by_rule, four)]
    assert min(found) == -3 and max(found[:4]) < 0 and found[4:] == [8, 4]
    assert told == [299, 248, 267]
    text = text_of("C")
    assert "it is up to 3 % quicker" in text and "`128x2k` it is 4 % slower" in text
    assert "`64x4k` it is 21 % slower without splits" in text
    assert "(299 µs; with four stages 248), and 8 % slower in four splits (267)" in text


def test_a_share_is_of_the_ceiling():
    assert rung_tables.share_of_ceiling(tuning(), "a", {"us": 400.0}) == 25.0


def test_a_rung_stands_beside_the_one_before():
    ladder = {"a": {"x": row(400.0), "y": row(200.0), "z": row(100.0)}}
    assert Rungs(tuning(ladder=ladder)).lines(3) == [
        "rung 3",
        "a              50.0 % -> 100.0 %, x 2.00",
    ]


def test_of_a_rung_some_batches_may_be_left_out():
    rows = {"x": row(400.0), "y": row(200.0)}
    report = tuning(ladder={"a": rows, "not measured": rows})
    lines = Rungs(report).lines(2, batches=["a"])
    assert lines == ["rung 2", "a              25.0 % ->  50.0 %, x 2.00"]


def test_rungs_are_shares_of_the_ceiling_and_gains():
    ladder = {"a": {"x": row(400.0), "y": row(200.0), "z": row(100.0)}}
    rungs = Rungs(tuning(ladder=ladder | {"64x4k": ladder["a"]}))
    assert [rungs.us(number, "a") for number in (1, 2, 3)] == [400.0, 200.0, 100.0]
    assert [rungs.reached(number, "a") for number in (1, 3)] == [25.0, 100.0]
    assert rungs.gain(2, "a") == 2.0


def test_the_rungs_of_the_report_have_room_for_so_many():
    rungs = Rungs(measured_tuning("nvidia-h200"))
    assert rungs.room(2) == "rung 2: 167 registers of a thread, 3 programs fit"
    heads = [line for line in rungs.lines() if line.startswith("rung")]
    assert heads == [f"rung {number}" for number in range(2, 9)]


def test_as_many_rungs_are_profiled_as_asked_for():
    parts = {"computing": 1.0, "shared_memory": 2.0, "large_memory": 3.0}
    profile = {
        "rungs": {name: {"us": 8e3, "instructions": 7e6, **parts} for name in "abc"}
    }
    head, first, second = rung_tables.busy_lines(profile, 2)
    assert first.split() == "rung 1 8,000 2 % 3 %".split()
    assert second.startswith("rung 2") and len(head) == len(first) == len(second)


def test_a_unit_is_busy_for_its_share_of_the_time():
    rows = {"a": {"us": 200.0, "shared_memory": 92.0}}
    assert rung_tables.shared_busy({"rungs": rows}) == [pytest.approx(184.0)]


def test_a_turn_s_time_is_a_tile_s_share_of_all():
    ladder = {"a": {"x": row(400.0)}}  # ten turns of 64 positions: 40 µs each
    made_up = tuning(ladder=ladder) | {"ceilings": {"read_gb_per_s": 4000}}
    (turn,) = rung_tables.turns_of(made_up, ("a",), {1: 64})
    assert (turn.programs, turn.nbytes, turn.us) == (8, 2 * 64 * 128 * 2, 40.0)
    assert turn.reading == pytest.approx(8 * 32768 / 4e12 * 1e6)


def test_rows_are_found_by_their_sizes_and_come_by_their_stages():
    rows = [row(1.0, stages=5), row(2.0, stages=3), row(3.0, tile=32)]
    found = tuning_tables.rows_of(rows, tile=64, num_warps=2)
    assert [each["us"] for each in found] == [2.0, 1.0]


def test_a_map_tells_which_launches_wait_and_which_spill():
    """8 programs on 7 multiprocessors: with two on each, none waits."""
    rows = [row(100.0, warps=1, programs=2), row(200.0, stages=5, spilled_bytes=4)]
    rows += [row(400.0, stages=3, programs=2), row(None, stages=7)]
    rows.append(row(50.0, stages=2, splits=2))
    made = tuning(sweep={"a": rows}, gpu=GPU | {"multiprocessors": 7})
    maps, signs = tuning_tables.sweep_maps(made, ["a"], (1, 2))
    assert list(maps) == ["a, 1 warp", "a, 2 warps"]
    assert maps["a, 1 warp"] == {(64, 4): 100.0}
    assert maps["a, 2 warps"] == {(64, 3): 25.0, (64, 5): 50.0}
    assert signs["registers that spill"] == {"a, 1 warp": [], "a, 2 warps": [(64, 5)]}
    waits = signs["a last wave mostly empty"]
    assert waits == {"a, 1 warp": [], "a, 2 warps": [(64, 5)]}
    few = signs["too little under way"]  # all, as the ceiling needs 2 MB
    assert few == {"a, 1 warp": [(64, 4)], "a, 2 warps": [(64, 5), (64, 3)]}
    enough = made | {"ceilings": {"read_gb_per_s": 100}}
    _, signs = tuning_tables.sweep_maps(enough, ["a"], (1, 2))
    assert not any(signs["too little under way"].values())


def test_there_is_a_map_for_each_batch_and_number_of_warps():
    rows = [row(100.0, tile=128), row(100.0, tile=16), row(100.0, tile=16, warps=4)]
    batches = dict.fromkeys("ab", tuning()["batches"]["a"])
    made = tuning(sweep={"a": rows, "b": rows[:1]}, batches=batches)
    maps, _ = tuning_tables.sweep_maps(made, "ab", (2, 4))
    cells = {name: list(found) for name, found in maps.items()}
    assert cells == {
        "a, 2 warps": [(128, 4), (16, 4)],
        "a, 4 warps": [(16, 4)],
        "b, 2 warps": [(128, 4)],
        "b, 4 warps": [],
    }


def test_points_under_way_have_their_rate_and_the_faults_of_another_kind():
    """Eight programs, two of which run on each; a tile of 64 has 32 KiB."""
    rows = [row(200.0, programs=2, spilled_bytes=8), row(400.0, stages=1)]
    rows.append(row(None, stages=2))
    points = tuning_tables.points_under_way(tuning(sweep={"a": rows}), ["a"])
    tiles = 2**16 // 2**15  # that lie in the shared memory of a program
    megabytes = [n * tiles * 2**15 / 1e6 for n in (4, 8)]
    assert points == {"a": [(megabytes[1], 500.0, [SPILLS]), (megabytes[0], 250.0, [])]}
    assert all(mb < 2 for mb in megabytes)  # too little: that is no fault here


def test_what_five_stages_cost():
    us = {"64x4k": (100.0, 121.0), "40x4k": (100.0, 98.0)}
    cells = {n: [row(a), row(b, stages=5)] for n, (a, b) in us.items()}
    _, *lines = tuning_tables.fifth_stage_lines({"X": tuning(cells={LLAMA: cells})})
    assert [line.split()[-2] for line in lines] == ["+21%", "-2%"]


def test_launches_in_a_table():
    rows = [row(20.0, tile=32), row(80.0, tile=64)]
    made = tuning(sweep={"a": rows})
    launches = {str(of["tile"]): one for of, one in launches_of(made, "a")}
    columns = "fit", "waves", "spilled", "tile µs"
    head, first, second = tuning_tables.launch_lines(launches, *columns)
    heads = "under way fit waves spilled tile µs µs of the ceiling"
    assert head.split() == heads.split()
    for line, (name, one) in zip((first, second), launches.items(), strict=True):
        mb, told = f"{one.under_way:.1f}", (one.fit, len(one.waves), one.spilled)
        rate = 100 / one.us  # MB in a µs
        said = [name, mb, "MB", *map(str, told), f"{one.under_way / rate:.1f}"]
        said.append(f"{one.us:.1f}")
        assert line.split() == [*said, f"{one.percent:.0f}", "%"]
    assert len(first) == len(second)
    head, first, _ = tuning_tables.launch_lines(launches)
    assert head.split() == "under way µs of the ceiling".split()
    assert len(first.split()) == 6


def test_slow_ones_without_a_fault_are_counted_by_what_they_have():
    """The ceiling needs 1 MB under way; a program has 64 KiB."""
    little, enough = {"programs": 1}, {"programs": 8}
    rows = [row(10.0, **enough, splits=4), row(20.0, **enough, splits=4)]
    rows += [row(30.0, warps=8, **enough, splits=4), row(40.0, **little, splits=9)]
    rows += [row(50.0, **enough, spilled_bytes=8, splits=4)]
    made = tuning(sweep={"a": rows}, ceilings={"read_gb_per_s": 200})
    under_way = [one.under_way for _, one in launches_of(made, "a")]
    assert under_way[3] < 0.4 < under_way[0] and under_way[3] > 0.2
    assert tuning_tables.slow_lines(made, ["a"]) == [
        "3 without a fault are slower than 80% of the best:",
        "  1 have less than 0.4 MB under way;",
        "  of the other 2, 1 have 8 warps,",
        "  and of those left, 0 of 1 need several waves",
    ]


def test_launches_near_the_best_by_what_they_have_under_way():
    us = {1: 20.0, 2: 20.9, 3: 21.1}
    rows = [row(time, programs=fit, splits=2) for fit, time in us.items()]
    made = tuning(sweep={"a": rows, "b": rows[:1]})
    made["batches"]["b"] = made["batches"]["a"]
    size = [one.under_way for _, one in launches_of(made, "a")]
    limits = 0, size[1] - 1e-6, size[2], 9
    assert size[0] < size[1] < size[2] < 9
    head, *lines = tuning_tables.near_lines(made, ["a", "b"], limits)
    assert head.split()[:4] == ["MB", "0.0", "to", f"{limits[1]:.1f}"]
    assert [line.split() for line in lines] == [
        "a 1 of 1 1 of 1 0 of 1".split(),
        "b 1 of 1 0 of 0 0 of 0".split(),
        "all 2 of 2 1 of 1 0 of 1".split(),
    ]


def test_splits_by_programs_on_each_and_the_best_of_them():
    """One sequence, eight KV heads: two pieces on each of four multiprocessors."""
    rows = [
        row(us, tile=32, splits=n) for n, us in {1: 400.0, 2: 200.0, 3: 250.0}.items()
    ]
    made = tuning(splits={"a": rows}, cells={LLAMA: {"a": []}})
    lines, times = tuning_tables.splits_on_each(made)
    assert lines == {"a": {2.0: 25.0, 4.0: 50.0, 6.0: 40.0}}
    assert times == {"a": {1: 400.0, 2: 200.0, 3: 250.0}}
    (line,) = tuning_tables.splits_lines(made, times)
    said = "a      splits:  2, 4.0 on each: 200.0 µs; half as many: 400.0"
    assert line == said + "; 6.0 on each: 250.0"


def test_the_rule_is_compared_with_the_best_of_all_sizes():
    sweep = {"a": [row(110.0), row(100.0, tile=32), row(None, tile=128)]}
    made = {"one": tuning(sweep=sweep), "two": tuning()}
    lines, ratios = tuning_tables.beside_best(made, {"a": 1})
    assert ratios == [pytest.approx(1.1), 1.0]
    assert lines[1].split() == "a 2.00 64 2 4 1 one 1.10 two 1.00".split()


def test_uneven_contexts_by_kind_of_program():
    kinds = [(32, 1, 5), (64, 2, 4), (128, 4, 2)]
    cells = {"a": [row(100.0 * n, *kind) for n, kind in enumerate(kinds, 1)]}
    lines = tuning_tables.uneven_lines(tuning(cells={LLAMA: cells}), ["a"])
    assert lines[1].split() == ["a", "100.0", "200.0", "300.0"]


def test_paging_is_a_ratio_to_the_run_without_a_table():
    of = {"block_size": 16, "in_order": 101.0, "shuffled": 104.0}
    found = {"contiguous": row(100.0), "contiguous_again": 99.0, "by_block_size": [of]}
    ratios, doubt = tuning_tables.paging_ratios(tuning(paging={"a": found}))
    assert ratios == {"a": {"in order": {16: 1.01}, "shuffled": {16: 1.04}}}
    assert doubt == {"a": 0.99}


def test_peers_are_compared_by_ratios_of_which_the_largest_is_told():
    def batch(paged):
        peers = {
            "flashinfer": 100.0,
            "vllm_flash_attention": None,
            "vllm_triton": 200.0,
        }
        return {
            "paged": paged,
            "paged_again": 99.0,
            "cudnn_contiguous": 50.0,
            "peers": peers,
        }

    shape = {"decode": {"s": {"a": batch(100.0), "b": batch(120.0)}}}
    shape["decode_other_cells"] = {"s": {"c": batch(90.0)}}
    groups, doubt = peer_tables.beside_peers(shape, "s")
    assert groups[""]["a"]["FlashInfer"] == 1.0 and doubt["a"] == 0.99
    assert groups[""]["a"]["FlashAttention-3"] is None
    names, first, other, second = peer_tables.most_of_peers(groups)
    assert (names, other) == ("a, b:", "c:")
    assert "FlashInfer 1.20" in first and "contiguous cuDNN 1.80" in second


def test_prompts_are_told_as_speeds_ours_among_them():
    prefill = {"4 over 2k": {"paged_tflop_per_s": 7.0, "flashinfer_tflop_per_s": 8.0}}
    speeds = peer_tables.prompt_speeds({"prefill": prefill})
    assert speeds["4 new tokens after 2,048 cached"]["ours"] == 7.0


def test_tiles_ahead_are_counted_in_the_assembly_code():
    sizes = {"TILE": 64, "ROWS": 16, "UPDATE": update_by_units}
    lines, ahead = stage_lines(_kv_head_kernel, (1, 5), **sizes)
    assert ahead == {1: 0, 5: 2}
    assert [line.split() for line in lines[1:]] == [
        ["1", "0", "0", "1"],
        ["5", "32", "2", "2"],
    ]


def test_sums_of_four_heads_take_more_shuffles_than_those_of_one():
    sizes = {"TILE": 16, "ROWS": 4, "UPDATE": update_by_sums}
    one = count_shuffles(_query_head_kernel, TILE=16)
    # Two logits in a warp, by 16 threads each; the maximum and the sum of weights; then
    # a thread's parts of the weighted sum (for which Triton 3.9 takes eight more).
    assert one.whole == 0 and one.others in (2 * 4 + 3 + 3 + 16, 38)
    four = count_shuffles(_kv_head_kernel, **sizes)
    assert four.whole == 64 * 5  # logits in a warp, by 32 threads each
    units = sizes | {"ROWS": 16, "UPDATE": update_by_units}
    assert count_shuffles(_kv_head_kernel, **units) in ((0, 10), (0, 12))
