"""K and V in 8 bits on a GPU: checked, then timed beside 16 bits.

    python -m benchmarks.gpu.eight_bits check decode engine --out eight-bits.json
    python -m benchmarks.gpu.eight_bits batches prompts --seed 91

`check`: every bfloat16 number is rounded as torch does it; attention agrees with
float64 on the numbers that the bytes stand for; what nobody wrote holds NaN; layers in
a graph wait for each other. `decode`: a layer's one launch, write included, in a step
of many layers. `batches`: the same for batches of 100 to 300 MB that are drawn from a
seed. `prompts`: attention of prompts. `engine`: the first workload of
benchmarks.gpu.engine. Random weights, so their text is no measure; see also
in_turns.py.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import minipaged as mp
from benchmarks.gpu.batches import SIXTEEN, draw_batches, only_to_compile
from benchmarks.gpu.inputs import (
    BLOCK_SIZE,
    DEVICE,
    DTYPE,
    Lengths,
    Shape,
    blocks_of,
    decodes,
    make_batch,
    ragged,
    random_pool,
)
from benchmarks.gpu.measure import kv_bytes
from benchmarks.gpu.one_launch import QWEN, Layers
from minipaged.attention.backend import Masking
from minipaged.attention.kernels import step as triton_step
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.cache import EightBitTritonKVCache
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.side_by_side import compiled_side_by_side
from minipaged.attention.kernels.sizes import step_sizes
from minipaged.attention.kernels.write import write_kv
from minipaged.attention.rectangles import gathered_attention
from minipaged.lab.measure.gpu_timing import microseconds, num_rotations
from minipaged.lab.measure.machine import describe_machine
from minipaged.memory.eight_bits import E4M3, LayerScales, to_eight_bits
from minipaged.memory.kv_cache import LayerCache
from minipaged.model.inputs import Chunk, RaggedBatch

CHECKED = {"16/8/128": (16, 8, 128), "14/2/64": (14, 2, 64), "16/2/256": (16, 2, 256)}
BATCHES = {
    "8x4k": decodes(8, 4096),
    "64x4k": decodes(64, 4096),
    "64x100..2048": ragged(64, 100, 2048),
    "256x100..2048": ragged(256, 100, 2048),
    "4x8k": decodes(4, 8192),
    "1x32k": decodes(1, 32_768),
    "24x1500": decodes(24, 1500),
    "16x4k": decodes(16, 4096),
    "32x100..2048": ragged(32, 100, 2048),
}
DRAWN = 1e8, 3e8  # bytes of K and V of a layer, in 16 bits
AIM, AIM_OF_PROMPTS = 0.58, 1.5  # at most so much of the time in 16 bits
HOW = """K and V in 16 bits (bfloat16) and in 8 (e4m3), blocks of 16, shuffled;
microseconds of a layer in a CUDA graph; in turns, 3 times, each time the median of 11
replays; of those the median. Of batches, a layer's step, which writes K and V, too, in
a step of 28 layers or more; of prompts, attention alone."""
SHAPES_OF_PROMPTS = QWEN, (32, 8, 64), (16, 2, 256)
PROMPTS = {
    "8x1000": [(0, 1000)] * 8,
    "1x6000": [(0, 6000)],
    "4x500 after 4000": [(4000, 500)] * 4,
}
TURNS = 3
MIXED = [(0, 1), (3, 1), (0, 40), (700, 1), (50, 9), (0, 170), (1200, 5), (2000, 1)]
LONG = [(4000, 500), (0, 1)]  # few new tokens on a long context: shared
DECODES = [(0, 1), (3, 1), (700, 1), (50, 1), (2000, 1), (16, 1), (15, 1)]


def scales_of(kind: str, heads: int) -> LayerScales:
    """Different powers of two for each head, so that none can stand for another."""
    some = 2.0 ** (torch.arange(heads, device=DEVICE) % 5 - 6)
    return LayerScales(some if kind == "fp8" else None, some.flip(0) * 2)


def in_eight_bits(cache: LayerCache, kind: str) -> LayerCache:
    """A layer's numbers, 32 times as large as their scale, rounded."""
    num_blocks, block_size, heads, key_dim = cache.keys.shape
    scales = scales_of(kind, heads)
    shape = heads, key_dim, cache.values.shape[3]
    made = EightBitTritonKVCache(
        [scales], [shape], num_blocks, block_size, DTYPE, DEVICE
    )
    slots = torch.arange(num_blocks * block_size, device=DEVICE)
    new = (x.flatten(0, 1) for x in (cache.keys, cache.values))
    made.write(
        0,
        slots,
        *(
            x if s is None else x * s.to(x)[:, None] * 32
            for x, s in zip(new, scales, strict=True)
        ),
    )
    return made.layer(0)


def in_numbers(layer: LayerCache) -> LayerCache:
    """What the bytes stand for, in float64."""
    keys, values = layer.keys.double(), layer.values.double()
    if layer.key_scale is not None:
        keys *= layer.key_scale.double()[:, None]
    return LayerCache(keys, values * layer.value_scale.double()[:, None])


def check_rounding() -> int:
    """Every number of 16 bits, for several scales; how many were compared."""
    bits = torch.arange(-(2**15), 2**15, device=DEVICE).to(torch.int16)
    numbers = bits.view(DTYPE).view(-1, 16, 32)
    size = (len(numbers), 1, 16, 32)
    slots = torch.arange(len(numbers), device=DEVICE)
    for power in (-20, -6, 0, 5):
        scale = torch.full((16,), 2.0**power, device=DEVICE)
        ours = torch.zeros(2, *size, dtype=torch.uint8, device=DEVICE).view(E4M3)
        write_kv(*ours, slots, numbers, numbers, scale, scale)
        # By the CPU, because a GPU may round both in the same wrong way.
        right = to_eight_bits(numbers.cpu(), scale.cpu()).float()
        for each in ours:
            found = each[:, 0].cpu().float()
            assert torch.equal(found.nan_to_num(999), right.nan_to_num(999)), power
    return 4 * numbers.numel()


def check_attention(
    kind: str, shape: tuple[int, int, int], lengths: list[tuple[int, int]], **options
) -> float:
    """The largest error relative to float64 on the same bytes, NaN around them."""
    heads, kv_heads, dim = shape
    counts = [-(-(a + b) // BLOCK_SIZE) for a, b in lengths]
    pool = mp.BlockPool(sum(counts) + 5, BLOCK_SIZE)
    free = (torch.randperm(sum(counts)) + 5).tolist()
    taken = [pool.allocate() for _ in range(pool.num_blocks)]
    assert len(taken) == pool.num_blocks
    chunks = []
    for (a, b), count in zip(lengths, counts, strict=True):
        own = [free.pop() for _ in range(count)]
        chunks.append(Chunk([0] * b, mp.BlockTable(pool, own, a + b)))
    batch = RaggedBatch.build(chunks, device=DEVICE)
    written = torch.tensor(
        [
            slot
            for chunk in chunks
            for slot in chunk.table.slots(0, chunk.table.num_tokens)
        ],
        device=DEVICE,
    )
    scales = scales_of(kind, kv_heads)
    made = EightBitTritonKVCache(
        [scales], [(kv_heads, dim, dim)], pool.num_blocks, BLOCK_SIZE, DTYPE, DEVICE
    )
    for tensor in (*made.keys, *made.values):
        tensor.fill_(255)
    k, v = (
        torch.randn(len(written), kv_heads, dim, device=DEVICE).to(DTYPE)
        * (1.0 if s is None else (32 * s).to(DTYPE)[:, None])
        for s in scales
    )
    made.write(0, written, k, v)
    q = torch.randn(len(batch.tokens), heads, dim, device=DEVICE).to(DTYPE)
    masking = Masking(dim**-0.5, **options)
    layer = made.layer(0)
    kept = [tensor.clone() for tensor in (*made.keys, *made.values)]
    place = {slot: at for at, slot in enumerate(written.tolist())}
    own = [place[slot] for slot in batch.slots.tolist()]
    right = gathered_attention(q.double(), in_numbers(layer), batch, masking)
    batch.scratch.clear()
    news = k[own], v[own]
    for tensor in (*made.keys, *made.values):  # the new tokens' bytes are gone
        tensor.flatten(0, 1)[batch.slots] = 255
    errors = []
    for way in ("step", "attend"):
        batch.scratch.clear()
        if way == "step":
            ours = triton_attention.step(q, *news, layer, batch, masking)
        else:
            ours = triton_attention(q, layer, batch, masking)
        assert ours.isfinite().all(), (kind, shape, way)
        errors.append(((ours.double() - right).norm() / right.norm()).item())
    for old, now in zip(kept, (*made.keys, *made.values), strict=True):
        assert torch.equal(old, now), "a step stores what a write stores"
    assert max(errors) < 0.01, (kind, shape, options, errors)
    return max(errors)


def check_extremes() -> float:
    """The largest error where K and V are e4m3's smallest numbers, and q is large.

    q's numbers are more than float16 holds. The other numbers of 8 bits: alone, each
    comes back as it is.
    """
    heads, dim, num_tokens = 8, 128, 256
    shape, seq = (heads, dim, dim), decodes(1, num_tokens)
    batch = make_batch(seq, torch.randperm(num_tokens // BLOCK_SIZE))
    scales = LayerScales(*(torch.full((heads,), 64.0, device=DEVICE) for _ in "kv"))
    cache = EightBitTritonKVCache(
        [scales], [shape], num_tokens // BLOCK_SIZE, BLOCK_SIZE, DTYPE, DEVICE
    )
    layer, size = cache.layer(0), (num_tokens, heads, dim)
    small = torch.randint(0, 8, (2, *size), device=DEVICE)
    signs = torch.randint(0, 2, (2, *size), device=DEVICE) * 128
    for tensor, bits in zip((layer.keys, layer.values), small + signs, strict=True):
        tensor.view(torch.uint8).copy_(bits.view(tensor.shape))
    large = torch.finfo(DTYPE).max ** 0.5
    q = torch.randn(1, 2 * heads, dim, device=DEVICE) * large
    masking = Masking(dim**-0.5 / large)
    ours = triton_attention(q.to(DTYPE), layer, batch, masking).double()
    batch.scratch.clear()
    plain = in_numbers(layer)
    right = gathered_attention(q.to(DTYPE).double(), plain, batch, masking)
    error = ((ours - right).norm() / right.norm()).item()
    assert error < 0.01, error
    alone = make_batch([(0, 1)], torch.zeros(1, dtype=torch.int64))
    numbers = torch.arange(heads * dim, device=DEVICE) % 256
    numbers = torch.where(numbers % 128 == 127, 0, numbers).to(torch.uint8)
    layer.values[0, 0].view(torch.uint8).copy_(numbers.view(heads, dim))
    ours = triton_attention(q.to(DTYPE), layer, alone, masking)
    assert torch.equal(ours[0, ::2].float(), 64 * layer.values[0, 0].float())
    # Of a prompt, too, the first token sees only itself. What is no number stays none.
    two = make_batch([(0, 2)], torch.zeros(1, dtype=torch.int64))
    q = q.to(DTYPE).expand(2, -1, -1)
    ours = triton_attention(q, layer, two, masking)
    assert torch.equal(ours[0, ::2].float(), 64 * layer.values[0, 0].float())
    layer.values[0, 0].view(torch.uint8)[:, 5] = 255
    ours = triton_attention(q, layer, two, masking)
    finite = ours[0, ::2].isfinite()
    assert not finite[:, 5].any() and finite.sum() == finite.numel() - heads
    return error


def check_layers(shape: Shape, lengths: Lengths, kind: str = "fp8") -> int:
    """Layers, each of which has the result of the layer before as its queries.

    In a graph, a layer asks for K and V before the layer before it has ended. It must
    have the same result as if it had begun later. Returns how many layers there are.
    """
    layers = Layers(shape, lengths)
    different = {id(cache): cache for cache in layers.caches}
    made = {at: in_eight_bits(cache, kind) for at, cache in different.items()}
    masking = Masking(4.0)  # queries decide much

    def run(wait: Callable[[], None] = lambda: None) -> list[torch.Tensor]:
        layers.batch.scratch.clear()
        found = [layers.q]
        for cache in layers.caches:
            given = layers.k, layers.v, made[id(cache)], layers.batch, masking
            found.append(triton_attention.step(found[-1], *given))
            wait()
        return found

    right = run(torch.cuda.synchronize)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    for _ in range(10):
        graph.replay()
        torch.cuda.synchronize()
        assert all(map(torch.equal, found, right)), (shape, kind)
    return len(layers.caches)


def check() -> dict[str, Any]:
    """All checks; the largest errors."""
    found: dict[str, Any] = {"numbers_rounded": check_rounding()}
    found["extremes"] = check_extremes()
    for shape in (QWEN, (32, 8, 64), (16, 2, 256), (24, 2, 128)):
        for batch in () if INTERPRETED else ("8x4k", "32x100..2048", "1x32k"):
            name = f"layers, {'/'.join(map(str, shape))}, {batch}"
            found[name] = check_layers(shape, BATCHES[batch])
    for name, shape in CHECKED.items():
        for kind in ("fp8", "fp8_v"):
            for lengths in (DECODES, MIXED, *([] if INTERPRETED else [LONG])):
                for options in ({}, {"sliding_window": 300}, {"softcap": 20.0}):
                    if options and (name, lengths) != ("16/8/128", MIXED):
                        continue
                    key = f"{name} {kind} {len(lengths)} {options or ''}".strip()
                    found[key] = check_attention(kind, shape, lengths, **options)
    return found


def decode(sizes: list[dict[str, int]]) -> dict[str, Any]:
    """Microseconds of a layer in 16 bits, with K and V, and with V alone in 8 bits."""
    found: dict[str, Any] = {}
    for name, lengths in BATCHES.items():
        layers = Layers(QWEN, lengths)
        row: dict[str, Any] = {"mb": round(layers.nbytes / 1e6)}
        row["bf16"] = layers.microseconds(layers.one_launch)
        different = {id(cache): cache for cache in layers.caches}
        own = layers.caches
        for kind in ("fp8", "fp8_v"):
            made = {at: in_eight_bits(cache, kind) for at, cache in different.items()}
            layers.caches = [made[id(cache)] for cache in own]
            layers.batch.scratch = {}
            row[kind] = layers.microseconds(layers.one_launch)
            row[f"{kind}_of_bf16"] = row[kind] / row["bf16"]
            for changed in sizes if kind == "fp8" else ():

                def other(*given, changed=changed):
                    kept, *rest = step_sizes(*given)
                    return kept._replace(**changed), *rest

                with mock.patch.object(triton_step, "step_sizes", other):
                    layers.batch.scratch = {}
                    us = layers.microseconds(layers.one_launch)
                    row[" ".join(f"{k}={v}" for k, v in changed.items())] = (
                        us / row["bf16"]
                    )
            layers.caches = own
        found[name] = row
        print(name, json.dumps(row), flush=True)
    return found


def drawn(seed: int, count: int) -> dict[str, tuple[Shape, Lengths]]:
    """So many random batches, above 100 MB, of heads that are read as words."""
    least, most = DRAWN
    found = {
        name.split(": ")[1]: (shape, lengths)
        for name, (shape, lengths) in draw_batches(20 * count, seed, SIXTEEN).items()
        if least <= kv_bytes(shape, lengths) <= most and shape[0] <= 16 * shape[1]
    }
    return dict(list(found.items())[:count])


def compile_ahead(batches: dict[str, tuple[Shape, Lengths]]) -> None:
    """The kernels of both types, side by side; none of them runs."""
    with compiled_side_by_side():
        for shape, lengths in batches.values():
            batch, q, k, v = only_to_compile(shape, lengths)
            plain = LayerCache(*random_pool(1, shape))
            ones = torch.ones(shape[1], device=DEVICE)
            eight = LayerCache(plain.keys.to(E4M3), plain.values.to(E4M3), ones, ones)
            for cache in (plain, eight):
                batch.scratch.clear()
                masking = Masking(shape[-1] ** -0.5)
                triton_attention.step(q, k, v, cache, batch, masking)


def in_turns(calls: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Each is called in turns; the medians, and what 8 bits take of 16."""
    times = [{name: call() for name, call in calls.items()} for _ in range(TURNS)]
    row = {name: statistics.median(each[name] for each in times) for name in calls}
    return row | {"fp8_of_bf16": row["fp8"] / row["bf16"]}


def batch_of(shape: Shape, lengths: Lengths) -> dict[str, float]:
    """Microseconds of a layer of this batch, in 16 bits and in 8, in turns."""
    layers = Layers(shape, lengths)
    plain = layers.caches
    different = {id(cache): cache for cache in plain}
    made = {at: in_eight_bits(cache, "fp8") for at, cache in different.items()}
    eight = [made[id(cache)] for cache in plain]

    def timed(caches: list[LayerCache]) -> float:
        layers.caches, layers.batch.scratch = caches, {}
        return layers.microseconds(layers.one_launch)

    found = in_turns({"bf16": lambda: timed(plain), "fp8": lambda: timed(eight)})
    return {"mb": round(layers.nbytes / 1e6)} | found


def batches(seed: int, count: int) -> dict[str, Any]:
    """Of random batches: what 8 bits take of 16."""
    compile_ahead(own := drawn(seed, count))
    rows = {}
    for name, given in own.items():
        rows[name] = batch_of(*given)
        print(name, json.dumps(rows[name]), flush=True)
    ratios = [row["fp8_of_bf16"] for row in rows.values()]
    return {
        "seed": seed,
        "aim": AIM,
        "geometric_mean": statistics.geometric_mean(ratios),
        "reached": sum(ratio <= AIM for ratio in ratios),
        "batches": rows,
    }


def prompt_of(shape: Shape, lengths: Lengths) -> dict[str, float]:
    """Microseconds of a layer's attention of these prompts, in turns."""
    heads, kv_heads, dim = shape
    num_blocks = blocks_of(lengths)
    nbytes = num_blocks * BLOCK_SIZE * kv_heads * dim * 2 * 2
    batch = make_batch(lengths, torch.randperm(num_blocks))
    pools = [random_pool(num_blocks, shape) for _ in range(num_rotations(nbytes))]
    plain = [LayerCache(*pool) for pool in pools]
    eight = [in_eight_bits(cache, "fp8") for cache in plain]
    num_tokens = sum(new for _, new in lengths)
    q = torch.randn(num_tokens, heads, dim, device=DEVICE).to(DTYPE)
    masking = Masking(dim**-0.5)

    def timed(caches: list[LayerCache]) -> float:
        batch.scratch = {}
        return microseconds(
            [lambda c=c: triton_attention(q, c, batch, masking) for c in caches]
        )

    return in_turns({"bf16": lambda: timed(plain), "fp8": lambda: timed(eight)})


def prompts() -> dict[str, Any]:
    """Of some prompts, in heads of three sizes."""
    found = {}
    for shape in SHAPES_OF_PROMPTS:
        for said, lengths in PROMPTS.items():
            name = f"{'/'.join(map(str, shape))}, {said}"
            found[name] = prompt_of(shape, lengths)
            print(name, json.dumps(found[name]), flush=True)
    return {"aim": AIM_OF_PROMPTS, "prompts": found}


def engine(run: str, rounds: int) -> dict[str, Any]:
    """Output tokens a second of the first workload, in 16 bits and in 8."""
    from benchmarks.gpu import workloads
    from benchmarks.gpu.engine import NUM_BLOCKS, measure
    from benchmarks.gpu.shapes import random_model

    model, found = random_model(), {}
    for kind in ("fp8", None):
        start = time.perf_counter()
        stored = kind and mp.EightBits(kind, insist=True)
        paged = mp.PagedModel(model, NUM_BLOCKS, attention="triton", kv_dtype=stored)
        print(paged, round(time.perf_counter() - start, 1), "s", flush=True)
        made = mp.Engine(paged, max_tokens=8192, run=run)
        seconds = round(time.perf_counter() - start, 1)
        found[kind or "bf16"] = measure(made, workloads.uniform(), rounds)
        found[kind or "bf16"]["start_s"] = seconds
        print(kind, json.dumps(found[kind or "bf16"]), flush=True)
        made.close()
        del paged, made
        torch.cuda.empty_cache()
    return found


def main() -> None:
    """Do what is named, and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["check", "decode", "batches", "prompts", "engine"]
    parser.add_argument("parts", nargs="+", choices=names)
    parser.add_argument("--sizes", type=json.loads, default=[], help="others to try")
    parser.add_argument("--seed", type=int, default=0, help="of the batches")
    parser.add_argument("--count", type=int, default=24, help="of the batches")
    parser.add_argument("--run", default="graphs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {} if INTERPRETED else {"machine": describe_machine()}
    if {"batches", "prompts"} & set(given.parts):
        found["how"] = HOW.replace("\n", " ")
    parts = {
        "check": check,
        "decode": lambda: decode(given.sizes),
        "batches": lambda: batches(given.seed, given.count),
        "prompts": prompts,
        "engine": lambda: engine(given.run, given.rounds),
    }
    for part in given.parts:
        found[part] = parts[part]()
        print(part, json.dumps(found[part], indent=1), flush=True)
        if given.out:
            given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
