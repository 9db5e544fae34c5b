"""What each rung, each size and paging itself are worth in lesson 6's decode kernel.

First compiles every kernel, in many processes, and checks it against float64. Then
measures in one run: ceilings, reads that lie apart, the ladder, the same kernel with a
block table and without, tiles x warps x stages x splits, and fewer of these in more
shapes and batches. Writes tuning-<device>.json to minipaged/lab/measure/data, where
lesson 6 and appendix C find it; `measured_tuning` says what it holds.

    python -m benchmarks.gpu.tuning
"""

import argparse
import json
import re
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.inputs import DEVICE
from benchmarks.gpu.launches import Calls, gpu_facts
from benchmarks.gpu.report import path_of, rounded
from benchmarks.gpu.tuning_parts import Tuning
from benchmarks.gpu.tuning_plan import PLAN, SMALL
from minipaged.lab.measure.gpu_timing import microseconds
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.measured import COMPILED, DATA, SIZES

PARTS = "checks ceilings coalescing ladder paging splits sweep cells".split()
HOW = (
    "bfloat16, blocks of 16, microseconds; median of 11 CUDA-graph replays, and of "
    "three such in turns; sweep, splits and cells: of 5 replays, then the quickest in "
    "turns; inputs rotate over 256 MiB or more; tables shuffled"
)


def each_at_once(calls: Calls, **_: Any) -> float:
    """The small plan's clock: microseconds of one run through all calls."""
    start = time.perf_counter()
    for call in calls:
        call()
    return 1e6 * (time.perf_counter() - start) / len(calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=DATA)
    parser.add_argument("--small", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    plan, clock = PLAN, microseconds
    if arguments.small:
        plan, clock = SMALL, each_at_once
    torch.manual_seed(0)
    tuning = Tuning(plan, clock)
    report: dict[str, Any] = {
        "machine": describe_machine(),
        "how": HOW,
        "gpu": gpu_facts(),
        "batches": tuning.batches(),
    }
    path = path_of(arguments.folder, "tuning", report["machine"]["device"])
    seconds = report["seconds"] = {}
    for part in PARTS:
        start = time.monotonic()
        if start > tuning.until:
            report.setdefault("failed", {})[part] = "out of time"
            continue
        try:
            report[part] = getattr(tuning, part)()
        except Exception:  # what else there is to measure is measured
            report.setdefault("failed", {})[part] = traceback.format_exc()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        seconds[part] = round(time.monotonic() - start, 1)
        print(part, seconds[part], report.get("failed", {}).get(part, ""), flush=True)
        path.write_text(as_text(packed(report)))
    print(path, json.dumps(report.get("checks", {}), indent=1))
    if report.get("failed") or report["checks"].get("wrong"):
        raise SystemExit("not all of it could be measured, or something is wrong")


def packed(report: dict[str, Any]) -> dict[str, Any]:
    """The report with its many rows as lists, as `measured_tuning` unpacks them."""
    report, compiled = dict(report), {}
    for part in {"splits", "sweep"} & set(report):
        for row in [row for rows in report[part].values() for row in rows]:
            key = *(row[name] for name in SIZES[:3]), row["num_splits"] > 1
            facts = {name: row.get(name) for name in (*COMPILED, "why")}
            compiled[key] = [*key, *facts.values()]
        report[part] = _as_lists(report[part])
    cells = {shape: _as_lists(each) for shape, each in report.get("cells", {}).items()}
    return report | {"cells": cells, "compiled": list(compiled.values())}


def _as_lists(rows_of: dict[str, list[dict]]) -> dict[str, list[list]]:
    return {
        name: [[row[key] for key in (*SIZES, "us")] for row in rows]
        for name, rows in rows_of.items()
    }


def as_text(value: Any) -> str:
    """JSON with a line for each row, and numbers to a tenth of a percent."""
    text = json.dumps(rounded(value), indent=1)
    flat = re.compile(r"\{[^{}\[\]]*\}|\[[^{}\[\]]*\]")
    return flat.sub(lambda found: " ".join(found[0].split()), text) + "\n"


if __name__ == "__main__":
    main()
