"""Lab: timing on a GPU: CUDA-graph replay, inputs rotated, median; what it reads."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from minipaged.attention.kernels.setup import INTERPRETED, tl, triton

ROTATED_BYTES = 256 * 2**20  # the L2 of the largest GPU we know has 126 MB

WARM_UP_SECONDS = 0.1


def microseconds(
    calls: Sequence[Callable[[], object]],
    replays: int = 11,
    warm_up_seconds: float = WARM_UP_SECONDS,
) -> float:
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
    until = time.perf_counter() + warm_up_seconds
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
def _sum_kernel(numbers, sums, each, APART: tl.constexpr, TILE: tl.constexpr):
    """Every program adds up each APART-th of its numbers, a tile of them at a time."""
    start = tl.program_id(0).to(tl.int64) * each
    total = tl.zeros([TILE], tl.float32)
    for first in range(0, each, APART * TILE):
        total += tl.load(numbers + start + first + APART * tl.arange(0, TILE))
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


def read_gb_per_s(
    num_numbers: int = 2**30,
    apart: int = 1,
    tile: int = 4096,
    clock: Callable[[Sequence[Callable[[], object]]], float] = microseconds,
) -> int:
    """The read ceiling: GB/s of a kernel that adds up float32, and does no more.

    apart: only each so many-th number is added, and only those count; neighbouring
    threads then read what does not lie side by side. num_numbers: a multiple of 2**15
    and of apart * tile.
    """
    numbers = torch.randn(num_numbers, device="cpu" if INTERPRETED else "cuda")
    programs = min(2**15, num_numbers // (apart * tile))
    sums, each = numbers.new_empty(programs), num_numbers // programs

    def add_up() -> None:
        _sum_kernel[programs,](numbers, sums, each, apart, tile)

    us = clock([add_up] * 3)
    used = numbers.view(programs, each)[:, ::apart]
    assert (sums - used.sum(1, dtype=torch.float64)).abs().max() < 1.0
    return round(4 * used.numel() / us / 1e3)
