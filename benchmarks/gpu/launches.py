"""What is launched, with which sizes, and what Triton has made of it."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from minipaged.attention.kernels.decode import _decode_kernel
from minipaged.attention.kernels.setup import INTERPRETED, triton
from minipaged.lab.measure.gpu_timing import microseconds
from minipaged.lab.measure.occupancy import programs_that_fit

Row = dict[str, Any]
Calls = Sequence[Callable[[], object]]
Clock = Callable[[Calls], float]


def gpu_facts() -> dict[str, Any]:
    """What each multiprocessor of this GPU has."""
    if INTERPRETED:  # numbers to compute with
        gpu = {"multiprocessors": 4, "registers": 2**16, "shared_bytes": 2**18}
        return gpu | {"threads": 2048}
    gpu = torch.cuda.get_device_properties(0)
    return {
        "multiprocessors": gpu.multi_processor_count,
        "registers": gpu.regs_per_multiprocessor,
        "shared_bytes": gpu.shared_memory_per_multiprocessor,
        "threads": gpu.max_threads_per_multi_processor,
        "shared_bytes_of_a_program": gpu.shared_memory_per_block_optin,
        "l2_megabytes": round(gpu.L2_cache_size / 1e6, 1),
    }


@contextmanager
def launched() -> Iterator[list[Row]]:
    """Notes sizes and compiled kernel of every launch within."""
    seen: list[Row] = []
    kind = type(_decode_kernel)
    launch = kind.__getitem__

    def noting(kernel: Any, grid: Any) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            note = {
                "tile": options.get("TILE"),
                "num_warps": options.get("num_warps", 4),
                "num_stages": options.get("num_stages", 3),
                "num_splits": grid[2] if len(grid) > 2 else 1,
            }
            seen.append(note)
            note["compiled"] = launch(kernel, grid)(*args, **options)
            return note["compiled"]

        return run

    with patch.object(kind, "__getitem__", noting):  # kernel[grid](...)
        yield seen


def measure(calls: Calls, clock: Clock = microseconds) -> Row:
    """A row of the report: the first kernel that a call launches, and its time."""
    with launched() as seen:
        try:
            calls[0]()
            why = None
        except triton.OutOfResources as error:
            why = f"{error.name}: {error.required} wanted, {error.limit} there are"
        except Exception as error:  # of one way to launch; the others are measured
            why = f"{type(error).__name__}: {error}"[:300]
    row = seen[0] if seen else {}
    compiled = row.pop("compiled", None)
    if why:
        return row | {"us": None, "why": why}
    return row | {"us": clock(calls)} | _facts(compiled, row["num_warps"])


def _facts(compiled: Any, num_warps: int) -> Row:
    """What the compiled kernel takes of a multiprocessor."""
    if compiled is None:  # interpreted: numbers to compute with
        registers, spilled, shared = 128, 0, 40_000
    else:
        registers, shared = compiled.n_regs, compiled.metadata.shared
        spilled = 4 * compiled.n_spills  # Triton counts words
    fit = programs_that_fit(gpu_facts(), num_warps, registers, shared)
    if compiled is not None:
        fit = _asked_of_the_driver(compiled.function, num_warps, shared) or fit
    return {
        "registers": registers,
        "spilled_bytes": spilled,
        "shared_bytes": shared,
        "programs": fit,
    }


def _asked_of_the_driver(function: int, num_warps: int, shared: int) -> int | None:
    """Programs that fit on a multiprocessor; None where the driver does not say."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    found = ctypes.c_int()
    failed = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(found),
        ctypes.c_void_p(function),
        ctypes.c_int(32 * num_warps),
        ctypes.c_size_t(shared),
    )
    return None if failed else found.value
