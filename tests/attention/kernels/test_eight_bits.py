"""K and V in 8 bits by kernels: as torch stores and reads them."""

import json
import os
import subprocess
import sys

import pytest
import torch

from benchmarks.gpu import eight_bits
from helpers.attention_cases import make_case, moved, sinks_of
from helpers.eight_bit_cases import OF_HEADS, in_eight_bits, in_numbers
from minipaged.attention.backend import Masking
from minipaged.attention.kernels import step as triton_step
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.cache import EightBitTritonKVCache
from minipaged.attention.kernels.eight_bits import read_together, takes_words
from minipaged.attention.kernels.eight_bits import to_eight_bits as cast
from minipaged.attention.kernels.prefill import paged_prefill
from minipaged.attention.kernels.setup import INTERPRETED, tl, triton
from minipaged.attention.kernels.write import write_kv
from minipaged.attention.rectangles import gathered_attention
from minipaged.attention.streamed import safe_softmax, streamed_attention
from minipaged.memory.eight_bits import (
    LayerScales,
    to_eight_bits,
)
from minipaged.memory.kv_cache import LayerCache

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")

DEVICE = "cpu" if INTERPRETED else "cuda"
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
DTYPES = [torch.float32, torch.float16, *([] if INTERPRETED else [torch.bfloat16])]
DECODES = [(3, 1), (9, 1), (0, 1), (14, 1), (47, 1), (16, 1)]
MIXED = [(0, 1), (3, 1), (0, 4), (7, 1), (5, 9), (0, 17), (12, 5)]


@triton.jit
def _cast_kernel(numbers, scale, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, cast(tl.load(numbers + at), tl.load(scale)))


EDGES = [1.99, 7.9, 500.0, -1e9, 1e-3, 2**-9, 2**-10, 3e-3, 0.0, -0.01, 447.0, 17.0]
EDGES += [float("inf"), float("nan"), 2**-6, 1.0625]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 0.25, 64.0])
def test_a_kernel_rounds_as_torch_does(dtype, scale):
    """Small numbers, too, and what is too large, infinite or no number."""
    numbers = torch.cat([torch.tensor(EDGES), torch.randn(240) * 30]).to(dtype)
    scales = torch.tensor([scale])
    right = to_eight_bits(numbers[:, None, None], scales).flatten()
    out = torch.empty(256, dtype=torch.float8_e4m3fn, device=DEVICE)
    _cast_kernel[1,](numbers.to(DEVICE), scales.to(DEVICE), out, N=256)
    assert torch.equal(out.cpu().float().nan_to_num(999), right.float().nan_to_num(999))


@pytest.mark.parametrize("kind", ["fp8", "fp8_v"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_writer_stores_what_torch_stores(kind, dtype):
    case = moved(make_case(MIXED, dtype=dtype), DEVICE)
    theirs = in_eight_bits(case, kind)
    ours = in_eight_bits(case, kind, EightBitTritonKVCache)
    slots = torch.randperm(case.keys[..., 0, 0].numel(), device=DEVICE)[:13]
    slots[3] = -1
    k, v = (torch.randn(13, 2, 16, device=DEVICE).to(dtype) * 9 for _ in range(2))
    stored = slots[slots >= 0], k[slots >= 0], v[slots >= 0]
    theirs.write(0, *stored)
    ours.write(0, slots, k, v)
    assert torch.equal(ours.keys[0], theirs.keys[0])
    assert torch.equal(ours.values[0], theirs.values[0])


@pytest.mark.parametrize("kind", ["fp8", "fp8_v"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lengths", [DECODES, MIXED, [(5, 9)]], ids=len)
@pytest.mark.parametrize(
    "options",
    [{}, {"sliding_window": 7}, {"softcap": 3.0}, {"sinks": sinks_of(4)}],
    ids=lambda options: "".join(options),
)
def test_every_attention_reads_what_the_bytes_stand_for(kind, dtype, lengths, options):
    """Slots that nobody wrote hold bytes that are no number."""
    case = moved(make_case(lengths, dtype=dtype), DEVICE)
    layer = in_eight_bits(case, kind).layer(0)
    if "sinks" in options:
        options = {"sinks": options["sinks"].to(dtype).to(DEVICE)}
    masking = Masking(1 / 128, **options)
    plain = in_numbers(layer, torch.float64)
    right = gathered_attention(case.q.double(), plain, case.batch, masking)
    for attention in (
        gathered_attention,
        streamed_attention,
        safe_softmax,
        triton_attention,
    ):
        case.batch.scratch.clear()
        ours = attention(case.q, layer, case.batch, masking)
        error = (ours.double() - right).abs().max() / right.abs().max()
        assert ours.dtype == dtype and error < TOLERANCE[dtype], attention


@pytest.mark.parametrize("kind", ["fp8", "fp8_v"])
@pytest.mark.parametrize(
    "options",
    [{}, {"sliding_window": 150}, {"softcap": 3.0}, {"sinks": sinks_of(4)}],
    ids=lambda options: "".join(options),
)
@pytest.mark.parametrize(
    ("num_heads", "value_dim"),  # query heads: 2 or 12 of a KV head
    [(4, 24), (4, 120), (24, 24)],  # with few and long heads, K and V turn
)
def test_words_hold_two_numbers(kind, options, num_heads, value_dim):
    """Several tiles; heads of other lengths than a tile's rows."""
    dtype = torch.float16
    lengths = [(1500, 1), *DECODES]
    dims = {"key_dim": 32, "value_dim": value_dim}
    case = make_case(lengths, num_heads=num_heads, dtype=dtype, **dims)
    case = moved(case, DEVICE)
    layer = in_eight_bits(case, kind).layer(0)
    assert takes_words(case.q, layer)
    if "sinks" in options:
        options = {"sinks": sinks_of(num_heads).to(dtype).to(DEVICE)}
    masking = Masking(1 / 16, **options)  # far from even weights
    plain = in_numbers(layer, torch.float64)
    right = gathered_attention(case.q.double(), plain, case.batch, masking)
    case.batch.scratch.clear()
    ours = triton_attention(case.q, layer, case.batch, masking)
    assert (ours.double() - right).abs().max() < 2e-3 * right.abs().max()


@pytest.mark.parametrize(
    "options",
    [{}, {"sliding_window": 150}, {"softcap": 3.0}, {"sinks": True}],
    ids=lambda options: "".join(options),
)
@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "together"),
    [(4, 4, 2), (16, 4, 2), (14, 2, 2), (9, 3, 1), (18, 2, 1)],
)
def test_short_heads_are_read_two_at_a_time(num_heads, num_kv_heads, together, options):
    """Each has its own scales, queries and place in the result."""
    heads = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "key_dim": 64}
    dtype, lengths = torch.float16, [(700, 1), *DECODES]
    case = moved(make_case(lengths, value_dim=64, dtype=dtype, **heads), DEVICE)
    scale = torch.tensor([0.5, 32.0, 4.0, 2.0], device=DEVICE)[:num_kv_heads]
    cache = EightBitTritonKVCache(
        [LayerScales(scale, scale.flip(0))], [(num_kv_heads, 64, 64)],
        *case.keys.shape[:2], dtype, DEVICE,
    )  # fmt: skip
    k = case.keys.flatten(0, 1) * scale.to(dtype)[:, None]
    v = case.values.flatten(0, 1) * scale.flip(0).to(dtype)[:, None]
    cache.write(0, torch.arange(len(k), device=DEVICE), k, v)
    layer, slots = cache.layer(0), case.batch.slots
    assert read_together(case.q, layer) == together
    if "sinks" in options:
        options = {"sinks": sinks_of(num_heads).to(dtype).to(DEVICE)}
    masking = Masking(1 / 16, **options)
    plain = in_numbers(layer, torch.float64)
    right = gathered_attention(case.q.double(), plain, case.batch, masking)
    for blocks in (layer.keys, layer.values):  # a step writes the new tokens
        blocks.view(torch.uint8).flatten(0, 1)[slots] = 255
    case.batch.scratch.clear()
    of_step = triton_attention.step(
        case.q, k[slots], v[slots], layer, case.batch, masking
    )
    case.batch.scratch.clear()
    of_what_is_written = triton_attention(case.q, layer, case.batch, masking)
    for ours in (of_step, of_what_is_written):
        assert (ours.double() - right).abs().max() < 2e-3 * right.abs().max()


@pytest.mark.skipif(INTERPRETED, reason="wants a GPU")
@pytest.mark.parametrize("kind", ["fp8", "fp8_v"])
@pytest.mark.parametrize("shape", [(16, 8, 128), (32, 8, 64), (24, 2, 128)], ids=str)
def test_in_a_graph_a_layer_waits_for_its_queries(shape, kind):
    """They are the result of the layer before, whose programs still run."""
    for lengths in (DECODES, [(3000, 1)] * 3, [(n, 1) for n in range(100, 4000, 300)]):
        eight_bits.check_layers(shape, lengths, kind)


def test_large_queries_and_the_smallest_numbers():
    """K and V are all below 1/64; in bfloat16, queries are beyond float16."""
    assert eight_bits.check_extremes() < 5e-3


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ({}, True),
        ({"dtype": torch.float32}, False),
        ({"key_dim": 16}, False),  # a matrix unit takes 16 pairs at least
        ({"value_dim": 16}, True),
        ({"value_dim": 17}, False),
        ({"num_heads": 32}, True),
        ({"num_heads": 34}, False),
    ],
    ids=str,
)
def test_which_layers_are_read_in_words(changed, taken):
    case = make_case([(0, 1)], **{"key_dim": 32, "dtype": torch.float16} | changed)
    assert takes_words(case.q, in_eight_bits(case, "fp8").layer(0)) == taken
    plain = LayerCache(case.keys, case.values)
    assert not takes_words(case.q, plain)


COMPILE = """
import json, sys

import triton
from triton.backends.compiler import GPUTarget

from helpers.machine_code import assembled
from minipaged.attention.kernels.one_launch import step_kernel

key, group, tile, warps, stages = json.loads(sys.argv[1])
rows = 8 if group <= 8 else 16
names = step_kernel.arg_names
kinds = {"keys": key, "values": "fp8e4nv", "slots": "i64", "block_tables": "i64"}
kinds |= {name: "fp32" for name in ("means", "logs", "key_scale", "value_scale")}
kinds |= {name: "i32" for name in ("tickets", "plan")}
types = {name: "*" + kinds.get(name, "bf16") for name in names}
numbers = [name for name in names if name.endswith("stride") or name == "is_first"]
types |= {name: "i32" for name in numbers} | {"scale": "fp32"}
constants = {
    "sinks": None, "softcap": None, "COLUMNS": 8, "BLOCK_SIZE": 16, "NUM_KV_HEADS": 8,
    "GROUP": group, "KEY_DIM": 128, "VALUE_DIM": 128, "ROWS": rows, "HEADS": rows,
    "PADDED_KEY_DIM": 128, "PADDED_VALUE_DIM": 128, "TILE": tile, "MERGED_AT_ONCE": 4,
    "APART": False, "WAITS": True, "HANDS_OVER": True, "WORDS": True,
    "TOGETHER": 1,
}
if key == "bf16":
    constants["key_scale"] = None
types |= {name: "constexpr" for name in constants}
aligned = [["tt.divisibility", 16]]  # as torch's tensors are, and their strides
places = {(n,): aligned for n, name in enumerate(names) if types[name][0] in "*i"}
source = triton.compiler.ASTSource(step_kernel, types, constants, places)
options = {"num_warps": warps, "num_stages": stages, "maxnreg": 168}
compiled = triton.compile(source, GPUTarget("cuda", 90, 32), options)
found = assembled(compiled)
ptx = compiled.asm["ptx"]
found["by_units"] = ptx.count("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16")
found["at_once"] = ptx.count("cp.async.cg.shared.global")
found["conversions"] = ptx.count("cvt.rn.f16x2.e4m3x2 ")
# By a warp; Triton 3.9 lets four warps multiply together what is of 64 rows.
found["multiplied"] = ptx.count("mma.sync.aligned.m16n8k16")
found["multiplied"] += ptx.count("wgmma.mma_async.sync.aligned.m64n8k16")
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("case", "conversions"),
    [
        (("fp8e4nv", 2, 128, 4, 6), 2),
        (("fp8e4nv", 2, 64, 4, 6), 2),
        (("fp8e4nv", 12, 64, 4, 6), 2),
        (("bf16", 2, 128, 4, 2), 1),
    ],
    ids=str,
)
def test_compiles_to_loads_of_16_bytes_and_of_words(case, conversions):
    """For an H200, on any machine. A compiler's own way would load V byte by byte."""
    command = [sys.executable, "-c", COMPILE, json.dumps(case)]
    path = os.pathsep.join(sys.path)  # of our helpers, too
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": path}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["registers"] <= 168 and not found["spilled"]
    assert found["shared"] <= 227 * 1024 // 3  # of three programs
    assert found["by_units"] > 0 and found["at_once"] > 0
    # Of a tile's K and V, or of V, two numbers at a time; few of the new token: twelve
    # by Triton 3.5, ten by 3.7.
    _, group, tile, warps, _ = case
    pairs = conversions * 128 * tile // 2 // (32 * warps)
    assert pairs <= found["conversions"] <= pairs + 12
    # By the units, 16 rows by 8 columns by 16; more than 8 heads are 16 rows.
    products = 2 * 128 * tile // (16 * 16) // warps
    if group > 8:  # and the weights are added up by the units, too
        products = 2 * products + tile // 16
    assert found["multiplied"] == products


@pytest.mark.parametrize("kind", ["fp8", "fp8_v"])
@pytest.mark.parametrize("lengths", [DECODES, MIXED], ids=len)
def test_a_step_rounds_its_new_tokens_before_it_reads_them(kind, lengths):
    """So the same step says the same when its tokens are read from the cache."""
    case = moved(make_case(lengths), DEVICE)
    written = in_eight_bits(case, kind)
    ours = in_eight_bits(case, kind, EightBitTritonKVCache)
    slots = case.batch.slots
    new = (
        torch.randn(2, len(slots), 2, 16, device=DEVICE) * OF_HEADS.to(DEVICE)[:, None]
    )
    written.write(0, slots, *new)
    masking = Masking(1 / 128)
    right = gathered_attention(case.q, written.layer(0), case.batch, masking)
    case.batch.scratch.clear()
    out = triton_attention.step(case.q, *new, ours.layer(0), case.batch, masking)
    assert torch.equal(ours.keys[0], written.keys[0])
    assert torch.equal(ours.values[0], written.values[0])
    assert (out - right).abs().max() < 1e-4 * right.abs().max()


@pytest.mark.parametrize(
    ("kind", "num_heads", "found"),
    [
        ("fp8", 12, torch.float16),
        ("fp8", 8, torch.float32),
        ("fp8_v", 12, torch.float32),
    ],
)
def test_results_of_pieces_are_short_for_many_heads(
    monkeypatch, kind, num_heads, found
):
    """With two KV heads; and the merged result is right."""
    seen, kernel = [], triton_step.step_kernel

    class Recorded:
        def __getitem__(self, grid):
            def launch(out, means, *given, **options):
                seen.append(means.dtype)
                return kernel[grid](out, means, *given, **options)

            return launch

    monkeypatch.setattr(triton_step, "step_kernel", Recorded())
    dims = {"key_dim": 32, "value_dim": 32}
    case = make_case([(1500, 1)], num_heads=num_heads, dtype=torch.float16, **dims)
    case = moved(case, DEVICE)
    layer, masking = in_eight_bits(case, kind).layer(0), Masking(1 / 16)
    case.batch.scratch.clear()
    ours = triton_attention(case.q, layer, case.batch, masking)
    assert seen == [found]
    plain = in_numbers(layer, torch.float64)
    right = gathered_attention(case.q.double(), plain, case.batch, masking)
    assert (ours.double() - right).abs().max() < 2e-3 * right.abs().max()


def test_what_does_not_fit_is_refused_in_words():
    case = moved(make_case([(0, 3)]), DEVICE)
    layer = in_eight_bits(case, "fp8").layer(0)
    where = (
        case.batch.block_tables,
        case.batch.context_lengths,
        case.batch.query_starts,
    )
    out = torch.empty_like(case.q)
    scales = {"key_scale": layer.key_scale, "value_scale": layer.value_scale}

    def attend(**changed):
        paged_prefill(
            out, case.q, layer.keys, layer.values, *where, 0.25, **scales | changed
        )

    attend()
    with pytest.raises(ValueError, match="kernels want all the same"):
        attend(key_scale=None, value_scale=None)
    with pytest.raises(ValueError, match=r"keys are .*, but .* is wanted without"):
        attend(key_scale=None)
    with pytest.raises(ValueError, match=r"scale of values must be \[2\] float32"):
        attend(value_scale=layer.value_scale[:1])
    k = torch.zeros(3, 2, 16, device=DEVICE)
    with pytest.raises(ValueError, match="convert"):
        write_kv(layer.keys, layer.values, case.batch.slots, k, k)
