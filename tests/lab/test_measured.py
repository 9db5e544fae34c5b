"""What was measured on GPUs and is shipped."""

from pathlib import Path
from statistics import median

import pytest

from minipaged.lab import (
    measured_alone,
    measured_eight_bits,
    measured_engine,
    measured_hosts,
    measured_kernels,
    measured_profile,
    measured_tuning,
    rule_evidence,
)
from minipaged.lab.measure import measured
from minipaged.lab.measure.measured import LADDER, OTHERS, PARTS
from minipaged.lab.measure.occupancy import programs_that_fit
from minipaged.lab.measure.rule_evidence import times_by_splits
from minipaged.lab.tour.ladder import RUNGS

ROOT = Path(__file__).parents[2]
DEVICES = {"nvidia-h200": "NVIDIA H200"}
DEVICES["nvidia-h100-80gb-hbm3"] = "NVIDIA H100 80GB HBM3"


@pytest.fixture(scope="module", params=DEVICES)
def report(request):
    report = measured_tuning(request.param)
    assert report["machine"]["device"] == DEVICES[request.param]
    return report


def all_rows(report):
    for part in ("ladder", "sweep", "splits"):
        for rows in report[part].values():
            yield from rows.values() if isinstance(rows, dict) else rows
    yield from (batch["contiguous"] for batch in report["paging"].values())


def test_all_was_measured_and_nothing_wrong(report):
    checks = report["checks"]
    assert "failed" not in report
    assert not checks["wrong"] and not checks["not_ready"] and checks["checked"] > 250
    assert set(RUNGS) < set(checks["errors"])
    assert max(checks["errors"].values()) < 2e-3  # of bfloat16
    for rungs in report["ladder"].values():
        assert list(rungs) == list(RUNGS)


def test_no_row_reads_faster_than_the_memory(report):
    ceiling = report["ceilings"]["read_gb_per_s"]
    for batch, rungs in report["ladder"].items():
        for row in rungs.values():
            rate = 1e3 * report["batches"][batch]["kv_megabytes"] / row["us"]
            assert rate < ceiling


def test_the_lesson_computes_occupancy_as_the_driver_does(report):
    """`programs` is the driver's answer; all of the sizes, also those that spill."""
    rows = [row for row in all_rows(report) if row["us"]]
    assert len(rows) > 1000 and any(row["spilled_bytes"] for row in rows)
    for row in rows:
        facts = (row["num_warps"], row["registers"], row["shared_bytes"])
        assert programs_that_fit(report["gpu"], *facts) == row["programs"], row


def test_a_device_that_nobody_measured():
    with pytest.raises(FileNotFoundError, match=r"'abacus'.*nvidia-h200"):
        measured_engine("abacus")
    with pytest.raises(FileNotFoundError, match=r"'abacus'.*nvidia-h200"):
        measured_kernels("abacus")
    with pytest.raises(FileNotFoundError, match=r"'abacus'.*hbm3.*nvidia-h200"):
        measured_tuning("abacus")


@pytest.mark.parametrize(("device", "count"), [*zip(DEVICES, (3, 4), strict=True)])
def test_the_counters_are_of_the_first_rungs(device, count):
    report = measured_profile(device)
    assert list(report["rungs"]) == list(RUNGS)[:count]
    ladder = measured_tuning(device)["ladder"]["64x4k"]
    for name, row in report["rungs"].items():
        assert row["us"] == pytest.approx(ladder[name]["us"], rel=0.05)  # another run
        parts = "computing", "shared_memory", "large_memory"
        assert all(0 < row[part] < 100 for part in parts)


@pytest.mark.parametrize("device", DEVICES)
def test_effects_alone(device):
    report = measured_alone(device)
    assert report["machine"]["device"] == DEVICES[device]
    near, *_, far = report["latency_ns"].values()  # the L2, and more than it holds
    assert 100 < near < far / 2 < 500
    for row in report["early_merge"].values():
        assert row["num_splits"] > 1 and 0.9 < row["early"] / row["late"] < 1


def test_8_bits_were_right_before_they_were_timed():
    report = measured_eight_bits()
    assert report["machine"]["device"] == "NVIDIA H200"
    assert report["check"]["numbers_rounded"] == 4 * 2**16
    errors = [x for x in report["check"].values() if isinstance(x, float)]
    assert len(errors) > 10 and 0 < max(errors) < 0.01
    for row in report["decode"].values():
        assert row["fp8_of_bf16"] == pytest.approx(row["fp8"] / row["bf16"], abs=1e-3)


def test_the_kernels_beside_others():
    report = measured_kernels()
    assert report["machine"]["device"] == "NVIDIA H200"
    for cells in report["decode"].values():
        assert set(report["decode_any_length"]) == set(cells)


def test_what_is_said_of_the_engine_was_measured_on_one_host_each():
    report = measured_engine()
    ways = (*LADDER, *OTHERS, *PARTS)
    rungs = [{way for way in ways if way in host} for host in report["hosts"]]
    beside = {"compiled", *OTHERS} - {"nano_vllm"}  # nobody has measured it yet
    parts = {"compiled", *PARTS}
    assert rungs == [set(LADDER[:2]), set(LADDER[1:]), beside, parts]
    for run in report["runs"]:
        assert run["machine"]["device"] == "NVIDIA H200"
        for row in run.values():
            if "rounds" in row:
                speeds = [each["tokens_per_s"] for each in row["rounds"]]
                assert row["tokens_per_s"] == median(speeds)


def places_of_hosts(monkeypatch, *names):
    """Of runs with rows of these names, the places of those that are hosts."""
    runs = [{name: {} for name in row.split()} for row in names]
    monkeypatch.setattr(measured, "_report", lambda *_: {"runs": runs})
    places = {id(run): place for place, run in enumerate(runs)}
    return [places[id(host)] for host in measured_engine()["hosts"]]


def test_a_run_is_no_host_if_another_has_all_of_its_rungs_and_more(monkeypatch):
    found = places_of_hosts(
        monkeypatch,
        "machine compiled vllm",
        "machine graphs compiled",
        "machine eager graphs compiled options",
        "machine compiled vllm generate_batch",
        "machine compiled vllm options",
        "machine lone",
    )
    assert found == [2, 3]


def test_of_runs_with_the_same_rungs_the_last_is_a_host(monkeypatch):
    runs = "compiled without_merging", "eager generate", "generate eager options"
    assert places_of_hosts(monkeypatch, *runs) == [2, 0]


def test_a_run_with_one_rung_can_be_compared_with_nothing(monkeypatch):
    assert places_of_hosts(monkeypatch, "machine eager", "chats shared", "lone") == []


def test_hosts_have_the_numbers_of_the_table_of_measurements():
    hosts, second = measured_hosts()
    assert sorted(hosts) == list(range(1, 14)) and sorted(second) == [8, 10]
    said = {1: 3489, 2: 23238, 3: 25289, 4: 22828, 5: 25130.5, 7: 25897}
    said |= {8: 18636.5, 9: 16444, 10: 18882.5, 11: 24665.5, 12: 23648.5}
    for number, speed in said.items():
        way = "eager" if number == 1 else "compiled"
        assert hosts[number][way]["tokens_per_s"] == speed
    assert set(hosts[6]) == {"machine", "lone"}
    assert second[10]["compiled"]["tokens_per_s"] == 20063
    assert len(second[8]["compiled"]["rounds"]) == 2


def test_who_is_alone_waits_for_her_first_token_only():
    """Replayed or launched one by one, a prompt's kernels matter to the first one."""
    *_, run = measured_engine()["runs"]
    launched, replayed = run["lone"]["launched"], run["lone"]["replayed"]
    assert launched["prompt"] == replayed["prompt"] == 1000
    assert launched["first_token_ms"] > 2 * replayed["first_token_ms"]
    assert launched["next_token_ms"] == pytest.approx(replayed["next_token_ms"], 0.01)


def test_what_the_gpu_waits_and_works_is_a_step():
    """The kernels that are listed are the longest, so they take a bit less."""
    for run in measured_engine()["runs"]:
        for rung in {"eager", "graphs", "compiled"} & set(run):
            for step in run[rung]["time_line"]:
                works = step["gpu_span_ms"] - step["idle_ms"]
                listed = sum(step["kernels_ms"].values())
                assert 0.9 * works < listed < 1.01 * works


def test_the_evidence_for_the_rule_is_what_was_measured():
    tunings = dict(zip("ab", map(measured_tuning, DEVICES), strict=True))
    lines = rule_evidence(tunings)
    cells = tunings["a"]["cells"]["32 query heads, 8 KV heads, 128"]
    small = [row["us"] for row in cells["24x4k"] if row["tile"] == 32]
    line = next(line for line in lines if "24x4k" in line)
    assert "1.45 pieces" in line and f"({min(small)}, " in line
    assert sum("medium programs for all" in line for line in lines) == 2
    large = times_by_splits(tunings["a"], "16x128..4096", 128)
    assert any(str(dict(sorted(large.items()))) in line for line in lines)
    assert large[15] == cells["16x128..4096"][0]["us"]  # what the rule takes
