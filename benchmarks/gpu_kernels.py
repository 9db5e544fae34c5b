"""How fast the kernels of lesson 6 are, beside torch's own and what the memory can do.

First checks every case against float64. Then measures everything in one run: ceilings,
decode over a grid of shapes, paged against contiguous, peers that are installed, block
sizes, prefill, writing and copying. Writes minipaged/lab/data/kernels-<device>.json,
where lesson 6 and the figures find it.

    python benchmarks/gpu_kernels.py
"""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

import torch
from gpu_checks import check_attention, check_graph, check_ladder, check_writes
from gpu_inputs import BLOCK_SIZE, Lengths, Shape, blocks_of, make_batch, random_pool
from gpu_peers import peers_for, versions
from gpu_timing import ceilings
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from tqdm import tqdm

from minipaged.attention.triton_attention import triton_attention
from minipaged.attention.triton_write import copy_blocks, write_kv
from minipaged.lab.gpu_timing import microseconds, num_rotations
from minipaged.lab.ladder import RUNGS
from minipaged.lab.machine import describe_machine
from minipaged.lab.measured import DATA

SHAPES = {  # query heads, KV heads, head_dim
    "32 query heads, 8 KV heads, 128": (32, 8, 128),
    "16 query heads, 8 KV heads, 128": (16, 8, 128),
    "14 query heads, 2 KV heads, 64": (14, 2, 64),
    "32 query heads, 32 KV heads, 128": (32, 32, 128),
}
LLAMA = (32, 8, 128)


def decodes(num_seqs: int, context: int) -> Lengths:
    return [(context - 1, 1)] * num_seqs


def ragged(num_seqs: int, shortest: int, longest: int) -> Lengths:
    generator = torch.Generator().manual_seed(0)
    contexts = torch.randint(shortest, longest + 1, (num_seqs,), generator=generator)
    return [(context - 1, 1) for context in contexts.tolist()]


GRID = {
    "1x1k": decodes(1, 1024),
    "1x8k": decodes(1, 8192),
    "1x64k": decodes(1, 65536),
    "8x4k": decodes(8, 4096),
    "32x2k": decodes(32, 2048),
    "64x4k": decodes(64, 4096),
    "128x2k": decodes(128, 2048),
    "256x1k": decodes(256, 1024),
    "256x128..4096": ragged(256, 128, 4096),
}
OTHER_CELLS = {  # the rules for sizes were first made without them, on GRID
    "24x4k": decodes(24, 4096),
    "40x4k": decodes(40, 4096),
    "48x2k": decodes(48, 2048),
    "16x128..4096": ragged(16, 128, 4096),
    "100x128..4096": ragged(100, 128, 4096),
}
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


def check_everything() -> dict[str, dict]:
    """Errors of all cases; AssertionError if one is wrong."""
    check_writes(MORE_THAN_INT32, LLAMA)
    check_graph(LLAMA)
    check_ladder(LLAMA, ragged(5, 1, 300), 0.1)
    errors = {}
    for shape, options in tqdm(ODD_CASES, desc="odd cases"):
        errors[f"{shape} {options}"] = check_attention(shape, MIXED, **options)
    large = {"num_blocks": MORE_THAN_INT32}
    errors["more than 2**31 numbers"] = check_attention(LLAMA, MIXED, **large)
    window = check_attention((32, 32, 128), [(0, 4096)], sliding_window=5)
    errors["window shorter than a tile"] = window
    for name, shape in SHAPES.items():
        for cell, lengths in tqdm((GRID | OTHER_CELLS).items(), desc=name):
            errors[f"{name}, {cell}"] = check_attention(shape, lengths)
    for cell, lengths in tqdm(PREFILL.items(), desc="prefill"):
        errors[f"prefill, {cell}"] = check_attention(LLAMA, lengths)
    return errors


def kv_bytes(shape: Shape, lengths: Lengths) -> int:
    """Bytes of K and V that must be read."""
    return sum(before + new for before, new in lengths) * shape[1] * shape[2] * 2 * 2


def ours(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, batch, scale: float
):
    """The package's attention, called as the rungs of the ladder are."""
    return triton_attention(q, keys, values, batch, scale=scale)


def paged(
    shape: Shape,
    lengths: Lengths,
    shuffled: bool = True,
    any_length: bool = False,
    block_size: int = BLOCK_SIZE,
    attention: Callable[..., torch.Tensor] = ours,
) -> float:
    """Microseconds of a kernel of ours; blocks in random or in ascending order.

    any_length: with the sizes of a graph that is to serve contexts from 1 token on.
    """
    needed = blocks_of(lengths, block_size)
    rotations = num_rotations(kv_bytes(shape, lengths))
    keys, values = random_pool(rotations * needed, shape, block_size)
    order = torch.randperm if shuffled else torch.arange
    ids = order(rotations * needed).view(rotations, needed)
    batches = [make_batch(lengths, own, block_size) for own in ids]
    for batch in batches if any_length else ():
        batch.min_context_length = 1
    num_tokens = batches[0].query_starts[-1].item()
    q = torch.randn(num_tokens, shape[0], shape[2], device="cuda").bfloat16()

    def call(batch) -> Callable[[], torch.Tensor]:
        return lambda: attention(q, keys, values, batch, shape[2] ** -0.5)

    return microseconds([call(batch) for batch in batches])


def peers(shape: Shape, lengths: Lengths) -> dict[str, float]:
    """Microseconds of other paged kernels that are installed, checked against ours."""
    needed, times = blocks_of(lengths), {}
    rotations = num_rotations(kv_bytes(shape, lengths))
    pools = [random_pool(needed, shape) for _ in range(rotations)]
    batch = make_batch(lengths, torch.randperm(needed))
    scale = shape[2] ** -0.5
    num_tokens = batch.query_starts[-1].item()
    q = torch.randn(num_tokens, shape[0], shape[2], device="cuda").bfloat16()
    expected = ours(q, *pools[-1], batch, scale).float()
    for name, prepare in peers_for(batch).items():
        calls = prepare(q, pools, batch)
        times[name] = microseconds(calls)
        error = (calls[-1]().float() - expected).norm()
        assert error < 0.01 * expected.norm(), name
    return times


def contiguous(
    shape: Shape, lengths: Lengths, backend: SDPBackend | None = None
) -> float | None:
    """Microseconds of torch's attention, K and V of each sequence in one piece.

    None where it cannot: for uneven lengths, and where the backend refuses.
    """
    (before, new), num_seqs = lengths[0], len(lengths)
    if len(set(lengths)) > 1 or (before and new > 1):
        return None
    rotations = num_rotations(kv_bytes(shape, lengths))
    heads, kv_heads, dim = shape
    options = {"device": "cuda", "dtype": torch.bfloat16}
    size = (rotations, num_seqs, kv_heads, before + new, dim)
    keys, values = torch.randn(size, **options), torch.randn(size, **options)
    q = torch.randn(num_seqs, heads, new, dim, **options)

    def call(k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor]:
        return lambda: scaled_dot_product_attention(
            q, k, v, is_causal=new > 1, enable_gqa=True
        )

    calls = [call(k, v) for k, v in zip(keys, values, strict=True)]
    if backend is None:
        return microseconds(calls)
    expected = calls[-1]().float()
    try:
        with sdpa_kernel(backend):
            us, found = microseconds(calls), calls[-1]().float()
    except RuntimeError:
        return None
    assert (found - expected).norm() < 0.01 * expected.norm(), backend
    return us


def measure_decode(shape: Shape, lengths: Lengths) -> dict:
    """One cell of the grid."""
    nbytes, us = kv_bytes(shape, lengths), paged(shape, lengths)
    return {
        "kv_megabytes": round(nbytes / 1e6, 1),
        "paged": us,
        "same_kernel_contiguous": paged(shape, lengths, shuffled=False),
        "torch_contiguous": contiguous(shape, lengths),
        "cudnn_contiguous": contiguous(shape, lengths, SDPBackend.CUDNN_ATTENTION),
        "peers": peers(shape, lengths),
        "paged_again": paged(shape, lengths),  # how far to believe a difference
        "gb_per_s": round(nbytes / us / 1e3),
    }


def measure_prefill(shape: Shape, lengths: Lengths) -> dict:
    """One prefill; its operations are those of the pairs that are not masked."""
    pairs = sum(new * before + new * (new + 1) / 2 for before, new in lengths)
    operations = 4 * shape[0] * shape[2] * pairs
    times = {
        "paged": paged(shape, lengths),
        "torch_contiguous": contiguous(shape, lengths),
        "cudnn_contiguous": contiguous(shape, lengths, SDPBackend.CUDNN_ATTENTION),
    }
    others = peers(shape, lengths)
    rates = {
        f"{name}_tflop_per_s": us and round(operations / us / 1e6)
        for name, us in (times | others).items()
    }
    return times | {"peers": others} | rates


def measure_write(num_tokens: int, shape: Shape) -> dict:
    """New K and V of these tokens, to random slots; bytes read and written."""
    nbytes = 2 * 2 * num_tokens * shape[1] * shape[2] * 2
    num_blocks = max(4 * num_tokens // BLOCK_SIZE, 64)
    keys, values = random_pool(num_blocks, shape)
    calls = []
    for _ in range(num_rotations(nbytes)):
        slots = torch.randperm(num_blocks * BLOCK_SIZE, device="cuda")[:num_tokens]
        new = torch.randn(2, num_tokens, *shape[1:], device="cuda").bfloat16()
        calls.append(lambda s=slots, n=new: write_kv(keys, values, s, *n))
    return _moved(nbytes, microseconds(calls))


def measure_copy(num_copies: int, shape: Shape, num_layers: int = 28) -> dict:
    """Copies of whole blocks in all layers, in one launch; bytes read and written."""
    pools = [random_pool(2048, shape) for _ in range(num_layers)]
    tensors = [tensor for pool in pools for tensor in pool]
    nbytes = 2 * num_copies * sum(tensor[0].nbytes for tensor in tensors)
    calls = []
    for _ in range(num_rotations(nbytes)):
        copies = torch.randperm(2048, device="cuda")[: 2 * num_copies].view(-1, 2)
        calls.append(lambda c=copies: copy_blocks(tensors, c))
    return _moved(nbytes, microseconds(calls))


def _moved(nbytes: int, us: float) -> dict[str, float]:
    """A row of the report; beside it, a plain copy that reads and writes as much."""
    rotations = num_rotations(nbytes)
    source, target = torch.randn(2, rotations, nbytes // 8, device="cuda")
    pairs = list(zip(source, target, strict=True))
    plain = microseconds([lambda s=s, t=t: torch.mul(s, 1.0, out=t) for s, t in pairs])
    return {
        "megabytes": nbytes / 1e6,
        "us": us,
        "gb_per_s": round(nbytes / us / 1e3),
        "plain_copy_gb_per_s": round(nbytes / plain / 1e3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=DATA)
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    torch.manual_seed(0)
    report = {
        "machine": describe_machine(),
        "peers": versions(),
        "how": "bfloat16, block size 16, microseconds; median of 11 CUDA-graph "
        "replays; inputs rotate over 256 MiB or more; tables shuffled",
        "errors": check_everything(),
        "ceilings": ceilings(),
    }
    report["decode"] = {
        name: {
            cell: measure_decode(shape, lengths)
            for cell, lengths in tqdm(GRID.items(), desc=name)
        }
        for name, shape in SHAPES.items()
    }
    report["decode_other_cells"] = {
        name: {
            cell: measure_decode(shape, lengths)
            for cell, lengths in tqdm(OTHER_CELLS.items(), desc=f"more of {name}")
        }
        for name, shape in SHAPES.items()
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
    report["ladder"] = {
        cell: {name: paged(LLAMA, GRID[cell], attention=RUNGS[name]) for name in RUNGS}
        for cell in ("1x8k", "8x4k", "64x4k")
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
    device = re.sub(r"[^a-z0-9]+", "-", report["machine"]["device"].lower())
    arguments.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_rounded(report), indent=1)
    (arguments.folder / f"kernels-{device}.json").write_text(text + "\n")
    print(text)


def _rounded(value):
    """Times to a tenth of a percent: what is behind that is noise."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
