"""Two effects of lesson 6 and appendix C, each measured alone.

- The latency: a program that only follows a chain, in which each number says where the
  next one lies, so that no load can begin before the last one has ended.
- The early merge: rung 8, all of it, with its merge launched early and launched late.

Writes alone-<device>.json to minipaged/lab/measure/data.

    python -m benchmarks.gpu.alone
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.grid import GRID
from benchmarks.gpu.inputs import DEVICE
from benchmarks.gpu.report import path_of
from benchmarks.gpu.tuning import as_text
from benchmarks.gpu.tuning_parts import Tuning
from benchmarks.gpu.tuning_plan import PLAN
from minipaged.attention.kernels.setup import tl, triton
from minipaged.lab.measure.gpu_timing import microseconds, read_gb_per_s
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.measured import DATA

STRETCH = 128  # bytes from link to link: each lies in a stretch of its own
CHAINS_MB = (1, 8, 1024, 8192)  # the first two fit into the L2
STEPS = 20_000
BATCHES = ("1x1k", "1x8k", "8x4k")  # that are split


@triton.jit
def _follow_kernel(at, links, steps):
    """From link to link, and where it has arrived, the next launch goes on."""
    place = tl.load(at)
    for _ in range(steps):
        place = tl.load(links + place)
    tl.store(at, place)


def chain(num_links: int, apart: int, device: str) -> torch.Tensor:
    """Numbers `apart` of each other; each says where the next one is, in one circle."""
    order = torch.randperm(num_links, device=device) * apart
    links = torch.zeros(num_links * apart, dtype=torch.int64, device=device)
    links[order] = order.roll(-1)
    return links


def follow(links: torch.Tensor, at: torch.Tensor, steps: int) -> None:
    """So many steps on, from the place that is in `at`; it is in `at` afterwards."""
    _follow_kernel[1,](at, links, steps, num_warps=1, num_stages=1)


def latency_ns(megabytes: int) -> float:
    """Of a load, in a chain of so many megabytes; no replay begins where one began."""
    apart = STRETCH // 8
    links = chain(megabytes * 2**20 // STRETCH, apart, DEVICE)
    at, place = torch.zeros(1, dtype=torch.int64, device=DEVICE), 0
    for _ in range(100):
        place = links[place].item()
    follow(links, at, 100)
    assert at.item() == place
    call = partial(follow, links, at, STEPS)
    return 1e3 * microseconds([call], replays=5) / STEPS


def early_merge() -> dict[str, dict[str, Any]]:
    """Rung 8 by the rule's sizes: microseconds with its merge late, and early."""
    tuning = Tuning(PLAN._replace(batches=GRID), microseconds)
    report = {}
    for batch in BATCHES:
        inputs, (sizes, num_splits) = tuning.inputs(batch), tuning.rule_of(batch)
        ways = {"late": False, "early": True}
        calls = {
            way: inputs.decode(sizes, num_splits, overlap=overlap)
            for way, overlap in ways.items()
        }
        rows = tuning.in_rounds(calls)
        report[batch] = {way: row["us"] for way, row in rows.items()}
        report[batch]["num_splits"] = num_splits
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=DATA)
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    torch.manual_seed(0)
    report = {
        "machine": describe_machine(),
        "how": "latency_ns: of a load in a chain through so many MiB, in random order, "
        f"{STRETCH} bytes apart or more; median of 5 times {STEPS:,} loads. "
        "early_merge: microseconds, as tuning.py measures",
        "read_gb_per_s": read_gb_per_s(),
        "latency_ns": {str(size): latency_ns(size) for size in CHAINS_MB},
        "early_merge": early_merge(),
    }
    path = path_of(arguments.folder, "alone", report["machine"]["device"])
    path.write_text(as_text(report))
    print(path, path.read_text())


if __name__ == "__main__":
    main()
