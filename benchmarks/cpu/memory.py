"""What the tables cost: allocate and release, and the import of the package.

make bench                       prints
make bench BENCH_FLAGS=--save    also writes figures/data/cpu-memory.json
"""

import json
import statistics
import subprocess
import sys
import timeit
from pathlib import Path

import minipaged as mp
from minipaged.lab.measure.machine import describe_machine

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-memory.json"
IMPORT = """
import time
start = time.perf_counter()
import minipaged
seconds = time.perf_counter() - start
import sys
assert "torch" not in sys.modules
print(seconds)
"""


def microseconds_per_pair(num_blocks: int, pairs: int = 100_000) -> float:
    """Median over seven rounds of one allocate and one release."""
    pool = mp.BlockPool(num_blocks, block_size=16)
    allocate, release = pool.allocate, pool.release
    rounds = timeit.repeat(lambda: release(allocate()), number=pairs, repeat=7)
    return 1e6 * statistics.median(rounds) / pairs


def import_milliseconds() -> float:
    """Median of seven fresh interpreters."""
    command = [sys.executable, "-c", IMPORT]
    runs = [subprocess.run(command, capture_output=True, check=True) for _ in range(7)]
    return 1e3 * statistics.median(float(run.stdout) for run in runs)


def main() -> None:
    pairs = {n: round(microseconds_per_pair(n), 3) for n in (10**2, 10**4, 10**6)}
    report = {
        "machine": describe_machine(),
        "allocate_and_release_microseconds": pairs,
        "ratio_of_1e6_to_1e2_blocks": round(pairs[10**6] / pairs[10**2], 3),
        "import_milliseconds": round(import_milliseconds(), 1),
    }
    if "--save" in sys.argv[1:]:
        OUT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
