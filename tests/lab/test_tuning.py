"""The measurements of lesson 6, in the interpreter and in the smallest sizes."""

import json

import pytest
import torch

from benchmarks.gpu import tuning
from benchmarks.gpu.inputs import DEVICE
from benchmarks.gpu.launches import launched, measure
from benchmarks.gpu.tuning import Tuning, each_at_once, packed
from benchmarks.gpu.tuning_checks import Task, check_all, check_task
from benchmarks.gpu.tuning_plan import PLAN, SMALL
from minipaged.attention.kernels.setup import INTERPRETED, triton
from minipaged.attention.kernels.sizes import Sizes
from minipaged.lab.measure import measured
from minipaged.lab.tour.ladder import RUNGS

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="the script itself does it")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What the script writes in its small mode, and what is read from that."""
    folder = tmp_path_factory.mktemp("tuning")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["tuning", "--small", "--folder", str(folder)])
        tuning.main()
        patch.setattr(measured, "DATA", folder)
        (path,) = folder.iterdir()
        return measured.measured_tuning(path.stem.removeprefix("tuning-"))


ROW = {
    *"tile num_warps num_stages num_splits us".split(),
    *"registers spilled_bytes shared_bytes programs".split(),
}


def test_it_checks_everything_first(report):
    checks = report["checks"]
    kinds = {*RUNGS, "decode", "split", "paged", "contiguous"}
    assert set(checks["errors"]) == kinds
    assert max(checks["errors"].values()) < 1e-3
    assert not checks["wrong"] and not checks["cannot_run"] and not checks["not_ready"]


def test_it_holds_what_the_loader_says(report):
    assert list(report["ladder"]["2x1..20"]) == list(RUNGS)
    rows = list(report["ladder"]["2x1..20"].values())
    rows += report["sweep"]["1x20"] + report["splits"]["1x20"]
    rows += [report["paging"]["2x1..20"]["contiguous"]]
    for cells in report["cells"].values():
        assert set(cells) == set(SMALL.cells)
        for row in [row for rows in cells.values() for row in rows]:
            assert row["num_splits"] > 0 and row["us"] > 0
    assert len(report["cells"]) == 1
    for row in rows:
        assert set(row) == ROW and row["us"] > 0
    assert len(report["sweep"]["1x20"]) == 5
    paging = report["paging"]["2x1..20"]
    assert [row["block_size"] for row in paging["by_block_size"]] == [1, 16]
    assert [row["num_stages"] for row in paging["by_num_stages"]] == [1, 3]
    for row in [*paging["by_block_size"], *paging["by_num_stages"]]:
        assert row["in_order"] > 0 and row["shuffled"] > 0
    assert [row["apart"] for row in report["coalescing"]] == [1, 4]
    assert set(report["batches"]) == set(SMALL.batches)
    assert report["chosen"]["1x20"] == report["sweep"]["1x20"][0]
    assert not {"failed", "compiled"} & set(report)


def test_a_part_that_fails_does_not_take_the_others_along(tmp_path, monkeypatch):
    def breaks(_):
        raise RuntimeError("a wire is loose")

    for part in ("checks", "ladder", "paging", "cells"):
        monkeypatch.setattr(Tuning, part, lambda _: {})
    monkeypatch.setattr(Tuning, "splits", breaks)
    monkeypatch.setattr("sys.argv", ["tuning", "--small", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="not all of it"):
        tuning.main()
    report = json.loads(next(tmp_path.iterdir()).read_text())
    assert "a wire is loose" in report["failed"]["splits"]
    assert "1x20" in report["sweep"] and "splits" not in report


def test_what_does_not_fit_is_stored_as_such(monkeypatch):
    sizes = Sizes(16, 16, 1, 1)
    task = Task("decode", SMALL.shape, sizes=sizes)

    def too_large(*_, **__):
        raise triton.OutOfResources(300_000, 232_448, "shared memory")

    monkeypatch.setattr("benchmarks.gpu.tuning_parts.launch_decode", too_large)
    small = Tuning(SMALL, each_at_once)
    (row,) = small.rows_of(small.inputs("1x20"), [(sizes, 2)])
    why = "shared memory: 300000 wanted, 232448 there are"
    assert row["us"] is None and row["why"] == why and row["num_splits"] == 2
    assert row["tile"] == 16 and packed({"sweep": {"1x20": [row]}})["compiled"]
    monkeypatch.setattr("benchmarks.gpu.tuning_checks.launch_decode", too_large)
    assert check_all([task], 1.0)["cannot_run"][0].endswith(why)


def test_a_wrong_kernel_is_found_before_it_is_timed(monkeypatch):
    task = Task("rung", SMALL.shape, rung="one program per KV head")
    assert check_task(task) < 1e-3
    right = RUNGS[task.rung]
    monkeypatch.setitem(RUNGS, task.rung, lambda *a: 1.1 * right(*a))
    report = check_all([task], 1.0)
    assert len(report["wrong"]) == 1 and report["checked"] == 0
    small = Tuning(SMALL, each_at_once)
    row = small.ladder()["2x1..20"][task.rung]
    assert row["us"] is None and "off by 1.0e-01" in row["why"]


def test_sizes_are_noted_as_they_are_launched():
    q = torch.zeros(1, device=DEVICE)

    @triton.jit
    def nothing(x, TILE: triton.language.constexpr):
        pass

    def call():
        nothing[(1, 2, 3)](q, TILE=32, num_warps=2, num_stages=5)

    with launched() as seen:
        call()
    assert seen == [
        {"tile": 32, "num_warps": 2, "num_stages": 5, "num_splits": 3, "compiled": None}
    ]
    call()
    assert len(seen) == 1  # not beyond the block
    assert measure([call], lambda calls: 7.0)["us"] == 7.0


def test_every_kernel_of_the_run_is_compiled_beforehand():
    """Else it would be compiled by one process, while the GPU waits."""
    run = Tuning(PLAN, each_at_once)
    tasks = set(run.tasks())
    assert {task.rung for task in tasks} >= set(RUNGS)
    for batch, splits in PLAN.sweep.items():
        for sizes in run.grid():
            for num_splits in splits:
                task = Task("decode", PLAN.shape, sizes=sizes, is_split=num_splits > 1)
                assert task in tasks, batch
    assert len(tasks) < 450  # what some minutes have room for
