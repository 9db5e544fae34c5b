"""What lesson 6's first four rungs keep busy: counters of the GPU, read by ncu.

ncu (Nsight Compute) comes with CUDA; it runs this module once more, with --launch.
Writes profile-<device>.json to minipaged/lab/measure/data, where lesson 6 finds it.

    python -m benchmarks.gpu.profiled
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.gpu.inputs import decodes
from benchmarks.gpu.one_launch import Layers
from benchmarks.gpu.report import path_of, rounded
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.measured import DATA
from minipaged.lab.tour.ladder import RUNGS

METRICS = {
    "us": "gpu__time_duration.sum",
    "instructions": "smsp__inst_executed.sum",
    "computing": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "shared_memory": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "large_memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_cycles": "l1tex__data_pipe_lsu_wavefronts.sum",
    "shared_cycles": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "conflict_cycles": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "shuffles": "smsp__sass_thread_inst_executed_op_inter_thread_communication_pred_on"
    ".sum",
}
UNITS, COUNTS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "%": 1.0}, ("inst", "")
HOW = """64 sequences of 4,096 tokens, 32 query and 8 KV heads of 128, bfloat16, blocks
of 16, shuffled; one launch of each; computing, shared_memory (one unit with the L1
cache) and large_memory: percent of the most that this part can do; instructions: of all
warps; l1_cycles: in which the unit of shared memory and L1 moves data, on all
multiprocessors; shared_cycles: those of them for shared memory, and for shuffles, which
count in all threads; conflict_cycles: those lost to bank conflicts; tiles: of 16
positions of a KV head"""
TILES = 64 * 8 * 4096 // 16
COUNTED = list(RUNGS)[:4]


def launch() -> None:
    """Each rung once, to be profiled."""
    layers = Layers((32, 8, 128), decodes(64, 4096))
    for rung in COUNTED:
        RUNGS[rung](layers.q, layers.caches[0], layers.batch, layers.masking)
    torch.cuda.synchronize()


def read(text: str) -> list[dict[str, float]]:
    """What ncu printed as CSV: a row for each launch, in METRICS' names and in µs."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    units, *rows = csv.DictReader(lines)
    return [
        {name: _number(row[of], units[of]) for name, of in METRICS.items()}
        for row in rows
    ]


def _number(written: str, unit: str) -> float:
    """What is counted, as an int; all else as a float."""
    number = float(written.replace(",", ""))
    return round(number) if unit in COUNTS else number * UNITS[unit]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="what ncu runs")
    parser.add_argument("--folder", type=Path, default=DATA)
    arguments = parser.parse_args()
    if arguments.launch:
        launch()
        return
    command = ["ncu", "--csv", "--page=raw", "--clock-control=none"]
    command += [
        "--kernel-name=regex:head_kernel",
        f"--metrics={','.join(METRICS.values())}",
    ]
    command += [sys.executable, "-m", "benchmarks.gpu.profiled", "--launch"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    machine, rows = describe_machine(), dict(zip(COUNTED, read(printed), strict=True))
    report = {"machine": machine, "how": HOW.replace("\n", " "), "tiles": TILES}
    report["rungs"] = rounded(rows)
    path = path_of(arguments.folder, "profile", machine["device"])
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
