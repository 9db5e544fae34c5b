"""A million random operations on the scheduler that preempts; no torch is needed.

    python -m benchmarks.cpu.preempting           prints
    python -m benchmarks.cpu.preempting --save    also writes cpu-preempting.json
    python -m benchmarks.cpu.preempting --operations 20000

After each operation everything is checked (tests/helpers/preempting_machine.py), and
every answer must be the right one. Seeds are shared among processes.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from multiprocessing import Pool
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).parents[2]
OUT = ROOT / "figures" / "data" / "cpu-preempting.json"
PART = 10_000  # operations with one seed


def part(seed: int) -> Counter:
    """What was seen in the operations of this seed."""
    from helpers.preempting_machine import run_operations

    return run_operations(seed, PART)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    arguments = parser.parse_args()
    sys.path.append(str(ROOT / "tests"))
    num_parts = -(-arguments.operations // PART)
    seen, start = Counter(), time.perf_counter()
    with Pool(arguments.processes) as pool:
        parts = pool.imap_unordered(part, range(num_parts))
        for found in tqdm(parts, total=num_parts, unit_scale=PART, unit=" operations"):
            seen += found
    seconds = time.perf_counter() - start
    print(f"{num_parts * PART:,} operations in {seconds:.0f} s: all answers are right")
    for what, count in seen.most_common():
        print(f"{what:12} {count:>12,}")
    if arguments.save:
        from minipaged.lab.measure.machine import describe_machine

        report = {"machine": describe_machine(), "operations": num_parts * PART}
        report |= {"seconds": round(seconds, 1), "seen": dict(seen.most_common())}
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
