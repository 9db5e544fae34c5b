"""The rule for sizes, beside the best of what was measured on both GPUs."""

import pytest
import torch

from minipaged.attention.kernels import sizes as triton_sizes
from minipaged.attention.kernels.sizes import Device, decode_sizes
from minipaged.lab import measured_tuning
from minipaged.lab.measure.measured import SIZES

DEVICES = ["nvidia-h200", "nvidia-h100-80gb-hbm3"]


@pytest.fixture(scope="module", params=DEVICES)
def report(request):
    return measured_tuning(request.param)


@pytest.fixture
def rule(report, monkeypatch):
    """decode_sizes on that GPU: (tile, num_warps, num_stages, num_splits)."""
    gpu, dtypes = report["gpu"], (torch.float16, torch.bfloat16)
    room = gpu["shared_bytes_of_a_program"]
    device = Device(gpu["multiprocessors"], room, dtypes, can_overlap=True)
    monkeypatch.setattr(triton_sizes, "device_of", lambda _: device)

    def choose(num_seqs, shortest, longest, shape=(32, 8, 128), dtype=torch.bfloat16):
        heads, kv_heads, dim = shape
        q = torch.empty(num_seqs, heads, dim, dtype=dtype)
        values = torch.empty(1, 16, kv_heads, dim, dtype=dtype)
        sizes, num_splits = decode_sizes(q, values, num_seqs, shortest, longest)
        return *sizes[1:], num_splits

    return choose


def sizes_of(row):
    return tuple(row[name] for name in SIZES)


def behind(rows):
    """Time of the rule's choice, which is the first row, over the best one's."""
    return rows[0]["us"] / min(row["us"] for row in rows if row["us"])


def test_what_was_measured_is_what_the_rule_chooses(report, rule):
    for name, batch in report["batches"].items():
        chosen = rule(batch["num_seqs"], batch["shortest"], batch["longest"])
        assert sizes_of(report["chosen"][name]) == chosen
        if name in report["sweep"]:
            assert sizes_of(report["sweep"][name][0]) == chosen


def test_the_rule_is_near_the_best_of_the_sweep(report):
    found = {batch: behind(rows) for batch, rows in report["sweep"].items()}
    assert max(found.values()) < 1.03, found


def test_the_rule_is_near_the_best_of_more_shapes_and_batches(report):
    found = {
        (shape, cell): behind(rows)
        for shape, cells in report["cells"].items()
        for cell, rows in cells.items()
    }
    assert len(found) == 56
    assert torch.tensor(list(found.values())).log().mean().exp() < 1.03
    assert max(found.values()) < 1.1, max(found, key=found.get)
