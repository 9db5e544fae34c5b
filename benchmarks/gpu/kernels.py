"""How fast the kernels of lesson 6 are, beside torch's own and what the memory can do.

First checks every case against float64. Then measures everything in one run: ceilings,
decode over a grid of shapes, paged against contiguous, peers that are installed, block
sizes, prefill, writing and copying. Writes kernels-<device>.json to
minipaged/lab/measure/data, where appendix C and the figures find it.

    python -m benchmarks.gpu.kernels
"""

import argparse
import json
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks.gpu.ceilings import ceilings
from benchmarks.gpu.checks import check_attention, check_graph, check_writes
from benchmarks.gpu.grid import GRID, OTHER_CELLS, SHAPES
from benchmarks.gpu.inputs import BLOCK_SIZE, Shape, decodes
from benchmarks.gpu.measure import (
    measure_copy,
    measure_decode,
    measure_prefill,
    measure_write,
    paged,
    step,
)
from benchmarks.gpu.peers import versions
from benchmarks.gpu.report import path_of, rounded
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.measured import DATA

LLAMA = (32, 8, 128)


PREFILL = {
    "1 x 8k": [(0, 8192)],
    "8 x 2k": [(0, 2048)] * 8,
    "4 x 512 over 2k": [(2048, 512)] * 4,
    "4 x 512 fresh and 64 decodes at 2k": [(0, 512)] * 4 + decodes(64, 2048),
}
MIXED = [(0, 1), (17, 1), (300, 1), (0, 170), (120, 50), (5, 9), (1000, 1)]
ODD_CASES = [  # shape and options, over MIXED
    ((6, 2, 80), {}),
    ((10, 2, 96), {"sliding_window": 33}),
    ((8, 1, 192), {}),
    ((4, 2, 256), {"softcap": 5.0}),
    ((71, 1, 64), {}),
    (LLAMA, {"softcap": 30.0, "sliding_window": 100, "scale": 0.2}),
    (LLAMA, {"dtype": torch.float16}),
    (LLAMA, {"dtype": torch.float32}),
    *((LLAMA, {"block_size": size}) for size in (8, 32, 64, 128)),
]
MORE_THAN_INT32 = 2**31 // (BLOCK_SIZE * 8 * 128) + 2000  # blocks, for 8 heads of 128


def check_everything(shapes: dict[str, Shape]) -> dict[str, dict]:
    """Errors of all cases, the grid in these shapes; AssertionError if one is wrong."""
    check_writes(MORE_THAN_INT32, LLAMA)
    check_graph(LLAMA)
    errors = {}
    for shape, options in tqdm(ODD_CASES, desc="odd cases"):
        errors[f"{shape} {options}"] = check_attention(shape, MIXED, **options)
    large = {"num_blocks": MORE_THAN_INT32}
    errors["more than 2**31 numbers"] = check_attention(LLAMA, MIXED, **large)
    window = check_attention((32, 32, 128), [(0, 4096)], sliding_window=5)
    errors["window shorter than a tile"] = window
    for name, shape in shapes.items():
        for cell, lengths in tqdm((GRID | OTHER_CELLS).items(), desc=name):
            errors[f"{name}, {cell}"] = check_attention(shape, lengths)
    for cell, lengths in tqdm(PREFILL.items(), desc="prefill"):
        errors[f"prefill, {cell}"] = check_attention(LLAMA, lengths)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="the first shape alone")
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    shapes = dict([*SHAPES.items()][:1]) if arguments.quick else SHAPES
    torch.manual_seed(0)
    report = {
        "machine": describe_machine(),
        "peers": versions(),
        "how": "bfloat16, block size 16, microseconds; median of 11 CUDA-graph "
        "replays; inputs rotate over 256 MiB or more; tables shuffled",
        "errors": check_everything(shapes),
        "ceilings": ceilings(),
    }
    report["decode"] = {
        name: {
            cell: measure_decode(shape, lengths)
            for cell, lengths in tqdm(GRID.items(), desc=name)
        }
        for name, shape in shapes.items()
    }
    report["decode_other_cells"] = {
        name: {
            cell: measure_decode(shape, lengths)
            for cell, lengths in tqdm(OTHER_CELLS.items(), desc=f"more of {name}")
        }
        for name, shape in shapes.items()
    }
    report["step"] = {  # appendix D's launch, which writes, too
        name: {
            cell: {"step": step(shape, own), "paged": paged(shape, own)}
            for cell, own in tqdm((GRID | OTHER_CELLS).items(), desc=f"step, {name}")
        }
        for name, shape in shapes.items()
    }
    report["decode_any_length"] = {
        cell: paged(LLAMA, lengths, any_length=True) for cell, lengths in GRID.items()
    }
    report["decode_by_block_size"] = {
        cell: {
            size: paged(LLAMA, GRID[cell], block_size=size)
            for size in (8, 16, 32, 64, 128)
        }
        for cell in ("1x64k", "8x4k", "64x4k")
    }
    report["prefill"] = {
        cell: measure_prefill(LLAMA, lengths) for cell, lengths in PREFILL.items()
    }
    report["write_kv"] = {
        n: measure_write(n, LLAMA) for n in (1, 64, 1024, 8192, 16384, 65536)
    }
    report["copy_blocks"] = {n: measure_copy(n, LLAMA) for n in (1, 18, 36, 64, 512)}
    again = ceilings()  # the GPU may have been busier, or hotter, at one end
    report["ceilings"] = {n: max(x, again[n]) for n, x in report["ceilings"].items()}
    path = path_of(arguments.folder, "kernels", report["machine"]["device"])
    text = json.dumps(rounded(report), indent=1)
    path.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
