"""The benchmark over drawn batches with prompts, as far as it goes without a GPU."""

import pytest

from benchmarks.gpu.measure import kv_bytes
from benchmarks.gpu.prompts import (
    KINDS,
    MOST_BYTES,
    MOST_TOKENS,
    SHAPES,
    draw_batches,
    operations,
    summary,
)
from minipaged.attention.backend import Masking
from minipaged.lab.measure.measured import measured_prompts


def test_a_seed_draws_the_same_batches_again():
    drawn = draw_batches(20, seed=1)
    assert drawn == draw_batches(20, seed=1)
    assert set(drawn) != set(draw_batches(20, seed=2))
    assert list(drawn)[:7] == list(draw_batches(7, seed=1))


def test_batches_are_of_all_shapes_and_kinds():
    drawn = draw_batches(len(SHAPES) * len(KINDS), seed=0)
    seen = {(shape, name.split(", ")[1]) for name, (shape, _, _) in drawn.items()}
    assert seen == {(shape, kind) for shape in SHAPES for kind in KINDS}
    for name, (shape, lengths, masking) in drawn.items():
        assert kv_bytes(shape, lengths) <= MOST_BYTES
        assert 1 < sum(new for _, new in lengths) <= MOST_TOKENS
        assert ("sliding_window" in masking) == ("window" in name)
        assert ("sinks" in masking) == ("sinks" in name)
        assert any(new == 1 for _, new in lengths) == ("mixed" in name)


def test_operations_of_the_pairs_that_are_seen():
    lengths = [(0, 3), (10, 2)]  # 1 + 2 + 3 + 11 + 12 pairs; of 2 at most 1 + 4 * 2
    assert operations((4, 2, 8), lengths, Masking(1.0)) == 4 * 4 * 8 * 29
    assert operations((4, 2, 8), lengths, Masking(1.0, 2)) == 4 * 4 * 8 * 9


def test_the_summary_counts_what_is_not_above_the_limits():
    rows = {str(at): {"over_peer": ratio} for at, ratio in enumerate([0.5, 1.05, 2.0])}
    found = summary(rows | {"no peer": {}})
    assert found["at_most_1.00"] == 1 / 3 and found["at_most_1.10"] == 2 / 3
    assert list(found["worst"]) == ["2", "1", "0"]
    assert found["geometric_mean"] == pytest.approx(1.05 ** (1 / 3))
    assert summary({"no peer": {}}) == {}


def test_the_stored_report_says_what_its_rows_say():
    report = measured_prompts()
    rows = report["batches"]
    assert list(rows) == list(draw_batches(len(rows), report["seed"]))
    for row in rows.values():
        if "over_peer" in row:
            ratio = row["us"]["ours"] / row["us"]["flash_attention_3"]
            assert row["over_peer"] == pytest.approx(ratio, 1e-3)
    found, stored = summary(rows), report["summary"]
    for name in ("at_most_1.00", "largest", "geometric_mean"):
        assert stored[name] == pytest.approx(found[name], 1e-3)
