"""What the L2 fetches at a time: numbers that lie apart, by the hint that CUDA takes.

Appendix C reads numbers that lie apart, and calls what comes together a stretch. The
driver has a setting for that, "the maximum fetch granularity of L2", which it takes as
a hint. Each hint is measured in a process of its own, because it stays.

Writes figures/data/l2-fetch.json.

    python -m benchmarks.gpu.l2_fetch
"""

import ctypes
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.gpu.tuning import as_text
from minipaged.lab.measure.gpu_timing import read_gb_per_s
from minipaged.lab.measure.machine import describe_machine

PATH = Path(__file__).parents[2] / "figures" / "data" / "l2-fetch.json"
GRANULARITY = 5  # the driver's CU_LIMIT_MAX_L2_FETCH_GRANULARITY
HINTS = (None, 32, 64, 128)  # bytes; None: as it is
APART = (1, 4, 8, 16, 32)  # numbers of four bytes


def measured(hint: int | None) -> dict[str, int | Mapping[str, int] | None]:
    """The setting after this hint, and useful GB/s by the bytes between numbers."""
    torch.zeros(1, device="cuda")  # now there is a context, which has the setting
    driver, size = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t()
    if hint:
        assert not driver.cuCtxSetLimit(GRANULARITY, ctypes.c_size_t(hint))
    assert not driver.cuCtxGetLimit(ctypes.byref(size), GRANULARITY)
    rates = {str(4 * n): read_gb_per_s(apart=n, tile=1024) for n in APART}
    return {"hint": hint, "bytes": size.value, "useful_gb_per_s": rates}


def main() -> None:
    assert torch.cuda.is_available(), "this script wants a GPU"
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as processes:
        rows = [*processes.map(measured, HINTS)]
    report = {
        "machine": describe_machine(),
        "how": "as tuning.py measures coalescing; each hint in a process of its own; "
        "useful_gb_per_s: by the bytes from number to number",
        "rows": rows,
    }
    PATH.write_text(as_text(report))
    print(PATH, PATH.read_text())


if __name__ == "__main__":
    main()
