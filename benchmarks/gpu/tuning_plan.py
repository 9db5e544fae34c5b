"""Which batches, sizes and splits benchmarks/gpu/tuning.py measures."""

from typing import NamedTuple

from benchmarks.gpu.grid import GRID, OTHER_CELLS, SHAPES
from benchmarks.gpu.inputs import Lengths, Shape, decodes, ragged


class Plan(NamedTuple):
    """What is measured."""

    shape: Shape
    batches: dict[str, Lengths]
    ladder: list[str]  # batches
    tiles: tuple[int, ...]
    warps: tuple[int, ...]
    stages: tuple[int, ...]
    sweep: dict[str, tuple[int, ...]]  # batches, and in how many splits
    splits: tuple[int, ...]
    split_batches: list[str]
    split_sizes: list[tuple[int, int, int]]  # tile, warps, stages
    paging: list[str]  # batches
    block_sizes: tuple[int, ...]
    shapes: list[Shape]
    cells: dict[str, Lengths]  # in all shapes, with fewer sizes
    cell_sizes: list[tuple[int, int, int]]
    apart: tuple[int, ...]  # of numbers that neighbouring threads read
    num_numbers: int  # among which they lie
    rounds: int  # in which what matters is measured


PLAN = Plan(
    shape=(32, 8, 128),
    batches={
        "1x8k": decodes(1, 8192),
        "8x4k": decodes(8, 4096),
        "32x2k": decodes(32, 2048),
        "64x4k": decodes(64, 4096),
        "256x128..4096": ragged(256, 128, 4096),
        "1x64k": decodes(1, 65536),
    },
    ladder=["1x8k", "8x4k", "32x2k", "64x4k", "256x128..4096"],
    tiles=(16, 32, 64, 128),
    warps=(1, 2, 4, 8),
    stages=(1, 2, 3, 4, 5, 7),
    sweep={
        "1x8k": (8, 16, 33, 66, 128),
        "8x4k": (1, 2, 4, 8, 16),
        "32x2k": (1, 2, 4),
        "64x4k": (1, 2),
        "256x128..4096": (1, 2),
    },
    splits=(1, 2, 4, 8, 16, 33, 66, 128),
    split_batches=["1x8k", "8x4k", "32x2k", "64x4k"],
    split_sizes=[(32, 1, 5), (64, 2, 4), (128, 4, 3)],
    paging=["1x64k", "8x4k", "64x4k", "256x128..4096"],
    block_sizes=(1, 2, 4, 8, 16, 32, 64, 128),
    shapes=list(SHAPES.values()),
    cells=GRID | OTHER_CELLS,
    cell_sizes=[
        (64, 2, 5),
        (64, 2, 4),
        (128, 4, 2),
        (128, 4, 3),
        (32, 1, 5),
        (64, 4, 5),
    ],
    apart=(1, 2, 4, 8, 16, 32),
    num_numbers=2**30,
    rounds=3,
)

SMALL = Plan(  # a piece of everything, as fast as the interpreter can
    shape=(4, 2, 16),
    batches={"1x20": decodes(1, 20), "2x1..20": ragged(2, 1, 20)},
    ladder=["2x1..20"],
    tiles=(16,),
    warps=(1,),
    stages=(1, 3),
    sweep={"1x20": (1, 2)},
    splits=(1, 2),
    split_batches=["1x20"],
    split_sizes=[(16, 1, 1)],
    paging=["2x1..20"],
    block_sizes=(1, 16),
    shapes=[(2, 2, 16)],
    cells={"1x9": decodes(1, 9)},
    cell_sizes=[(16, 1, 1)],
    apart=(1, 4),
    num_numbers=2**14,
    rounds=1,
)
