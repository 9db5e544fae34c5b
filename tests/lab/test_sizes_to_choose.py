"""Sizes that a reader chooses are looked up in measured rows; here, in made-up ones."""

from itertools import product

import pytest

from minipaged.lab.check.choosing import BESIDE, SHAPE, Choice, judge
from minipaged.lab.check.verdict import Attempt, Rejected

WHY = "shared memory: 262144 bytes wanted, 232448 there are"


def us_of(tile, warps, stages, splits, best_splits):
    """32, 2, 4 is best, and so is this number of splits."""
    if tile * stages >= 512:
        return None
    slower = abs(tile - 32) / 32 + abs(warps - 2) / 2 + abs(stages - 4) / 4
    apart = max(splits, best_splits) / min(splits, best_splits) - 1
    return 100.0 * (1 + slower / 2 + apart / 4)


def row(*choice, best_splits):
    us = us_of(*choice, best_splits)
    made = Choice(*choice)._asdict() | {"us": us}
    return made if us else made | {"why": WHY}


def made_up(device="A GPU"):
    """1x8k, swept in 33 and 66 splits; 64x4k in one; each best in the first of them."""
    batches = {"1x8k": (1, 8192, (33, 66)), "64x4k": (64, 4096, (1,))}
    grid = list(product((16, 32, 64, 128), (1, 2, 4), (1, 2, 4)))
    tuning = {
        "machine": {"device": device},
        "gpu": {"multiprocessors": 132},
        "batches": {},
        "sweep": {},
        "splits": {},
        "chosen": {},
        "cells": {SHAPE: {}},
    }
    for batch, (num_seqs, context, splits) in batches.items():
        lengths = {"shortest": context, "longest": context}
        tuning["batches"][batch] = {"num_seqs": num_seqs} | lengths
        best = {"best_splits": splits[0]}
        tuning["sweep"][batch] = [
            row(*sizes, n, **best) for sizes, n in product(grid, splits)
        ]
        tuning["splits"][batch] = [
            row(32, 1, 4, n, **best) for n in (1, 2, 4, 8, 16, 33, 66, 128)
        ]
        tuning["chosen"][batch] = row(64, 2, 4, splits[0], **best)
    for batch in BESIDE:  # fewer sizes; the first is what decode_sizes chooses
        sizes = (32, 2, 2, 1), (32, 2, 4, 1), (64, 2, 4, 1), (32, 2, 4, 4)
        tuning["cells"][SHAPE][batch] = [row(*each, best_splits=1) for each in sizes]
    uneven = {"num_seqs": 256, "shortest": 128, "longest": 4096}
    tuning["batches"]["256x128..4096"] = uneven
    tuning["sweep"]["256x128..4096"] = tuning["sweep"]["64x4k"]
    return tuning


def right(num_seqs, context, num_kv_heads, multiprocessors):
    programs = num_seqs * num_kv_heads
    return 32, 2, 4, max(1, 2 * multiprocessors // programs)


def judged(function, *tunings):
    return judge(Attempt(function), tunings or (made_up(),))


def rejected(function, *tunings):
    with pytest.raises(Rejected) as found:
        judged(function, *tunings)
    return str(found.value)


def test_a_good_choice_has_a_line_for_each_even_batch_and_gpu():
    lines = judged(right, made_up("A GPU"), made_up("Another"))
    batches = ["   1x8k", "  64x4k", "  24x4k", "  40x4k", "  48x2k"]
    assert [line.split(":")[0] for line in lines[:-2]] == [
        *("A GPU", *batches),
        *("Another", *batches),
    ]
    assert lines[1] == (
        "   1x8k: tile 32, warps 2, stages 4, splits 33: 0% above the best "
        "(decode_sizes: 50%)"
    )


def test_a_list_and_nearly_as_many_splits_will_do():
    lines = judged(lambda *a: [32, 2, 4, 31 if a[0] == 1 else 1])
    assert "splits 31: 0% above the best, as measured in 33" in lines[1]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ((48, 2, 4, 33), "tile 48 was not measured; choose from [16, 32, 64, 128]"),
        ((32, 3, 4, 33), "warps 3 was not measured; choose from [1, 2, 4]"),
        ((32, 2, 9, 33), "stages 9 was not measured; choose from [1, 2, 4]"),
        (
            (128, 2, 4, 33),
            f"tile 128, warps 2, stages 4, splits 33 does not run. {WHY}",
        ),
        ((16, 2, 4, 33), "125 us, the best takes 100. With tile 32 alone it is 100"),
        ((32, 2, 4, 66), "125 us, the best takes 100. With splits 33 alone it is 100"),
        ((32, 2, 1, 33), "137.5 us, the best takes 100. With stages 4 alone"),
        ((32, 1, 4, 33), "With warps 2 alone it is 100"),
        ((64, 2, 2, 33), "With tile 32 alone it is 125"),
        ((32, 2, 4, 1), "in about 1 split, no sizes were quicker than 925 us"),
        ((32, 2, 4, 1), "the best takes 100, in 33"),
        ((32, 2, 4, 128), "in about 128 splits, no sizes"),
        ((32, 2, 4), "expected four numbers"),
        (None, "expected four numbers"),
        (7, "expected four numbers"),
        ((32, 2, 4, 33.0), "divide with //"),
        ((32, 2, 4, 0), "0 splits: at least 1, max(1, ...)"),
        ((32, -2, 4, 1), "-2 warps: at least 1"),
        ((32, 2, "4", 33), "whole numbers"),
    ],
)
def test_a_poor_choice_is_answered(choice, words):
    assert words in rejected(lambda *a: choice if a[0] == 1 else right(*a))


def test_all_batches_are_listed_and_one_fault_is_explained():
    said = rejected(lambda *a: (16, 2, 4, right(*a)[3])).splitlines()
    assert len(said) == 7
    assert "A GPU, 1x8k: 125 us" in said[0]
    assert "25% above the best" in said[2] and "25% above the best" in said[3]
    assert all("splits 1: not measured (decode" in line for line in said[4:7])
    said = rejected(lambda *a: (128, 2, 4, right(*a)[3])).splitlines()
    assert "splits 33: does not run" in said[2]
    said = rejected(lambda *a: (32, 2, 4, 1)).splitlines()
    assert "splits 1: at least 825% above the best" in said[2]


def test_of_several_faults_the_worst_is_explained():
    said = rejected(lambda *a: (16, 2, 4, 66) if a[0] == 1 else (64, 1, 1, 1))
    assert "A GPU, 64x4k: 212.5 us" in said.splitlines()[0]
    said = rejected(lambda *a: (16, 2, 4, 66) if a[0] == 1 else (48, 1, 1, 1))
    assert "tile 48 was not measured" in said.splitlines()[0]


def test_sizes_that_could_do_but_were_measured_otherwise_are_no_guess():
    """16 splits were measured with one size, and are quick enough there."""
    tuning = made_up()
    for each in tuning["splits"]["1x8k"]:
        each["us"] = 105.0
    said = rejected(lambda *a: (32, 2, 4, 16) if a[0] == 1 else right(*a), tuning)
    assert "(32, 2, 4) were measured in [33, 66] splits, not in about 16" in said


def test_a_table_of_the_batches_is_no_rule():
    """The last batches that are asked for were never measured."""
    known = {(1, 8192): (32, 2, 4, 33), (64, 4096): (32, 2, 4, 1)}
    known |= dict.fromkeys(BESIDE.values(), (32, 2, 4, 1))
    with pytest.raises(Rejected, match=r"num_seqs.*raised KeyError: \(3, 700\)"):
        judged(lambda num_seqs, context, *rest: known[num_seqs, context])


@pytest.mark.parametrize(
    ("best", "said"),
    [
        ((32, 2, 1, 1), "With tile 32 and warps 2 it is 100"),
        ((32, 2, 4, 1), "Change more than two sizes"),
    ],
)
def test_where_no_single_size_helps_two_are_named(best, said):
    tuning = made_up()
    tuning["sweep"]["64x4k"] = [
        {**Choice(*choice)._asdict(), "us": us}
        for choice, us in (((16, 1, 1, 1), 120.0), (best, 100.0))
    ]
    tuning["splits"]["64x4k"] = []
    tuning["chosen"]["64x4k"] = tuning["sweep"]["64x4k"][0]
    told = rejected(lambda *a: right(*a) if a[0] == 1 else (16, 1, 1, 1), tuning)
    assert said in told


def test_a_rule_is_compared_with_decode_sizes_also_on_batches_of_no_sweep():
    """Those of `cells`: there decode_sizes is made up to be 25 % above the best."""
    *_, on_all, on_others = judged(right)
    assert on_all == (
        "on all, above the best: 0.0% in the mean, 0.0% at worst "
        "(decode_sizes: 35.0% in the mean, 50.0% at worst)"
    )
    assert on_others == (
        "on 24x4k, 40x4k, 48x2k, which are in no sweep, above the best: "
        "0.0% in the mean, 0.0% at worst "
        "(decode_sizes: 25.0% in the mean, 25.0% at worst)"
    )


def test_a_poor_choice_for_a_batch_of_no_sweep_is_answered():
    said = rejected(lambda *a: (64, 2, 4, 1) if a[0] == 48 else right(*a))
    assert said.splitlines()[0].endswith(
        "A GPU, 48x2k: 150 us, the best takes 100. With tile 32 alone it is 100"
    )


def near(tuning):
    """As if decode_sizes chose what is best, or nearly."""
    for batch in ("1x8k", "64x4k"):
        tuning["chosen"][batch] = (
            tuning["sweep"][batch][-1]
            | Choice(*right(tuning["batches"][batch]["num_seqs"], 0, 8, 132))._asdict()
        )
        tuning["chosen"][batch]["us"] = 100.0
    for rows in tuning["cells"][SHAPE].values():
        rows.insert(0, rows.pop(1))
    return tuning


def test_the_choices_of_decode_sizes_will_do_and_are_named():
    tuning = near(made_up())
    tuning["cells"][SHAPE]["40x4k"][0]["us"] = 103.0
    tuning["cells"][SHAPE]["40x4k"][2]["us"] = 100.0
    lines = judged(right, tuning)
    assert len(lines) == 9
    assert lines[8] == (
        "in these batches decode_sizes chooses the same; it is furthest from the "
        "best in A GPU, 40x4k: 3.0%. Can you beat it there?"
    )


def test_one_other_choice_makes_it_the_readers_rule():
    """Also one that was not measured."""
    for other in ((64, 2, 4, 1), (128, 1, 1, 1)):
        tuning = near(made_up())
        tuning["cells"][SHAPE]["24x4k"][2]["us"] = 105.0  # 64, 2, 4, 1
        lines = judged(lambda *a, o=other: o if a[0] == 24 else right(*a), tuning)
        assert len(lines) == 8 and "on 24x4k, 40x4k, 48x2k" in lines[-1]


def test_a_rule_of_the_readers_counts_if_it_is_near_the_best():
    """Whether it is quicker by a few percent says nothing: repeats differ so."""
    tuning = near(made_up())
    for rows in tuning["cells"][SHAPE].values():
        rows[2]["us"] = 105.0  # 64, 2, 4, 1
    lines = judged(
        lambda *a: (64, 2, 4, 1) if a[0] in {24, 40, 48} else right(*a), tuning
    )
    assert "40x4k: tile 64, warps 2, stages 4, splits 1: 5% above" in lines[4]


@pytest.mark.parametrize("us", [108.0, 109.0])
def test_eight_percent_more_is_allowed(us):
    tuning = made_up()
    tuning["cells"][SHAPE]["48x2k"][1]["us"] = us  # 32, 2, 4, 1
    tuning["cells"][SHAPE]["48x2k"][0]["us"] = 100.0
    if us <= 108:
        judged(right, tuning)
    else:
        assert "48x2k: 109 us, the best takes 100" in rejected(right, tuning)


def test_some_sizes_must_have_been_measured_on_batches_of_no_sweep():
    said = rejected(lambda *a: (128, 1, 1, 1) if a[0] in (24, 40, 48) else right(*a))
    assert "none of your sizes were measured on 24x4k, 40x4k, 48x2k" in said
    assert f"measured_tuning()['cells'][{SHAPE!r}]" in said
