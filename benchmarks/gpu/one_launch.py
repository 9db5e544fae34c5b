"""Decode in one launch a layer, beside lesson 6's launches, and the time of reading.

Batches as an engine has them: contexts of random length, and a grid of even ones. All
times are of CUDA-graph replays, K and V of many layers in turn; a step's plan is made
once, and timed by itself. Checked first against lesson 6's kernels.

What reading takes is told twice: measured, by a kernel that adds up as many bytes of
the same K and V, a launch a layer, as a step has them; and computed, from what a kernel
reads in a second that is launched once for 4 GiB.

    python -m benchmarks.gpu.one_launch --out figures/data/gpu-one-launch.json
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.gpu.grid import GRID, OTHER_CELLS
from benchmarks.gpu.inputs import (
    BLOCK_SIZE,
    DEVICE,
    DTYPE,
    Lengths,
    Shape,
    blocks_of,
    make_batch,
    ragged,
    random_pool,
)
from benchmarks.gpu.report import rounded
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.write import write_kv
from minipaged.lab.measure.gpu_timing import microseconds, num_rotations, read_gb_per_s
from minipaged.lab.measure.machine import describe_machine
from minipaged.memory.kv_cache import LayerCache

READERS = [  # numbers in a tile, programs on each multiprocessor, warps of a program
    (2048, 64, 4),
    (4096, 64, 4),
    (8192, 8, 8),
    (8192, 16, 8),
    (8192, 64, 8),
    (8192, 128, 8),
]
QWEN = (16, 8, 128)  # Qwen3-0.6B: query heads, KV heads, head_dim
SHAPES = {"16/8/128": QWEN, "32/8/128": (32, 8, 128), "14/2/64": (14, 2, 64)}
RAGGED = {f"{n}x100..2048": ragged(n, 100, 2048) for n in (32, 64, 128, 256)}
LONG_TAIL = {"1x16k and 63x512": [(16383, 1), *[(511, 1)] * 63]}
LAYERS = 28


@triton.jit
def _add_up_kernel(keys, values, sums, size, TILE: tl.constexpr):
    """The programs take turns at the tiles, and each adds up what it reads."""
    total = tl.zeros([TILE], tl.int32)
    stride = tl.num_programs(0) * TILE
    for first in range(tl.program_id(0) * TILE, size, stride):
        place = first + tl.arange(0, TILE)
        total += tl.load(keys + place, mask=place < size, other=0)
        total += tl.load(values + place, mask=place < size, other=0)
    tl.store(sums + tl.program_id(0), tl.sum(total.to(tl.int64), 0))


class Layers:
    """K and V of several layers, and one batch that all of them attend."""

    def __init__(self, shape: Shape, lengths: Lengths):
        heads, kv_heads, dim = shape
        needed, size = blocks_of(lengths), (len(lengths), kv_heads, dim)
        self.nbytes = sum(a + b for a, b in lengths) * kv_heads * dim * 2 * 2
        count = max(LAYERS, num_rotations(self.nbytes))
        # Layers may share memory once they are more than the L2 holds; but not the
        # first, with which a step begins.
        pools = [random_pool(needed, shape) for _ in range(num_rotations(self.nbytes))]
        first, *others = (LayerCache(*pool) for pool in pools)
        self.caches = [first, *(others[at % len(others)] for at in range(count - 1))]
        self.batch = make_batch(lengths, torch.randperm(needed))
        last = self.batch.context_lengths - 1
        blocks = self.batch.block_tables.gather(1, last[:, None] // BLOCK_SIZE)[:, 0]
        self.batch.slots = blocks * BLOCK_SIZE + last % BLOCK_SIZE
        options = {"device": DEVICE, "dtype": DTYPE}
        self.q = torch.randn(len(lengths), heads, dim, **options)
        self.k, self.v = torch.randn(2, *size, **options)
        self.masking = Masking(dim**-0.5)

    def one_launch(self, cache: LayerCache) -> torch.Tensor:
        """A layer's step; the first layer begins a new one, and plans it."""
        if cache is self.caches[0]:
            self.batch.scratch.clear()
        given = self.q, self.k, self.v, cache, self.batch, self.masking
        return triton_attention.step(*given)

    def several(self, cache: LayerCache) -> torch.Tensor:
        """The same by lesson 6: write, decode, and merge if there are splits."""
        write_kv(cache.keys, cache.values, self.batch.slots, self.k, self.v)
        return triton_attention(self.q, cache, self.batch, self.masking)

    def numbers(self, cache: LayerCache) -> list[torch.Tensor]:
        """A layer's K and V, each four bytes taken for one number."""
        return [side.view(-1).view(torch.int32) for side in (cache.keys, cache.values)]

    def read(self, cache: LayerCache, tile: int, programs: int, warps: int):
        """Add up as many bytes of a layer's K and V as its step reads, and no more."""
        size, (keys, values) = self.nbytes // 2 // 4, self.numbers(cache)
        grid = (programs * torch.cuda.get_device_properties(0).multi_processor_count,)
        sums = torch.empty(grid, dtype=torch.int64, device=DEVICE)
        _add_up_kernel[grid](keys, values, sums, size, TILE=tile, num_warps=warps)
        return sums

    def read_microseconds(self) -> float:
        """Of a layer, by the quickest of several readers, which are checked first."""
        size, cache = self.nbytes // 2 // 4, self.caches[0]
        right = sum(side[:size].sum() for side in self.numbers(cache))
        times = []
        for reader in READERS:
            found = self.read(cache, *reader).sum()
            assert (found - right) % 2**32 == 0, f"{reader}: {found}, not {right}"
            times.append(
                self.microseconds(lambda cache, r=reader: self.read(cache, *r))
            )
        return min(times)

    def check(self) -> None:
        """Both agree, and one launch says the same again and again."""
        expected = self.several(self.caches[0]).float()
        found = self.one_launch(self.caches[0])
        error = (found.float() - expected).norm() / expected.norm()
        assert error < 0.005, f"error {error:.1e}"
        for _ in range(20):
            assert torch.equal(found, self.one_launch(self.caches[0]))

    def microseconds(self, call: Callable[[LayerCache], object]) -> float:
        """Of one layer, in a step of all layers: a plan's share is part of it."""
        return microseconds([lambda c=cache: call(c) for cache in self.caches])

    def host_microseconds(self, call: Callable[[LayerCache], object]) -> float:
        """What one eager call costs the host; the plan is made already."""
        call(self.caches[0])
        call(self.caches[1])
        times = []
        for _ in range(7):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                call(self.caches[1])
            times.append((time.perf_counter() - start) / 200 * 1e6)
        return statistics.median(times)


def measure(shape: Shape, lengths: Lengths, read: float) -> dict[str, float]:
    """A row: microseconds of a layer, and of its bytes alone; floor: at `read` GB/s."""
    layers = Layers(shape, lengths)
    layers.check()
    floor = layers.nbytes / read / 1e3
    row = {"floor": floor, "read": layers.read_microseconds()}
    row["several"] = layers.microseconds(layers.several)
    row["one_launch"] = layers.microseconds(layers.one_launch)
    # As a graph has it that is captured for any lengths.
    layers.batch.min_context_length, layers.batch.scratch = 1, {}
    row["several_any"] = layers.microseconds(layers.several)
    row["one_launch_any"] = layers.microseconds(layers.one_launch)
    row["of_floor"] = row["one_launch_any"] / floor
    row["of_read"] = row["one_launch_any"] / row["read"]
    row["of_several"] = row["one_launch"] / row["several"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    torch.manual_seed(0)
    read = read_gb_per_s()
    report: dict[str, Any] = {
        "machine": describe_machine(),
        "how": "bfloat16, blocks of 16, shuffled; microseconds of a layer in a step of "
        f"{LAYERS} or more, its share of the plan included; median of 11 graph "
        "replays; any: sizes of a graph that serves any lengths",
        "read_gb_per_s": read,
    }
    cells = RAGGED | LONG_TAIL | GRID | OTHER_CELLS
    for name, shape in SHAPES.items():
        report[name] = rows = {}
        own = cells if shape == QWEN else RAGGED | GRID
        for cell, lengths in tqdm(own.items(), desc=name):
            rows[cell] = row = rounded(measure(shape, lengths, read))
            print(name, cell, row, flush=True)
    small = Layers(QWEN, [(99, 1)] * 8)
    report["host_us"] = {
        "several": small.host_microseconds(small.several),
        "one_launch": small.host_microseconds(small.one_launch),
    }
    print(report["host_us"], "read GB/s", read, "then", read_gb_per_s())
    arguments.out.write_text(json.dumps(rounded(report), indent=1) + "\n")


if __name__ == "__main__":
    main()
