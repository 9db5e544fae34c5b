"""Appendix C's rungs for prompts, beside the package's kernels and those of others.

A prompt of 1,024 to 16,384 tokens, in one layer of 32 query heads and 8 KV heads of 128
numbers. The rungs read contiguous K and V, as cuDNN does; the package's kernel for
Hopper, lesson 6's kernel for prompts and FlashAttention-3 read the same shuffled blocks
of 16. All are checked before they are timed: the rungs with whole numbers that no sum
rounds, beside float64; then, in each batch, all beside each other.

Writes prompt-rungs-<device>.json.

    python -m benchmarks.gpu.prompt_rungs
    python -m benchmarks.gpu.prompt_rungs --library _vllm_fa3_C.abi3.so  # without vLLM
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu.inputs import DEVICE, DTYPE, make_batch, random_pool, reference
from benchmarks.gpu.peers import flash_attention_3, load_flash_attention_3, versions
from benchmarks.gpu.prompts import operations
from benchmarks.gpu.report import path_of, rounded
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.prefill import paged_prefill
from minipaged.lab.measure.gpu_timing import microseconds, num_rotations
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.measured import DATA
from minipaged.lab.tour.prompt_rungs import RUNGS, Rung, attend
from minipaged.memory.kv_cache import LayerCache

HEADS, KV_HEADS, DIM = SHAPE = (32, 8, 128)
LENGTHS = (1024, 2048, 4096, 8192, 16384)
BETWEEN = {  # the fourth rung changes two things; each alone
    "heavy pieces first": RUNGS[4]._replace(persistent=False),
    "persistent": RUNGS[4]._replace(heavy_first=False),
}
RUNS = 3
HOW = f"""bfloat16; microseconds of a layer in a CUDA graph of several, each with a q, K
and V of its own, 256 MiB or more together; all in turns, {RUNS} times, each time the
median of 7 replays; of those the median. Peers plan before; what ours plans is in the
graph, once. TFLOP/s: multiplications and additions of pairs that are not masked."""


def check_exact(rung: Rung, num_tokens: int = 640) -> float:
    """Whole numbers, whose weights are powers of two: the share that equals float64's.

    No sum is rounded, only the last division; so each number must be float64's, or its
    neighbour in the few cases that lie between two.
    """
    size = (num_tokens, DIM)
    keys = torch.randint(-1, 2, (KV_HEADS, *size), device=DEVICE).to(DTYPE)
    values = torch.randint(-4, 5, (KV_HEADS, *size), device=DEVICE).to(DTYPE)
    q = torch.zeros(HEADS, *size, device=DEVICE, dtype=DTYPE)
    for number in (1.0, 2.0):  # so logits are whole numbers of -3 to 3
        at = torch.randint(0, DIM, (HEADS, num_tokens, 1), device=DEVICE)
        q.scatter_(2, at, number)
    out = attend(q, keys, values, rung, scale=math.log(2))
    positions = torch.arange(num_tokens, device=DEVICE)
    by_token = [x.transpose(0, 1) for x in (q, keys, values)]
    expected = reference(*by_token, positions, scale=math.log(2)).transpose(0, 1)
    expected = expected.to(DTYPE).double()
    error = (out.double() - expected).abs()
    assert (error <= expected.abs() * 2**-7 + 1e-6).all(), rung
    equal = (error <= 1e-9).double().mean().item()
    assert equal > 0.9999, f"{rung}: {equal}"
    return round(equal, 7)


def measure(num_tokens: int, has_peer: bool) -> dict[str, Any]:
    """Of such a prompt: microseconds and TFLOP/s of each kernel."""
    needed = num_tokens // 16
    kv_bytes = 2 * 2 * KV_HEADS * num_tokens * DIM
    count = num_rotations(kv_bytes + 2 * HEADS * num_tokens * DIM)
    pools = [random_pool(needed, SHAPE) for _ in range(count)]
    batch = make_batch([(0, num_tokens)], torch.randperm(needed))
    options = {"device": DEVICE, "dtype": DTYPE}
    queries = [torch.randn(num_tokens, HEADS, DIM, **options) for _ in range(count)]
    masking = Masking(DIM**-0.5)
    where = batch.block_tables, batch.context_lengths, batch.query_starts
    in_order = batch.block_tables[0]
    one_piece = [  # the same numbers, [heads, tokens, DIM]
        [
            x.transpose(0, 1).contiguous()
            for x in (q, *(p[in_order].flatten(0, 1) for p in pool))
        ]
        for q, pool in zip(queries, pools, strict=True)
    ]

    def ours(at: int) -> torch.Tensor:
        if at == 0:
            batch.scratch.clear()
        return triton_attention(queries[at], LayerCache(*pools[at]), batch, masking)

    def lesson_6(at: int) -> torch.Tensor:
        out = torch.empty_like(queries[at])
        paged_prefill(out, queries[at], *pools[at], *where, *masking)
        return out

    def cudnn(at: int) -> torch.Tensor:
        q, k, v = (x[None] for x in one_piece[at])
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return out[0].transpose(0, 1)

    def by_rung(rung: Rung, at: int) -> torch.Tensor:
        return attend(*one_piece[at], rung).transpose(0, 1)

    named: dict[str, Callable[[int], torch.Tensor]] = {
        f"rung {number}": partial(by_rung, rung) for number, rung in RUNGS.items()
    }
    named |= {name: partial(by_rung, rung) for name, rung in BETWEEN.items()}
    named |= {"ours": ours, "lesson_6": lesson_6, "cudnn": cudnn}
    calls = {
        name: [partial(call, at) for at in range(count)] for name, call in named.items()
    }
    if has_peer:
        calls["flash_attention_3"] = [
            flash_attention_3(q, [pool], batch, masking)[0]
            for q, pool in zip(queries, pools, strict=True)
        ]
    expected = calls["lesson_6"][-1]().float()
    for name, own in calls.items():
        error = (own[-1]().float() - expected).norm() / expected.norm()
        assert error < 0.01, f"{num_tokens} tokens, {name}: error {error:.1e}"
    runs = [
        {
            name: microseconds(own, replays=7, warm_up_seconds=0.03)
            for name, own in calls.items()
        }
        for _ in range(RUNS)
    ]
    us = {name: statistics.median(run[name] for run in runs) for name in calls}
    count = operations(SHAPE, [(0, num_tokens)], masking)
    return {"us": us, "tflop_per_s": {n: count / t / 1e6 for n, t in us.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", help="FlashAttention-3 out of a vLLM wheel")
    parser.add_argument("--folder", type=Path, default=DATA)
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    torch.manual_seed(0)
    has_peer = load_flash_attention_3(arguments.library)
    machine = describe_machine()
    path = path_of(arguments.folder, "prompt-rungs", machine["device"])
    report: dict[str, Any] = {"machine": machine, "peers": versions()}
    report |= {"how": HOW.replace("\n", " ")}
    rungs = {f"rung {number}": rung for number, rung in RUNGS.items()} | BETWEEN
    report["equal_to_float64"] = {n: check_exact(rung) for n, rung in rungs.items()}
    print(report)
    report["prompts"] = rows = {}
    for num_tokens in LENGTHS:
        rows[str(num_tokens)] = row = rounded(measure(num_tokens, has_peer))
        path.write_text(json.dumps(report, indent=1) + "\n")
        print(num_tokens, row["tflop_per_s"])


if __name__ == "__main__":
    main()
