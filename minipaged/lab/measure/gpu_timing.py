"""Lab: timing on a GPU: CUDA-graph replay, inputs rotated, median; what it reads."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from minipaged.attention.kernels.setup import tl, triton

ROTATED_BYTES = 256 * 2**20  # the L2 of the largest GPU we know has 126 MB

WARM_UP_SECONDS = 0.1


def microseconds(calls: Sequence[Callable[[], object]], replays: int = 11) -> float:
    """Median time of one call. The calls run after each other in one CUDA graph.

    Each call has inputs of its own, so that together they read far more than the L2
    holds: a layer of a model does not find its K and V there either.
    """
    calls[0]()  # compiled and planned outside of the graph
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    until = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < until:  # an idle GPU has slow clocks
        graph.replay()
        torch.cuda.synchronize()
    times = []
    for _ in range(replays):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(1e3 * start.elapsed_time(stop) / len(calls))
    return statistics.median(times)


def num_rotations(nbytes: int) -> int:
    """How many inputs of this size to rotate over; some, also of large ones."""
    return max(4, -(-ROTATED_BYTES // nbytes))


@triton.jit
def _sum_kernel(numbers, sums, each, TILE: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * each
    total = tl.zeros([TILE], tl.float32)
    for offset in range(0, each, TILE):
        total += tl.load(numbers + start + offset + tl.arange(0, TILE))
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


def read_gb_per_s(num_numbers: int = 2**30) -> int:
    """The read ceiling: GB/s of a kernel that adds up so many float32, and no more."""
    numbers = torch.randn(num_numbers, device="cuda")
    programs = 2**15
    sums = torch.empty(programs, device="cuda")
    each = len(numbers) // programs
    us = microseconds([lambda: _sum_kernel[programs,](numbers, sums, each, 4096)] * 3)
    expected = numbers.view(programs, each).sum(1, dtype=torch.float64)
    assert (sums - expected).abs().max() < 1.0
    return round(numbers.nbytes / us / 1e3)
