"""Batches with prompts, drawn from a seed, on which nothing was tuned; beside peers.

Many shapes of heads; prompts alone, ragged prompts, chunks of long contexts, prompts
beside sequences that decode, windows and sinks. Ours is the default attention, as an
engine calls it, and lesson 6's kernel for prompts alone; the peers are FlashAttention-3
on the same blocks and, for a prompt alone, cuDNN on contiguous K and V.

Before all, ours is checked against float64, with numbers that no sum rounds; and before
it is timed, each batch against lesson 6. Writes prompts-<device>.json, or of a seed
other than 0 prompts-seed-<seed>-<device>.json, anew after every batch.

    python -m benchmarks.gpu.prompts
    python -m benchmarks.gpu.prompts --library _vllm_fa3_C.abi3.so  # without vLLM
"""

import argparse
import math
import random
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend
from tqdm import tqdm

from benchmarks.gpu.checks import check_exact
from benchmarks.gpu.inputs import (
    DEVICE,
    DTYPE,
    Lengths,
    Shape,
    blocks_of,
    make_batch,
    random_pool,
)
from benchmarks.gpu.measure import contiguous, kv_bytes
from benchmarks.gpu.peers import flash_attention_3, load_flash_attention_3, versions
from benchmarks.gpu.report import path_of, report_batches
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.prefill import paged_prefill
from minipaged.lab.measure.gpu_timing import microseconds, num_rotations
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.measured import DATA
from minipaged.memory.kv_cache import LayerCache

OF_128 = [(32, 8), (64, 8), (28, 4), (32, 32), (8, 1), (16, 8), (40, 8), (24, 2)]
OF_64 = [(32, 8), (14, 2), (64, 8), (71, 1), (12, 12)]
OF_256 = [(16, 16), (8, 4), (16, 2), (10, 1)]
SHAPES: list[Shape] = [
    (*heads, dim)
    for dim, shapes in ((128, OF_128), (64, OF_64), (256, OF_256))
    for heads in shapes
]
KINDS = ["one", "ragged", "chunks", "mixed", "window", "sinks"]
MOST_TOKENS = 16384  # new ones of a batch
MOST_BYTES = 2**30  # of K and V, of a layer
LAYERS = 4
RUNS = 3
HOW = f"""bfloat16, blocks of 16, shuffled; microseconds of a layer in a CUDA graph of
{LAYERS} or more, whose K and V are 256 MiB or more together; kernels in turn, {RUNS}
times, each time the median of 11 replays; of those the median. Peers plan before; what
ours plans is in the graph, once."""


CHECKED = [(0, 1), (300, 1), (0, 170), (120, 50), (0, 2), (700, 129), (0, 1000)]


def check_prompts() -> dict[str, float]:
    """Whole numbers, in all shapes, blocks and windows: the shares that are equal."""
    llama = (32, 8, 128)
    cases: list[tuple[Shape, dict[str, Any]]] = [(shape, {}) for shape in SHAPES]
    cases += [(llama, {"block_size": size}) for size in (8, 32, 64, 128, 256)]
    cases += [(llama, {"sliding_window": window}) for window in (1, 33, 300)]
    return {
        f"{shape} {options}": check_exact(shape, CHECKED, **options)
        for shape, options in tqdm(cases, desc="check")
    }


def draw_batches(count: int, seed: int) -> dict[str, tuple[Shape, Lengths, dict]]:
    """Shapes and kinds in turn; sequences and lengths by chance."""
    draw, batches = random.Random(seed), {}
    for at in range(count):
        shape, kind = SHAPES[at % len(SHAPES)], KINDS[at % len(KINDS)]
        lengths = _draw_lengths(draw, kind)
        while (
            kv_bytes(shape, lengths) > MOST_BYTES
            or sum(new for _, new in lengths) > MOST_TOKENS
        ):
            lengths = _draw_lengths(draw, kind)
        masking: dict[str, Any] = {}
        if kind == "window":
            masking["sliding_window"] = draw.choice([128, 512, 1024, 4096])
        if kind == "sinks":
            masking["sinks"] = True
        heads = "/".join(map(str, shape))
        most, new = max(a + b for a, b in lengths), sum(b for _, b in lengths)
        name = f"{at}: {heads}, {kind}, {len(lengths)} sequences, {new} new, to {most}"
        batches[name] = shape, lengths, masking
    return batches


def _log_uniform(draw: random.Random, least: int, most: int) -> int:
    return round(math.exp(draw.uniform(math.log(least), math.log(most))))


def _draw_lengths(draw: random.Random, kind: str) -> Lengths:
    """(tokens before, new tokens); powers of two are equally likely."""
    if kind == "one":
        return [(0, _log_uniform(draw, 256, 16384))]
    count = _log_uniform(draw, 2, 32)
    longest = _log_uniform(draw, 128, 4096)
    prompts = [(0, draw.randint(max(2, longest // 16), longest)) for _ in range(count)]
    if kind == "chunks":
        return [(draw.randint(256, 16384), new) for _, new in prompts]
    if kind == "mixed":
        decoding = _log_uniform(draw, 4, 128)
        contexts = [(draw.randint(64, 4096), 1) for _ in range(decoding)]
        return draw.sample(contexts + prompts, len(contexts + prompts))
    return prompts


def measure(
    shape: Shape, lengths: Lengths, options: dict[str, Any], has_peer: bool
) -> dict[str, Any]:
    """A row: microseconds by kernel, and ours over FlashAttention-3's."""
    heads, _, dim = shape
    needed = blocks_of(lengths)
    count = min(num_rotations(kv_bytes(shape, lengths)), 16)
    pools = [random_pool(needed, shape) for _ in range(max(LAYERS, count))]
    batch = make_batch(lengths, torch.randperm(needed))
    num_tokens = batch.query_starts[-1].item()
    q = torch.randn(num_tokens, heads, dim, device=DEVICE, dtype=DTYPE)
    has_peer = has_peer and not ("sinks" in options and heads > 64)  # it refuses them
    if "sinks" in options:
        options = options | {"sinks": torch.randn(heads, device=DEVICE, dtype=DTYPE)}
    masking = Masking(dim**-0.5, **options)
    caches = [LayerCache(*pool) for pool in pools]
    where = batch.block_tables, batch.context_lengths, batch.query_starts

    def ours(cache: LayerCache) -> torch.Tensor:
        if cache is caches[0]:
            batch.scratch.clear()
        return triton_attention(q, cache, batch, masking)

    def lesson_6(cache: LayerCache) -> torch.Tensor:
        out = torch.empty_like(q)
        paged_prefill(out, q, cache.keys, cache.values, *where, *masking)
        return out

    calls = {"lesson_6": [lambda c=cache: lesson_6(c) for cache in caches]}
    calls["ours"] = [lambda c=cache: ours(c) for cache in caches]
    if has_peer:
        calls["flash_attention_3"] = flash_attention_3(q, pools, batch, masking)
    expected = calls["lesson_6"][-1]().float()
    for name, own in calls.items():
        error = (own[-1]().float() - expected).norm() / expected.norm()
        assert error < 0.01, f"{shape}, {lengths[:3]}, {name}: error {error:.1e}"
    runs = [  # each warms the clocks up for the next
        {name: microseconds(own, warm_up_seconds=0.03) for name, own in calls.items()}
        for _ in range(RUNS)
    ]
    row = {"us": {name: statistics.median(run[name] for run in runs) for name in calls}}
    if len(lengths) == 1 and not options:
        row["us"]["cudnn"] = contiguous(shape, lengths, SDPBackend.CUDNN_ATTENTION)
    row["tflop_per_s"] = operations(shape, lengths, masking) / row["us"]["ours"] / 1e6
    if has_peer:
        row["over_peer"] = row["us"]["ours"] / row["us"]["flash_attention_3"]
    return row


def operations(shape: Shape, lengths: Lengths, masking: Masking) -> int:
    """Multiplications and additions of the pairs that are not masked."""
    window = masking.sliding_window or max(a + b for a, b in lengths)
    pairs = sum(
        min(position + 1, window)
        for before, new in lengths
        for position in range(before, before + new)
    )
    return 4 * shape[0] * shape[2] * pairs


def summary(rows: dict[str, dict]) -> dict[str, Any]:
    """Our time over FlashAttention-3's in these batches."""
    ratios = {n: row["over_peer"] for n, row in rows.items() if "over_peer" in row}
    if not ratios:
        return {}
    worst = sorted(ratios, key=ratios.__getitem__, reverse=True)
    return {
        f"at_most_{most:.2f}": sum(r <= most for r in ratios.values()) / len(ratios)
        for most in (1.0, 1.1, 1.3)
    } | {
        "geometric_mean": statistics.geometric_mean(ratios.values()),
        "largest": ratios[worst[0]],
        "worst": {name: ratios[name] for name in worst[:5]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--library", help="FlashAttention-3 out of a vLLM wheel")
    parser.add_argument("--folder", type=Path, default=DATA)
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    torch.manual_seed(arguments.seed)
    has_peer = load_flash_attention_3(arguments.library)
    machine = describe_machine()
    kind = f"prompts-seed-{arguments.seed}" if arguments.seed else "prompts"
    path = path_of(arguments.folder, kind, machine["device"])
    report: dict[str, Any] = {"machine": machine, "peers": versions()}
    report |= {"how": HOW.replace("\n", " "), "seed": arguments.seed}
    report["equal_to_float64"] = check_prompts()
    batches = draw_batches(arguments.count, arguments.seed)
    report_batches(path, report, batches, partial(measure, has_peer=has_peer), summary)


if __name__ == "__main__":
    main()
