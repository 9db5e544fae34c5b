"""Decode batches drawn from a seed, on which no rule was tuned: ours beside peers.

Six shapes of heads, or sixteen; even, ragged and long-tailed contexts. All kernels
attend the same batch in the same blocks. Ours are lesson 6's kernel, which reads as
theirs do, and appendix D's step, which writes K and V, too. They are checked against
each other before they are timed. Writes batches-<device>.json, or of a seed other than
0 batches-seed-<seed>-<device>.json, anew after every batch.

    python -m benchmarks.gpu.batches
    python -m benchmarks.gpu.batches --shapes sixteen --seed 61
"""

import argparse
import functools
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.inputs import (
    DEVICE,
    DTYPE,
    Lengths,
    Shape,
    blocks_of,
    make_batch,
    random_pool,
)
from benchmarks.gpu.measure import kv_bytes
from benchmarks.gpu.one_launch import LAYERS, Layers
from benchmarks.gpu.peers import peers_for, versions
from benchmarks.gpu.report import path_of, report_batches
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.side_by_side import compiled_side_by_side
from minipaged.lab.measure.gpu_timing import microseconds
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.measured import DATA, batches_of
from minipaged.memory.kv_cache import LayerCache
from minipaged.model.inputs import RaggedBatch

WIDE_SHAPES = [(32, 8, 128), (64, 8, 128), (28, 4, 128), (32, 32, 128), (8, 1, 128)]
SHAPES = [*WIDE_SHAPES, (32, 8, 64)]  # query heads, KV heads, head_dim
SIXTEEN = [
    *SHAPES,
    *[(16, 8, 128), (40, 8, 128), (24, 2, 128), (16, 16, 64), (14, 2, 64), (71, 1, 64)],
    *[(16, 2, 256), (8, 4, 256), (16, 16, 256), (10, 1, 256)],
]
SETS = {"six": SHAPES, "sixteen": SIXTEEN}
KINDS = ["even", "ragged", "long tail"]
MOST_BYTES = 2**31  # of K and V, of a layer
OURS = ["reading", "step"]
RUNS = 3
HOW = f"""bfloat16, blocks of 16, shuffled; microseconds of a layer in a CUDA graph of
{LAYERS} or more, whose K and V are 256 MiB or more together; kernels in turn, {RUNS}
times, each time the median of 11 replays; of those the median. What follows from
lengths alone, peers plan before; step plans in the graph, once."""


def draw_batches(
    count: int, seed: int, shapes: Sequence[Shape] = tuple(SHAPES)
) -> dict[str, tuple[Shape, Lengths]]:
    """Shapes and kinds in turn; sequences and contexts by chance."""
    draw, batches = random.Random(seed), {}
    for at in range(count):
        shape, kind = shapes[at % len(shapes)], KINDS[at // len(shapes) % len(KINDS)]
        contexts = _draw_contexts(draw, kind)
        while kv_bytes(shape, lengths := [(n - 1, 1) for n in contexts]) > MOST_BYTES:
            contexts = _draw_contexts(draw, kind)
        heads, span = "/".join(map(str, shape)), {min(contexts), max(contexts)}
        sizes = f"{len(contexts)} x {'..'.join(map(str, sorted(span)))}"
        batches[f"{at}: {heads}, {kind}, {sizes}"] = shape, lengths
    return batches


def _draw_contexts(draw: random.Random, kind: str) -> list[int]:
    """Of 3 to 100 sequences; powers of two are equally likely."""
    num_seqs, longest = (
        round(math.exp(draw.uniform(math.log(least), math.log(most))))
        for least, most in ((3, 100), (512, 16384))
    )
    if kind == "even":
        return [longest] * num_seqs
    if kind == "ragged":
        return [draw.randint(longest // 16, longest) for _ in range(num_seqs)]
    contexts = [draw.randint(128, 1024) for _ in range(num_seqs)]
    for at in range(0, num_seqs, 16):  # of sixteen, one is long
        contexts[at] = 4 * longest
    return draw.sample(contexts, num_seqs)


def compile_ahead(batches: dict[str, tuple[Shape, Lengths]]) -> None:
    """Our kernels of all batches, side by side: in turns, it would take minutes.

    None of them runs, so a pool of one block is enough.
    """
    with compiled_side_by_side():
        for shape, lengths in batches.values():
            batch, q, k, v = only_to_compile(shape, lengths)
            cache = LayerCache(*random_pool(1, shape))
            masking = Masking(shape[-1] ** -0.5)
            triton_attention(q, cache, batch, masking)
            triton_attention.step(q, k, v, cache, batch, masking)


def only_to_compile(
    shape: Shape, lengths: Lengths
) -> tuple[RaggedBatch, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A batch whose tables name one block, and its q, k and v."""
    heads, kv_heads, dim = shape
    batch = make_batch(lengths, torch.zeros(blocks_of(lengths)).long())
    batch.slots = torch.zeros_like(batch.context_lengths)
    options = {"device": DEVICE, "dtype": DTYPE}
    q = torch.randn(len(lengths), heads, dim, **options)
    k, v = torch.randn(2, len(lengths), kv_heads, dim, **options)
    return batch, q, k, v


def measure(
    shape: Shape, lengths: Lengths, wanted: Sequence[str] | None = None
) -> dict[str, Any]:
    """A row: microseconds by kernel, and ours over those of the best peer.

    wanted: the peers; all, if it is None.
    """
    layers = Layers(shape, lengths)
    layers.check()
    calls = {"reading": [lambda c=c: _read(layers, c) for c in layers.caches]}
    expected = calls["reading"][-1]().float()
    pools = [(cache.keys, cache.values) for cache in layers.caches]
    for name, prepare in peers_for(layers.batch).items():
        if wanted is not None and name not in wanted:
            continue
        calls[name] = prepare(layers.q, pools, layers.batch)
        error = (calls[name][-1]().float() - expected).norm() / expected.norm()
        assert error < 0.01, f"{shape}, {lengths[:3]}, {name}: error {error:.1e}"
    calls["step"] = [lambda c=c: layers.one_launch(c) for c in layers.caches]
    runs = [  # each warms the clocks up for the next
        {name: microseconds(own, warm_up_seconds=0.03) for name, own in calls.items()}
        for _ in range(RUNS)
    ]
    us = {name: statistics.median(run[name] for run in runs) for name in calls}
    best = min((name for name in us if name not in OURS), key=us.__getitem__)
    over = {f"{name}_over_best_peer": us[name] / us[best] for name in OURS}
    return {"kv_megabytes": layers.nbytes / 1e6, "us": us, "best_peer": best} | over


def _read(layers: Layers, cache: Any) -> torch.Tensor:
    return triton_attention(layers.q, cache, layers.batch, layers.masking)


def summary(rows: dict[str, dict]) -> dict[str, dict]:
    """Of each of our kernels: its time over the best peer's in these batches."""
    summed = {}
    for kernel in OURS:
        ratios = {name: row[f"{kernel}_over_best_peer"] for name, row in rows.items()}
        worst = sorted(ratios, key=ratios.__getitem__, reverse=True)
        summed[kernel] = {
            f"at_most_{most:.2f}": sum(r <= most for r in ratios.values()) / len(rows)
            for most in (1.0, 1.03, 1.05, 1.08)
        } | {
            "geometric_mean": statistics.geometric_mean(ratios.values()),
            "largest": ratios[worst[0]],
            "worst": {name: ratios[name] for name in worst[:5]},
        }
    return summed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shapes", choices=SETS, default="six")
    parser.add_argument("--peers", nargs="+", help="some of those that are installed")
    parser.add_argument("--folder", type=Path, default=DATA)
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    assert versions(), "nothing to compare with: please install a package of peers.py"
    torch.manual_seed(arguments.seed)
    machine = describe_machine()
    path = path_of(arguments.folder, batches_of(arguments.seed), machine["device"])
    report: dict[str, Any] = {"machine": machine, "peers": versions()}
    report |= {"how": HOW.replace("\n", " "), "seed": arguments.seed}
    batches = draw_batches(arguments.count, arguments.seed, SETS[arguments.shapes])
    compile_ahead(batches)
    row = functools.partial(measure, wanted=arguments.peers)
    report_batches(path, report, batches, row, summary)


if __name__ == "__main__":
    main()
