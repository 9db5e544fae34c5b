"""The kernel for prompts on Hopper: its list of tiles, its logic, and that it compiles.

No interpreter of Triton's runs Gluon, so a machine of ours runs the kernel's text. What
the compiler makes of it is checked on a GPU, by benchmarks/gpu/prompts.py.
"""

import json
import os
import random
import subprocess
import sys
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
import torch

from helpers import gluon_machine
from helpers.attention_cases import make_case, oracle, sinks_of
from helpers.eight_bit_cases import in_eight_bits, in_numbers
from helpers.gluon_machine import Descriptor, Machine, kernel_of
from helpers.machine_code import overwritten
from helpers.thorough import all_or
from minipaged.attention.backend import Masking
from minipaged.attention.kernels import hopper
from minipaged.attention.kernels.attention import prompts_by
from minipaged.attention.kernels.hopper_shares import (
    BEGINNING,
    LEAST,
    MOST_PARTS,
    share_tiles,
)
from minipaged.attention.kernels.hopper_tiles import list_tiles
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.sizes import log2_scales
from minipaged.attention.rectangles import gathered_attention
from minipaged.memory.kv_cache import LayerCache

DEVICE = "cpu" if INTERPRETED else "cuda"
WIDTH = 17  # of the tables
KERNEL = Path(hopper.__file__).with_name("hopper_kernel.py")
interpreted = pytest.mark.skipif(not INTERPRETED, reason="a GPU runs the kernel itself")


def all_tiles(contexts, new, tokens):
    """By a sort: (table, first token, end of the tokens, position, context)."""
    starts, rows = accumulate(new, initial=0), []
    for seq, (context, count, start) in enumerate(
        zip(contexts, new, starts, strict=False)
    ):
        for at in range(0, count if count > 1 else 0, tokens):
            position = context - count + at
            row = [seq * WIDTH, start + at, start + count, position, context]
            rows.append((-min(position + tokens, context), seq, row))
    return [row for _, _, row in sorted(rows)]


@pytest.mark.parametrize("seed", range(20))
def test_list_of_tiles(seed):
    """Ragged prompts and chunks, sequences that decode or wait, and one that pads."""
    draw = random.Random(seed)
    tokens = draw.choice([2, 32, 128])
    sizes = [0, 1, 1, 2, tokens, tokens + 1, draw.randint(1, 5 * tokens)]
    new = [draw.choice(sizes) for _ in range(draw.choice([1, 5, 130]))]
    contexts = [count + draw.choice([0, 0, draw.randint(0, 300)]) for count in new]
    new, contexts = [*new, 33], [*contexts, 0]
    starts = torch.tensor([0, *accumulate(new)], device=DEVICE)
    lengths = torch.tensor(contexts, device=DEVICE), starts
    tiles = list_tiles(*lengths, sum(new), WIDTH, tokens)
    expected = all_tiles(contexts, new, tokens)
    assert tiles[0, 0] == len(expected)
    assert tiles[1 : 1 + len(expected), :5].tolist() == expected


def pieces_of(shares, lengths, head_groups, workers):
    """What each program reads of each tile of queries: (tile, first, last + 1)."""
    lengths = [length for length in lengths for _ in range(head_groups)]
    is_cut, bounds = shares[0, 0].item(), shares[1:].tolist()
    if not is_cut:
        dealt = [[] for _ in range(workers)]
        for number, length in enumerate(lengths):
            turn, place = divmod(number, workers)
            worker = place if turn % 2 == 0 else workers - 1 - place
            dealt[worker].append((number, 0, length))
        return dealt
    return [
        [
            (
                tile,
                key if tile == begin else 0,
                end_key if tile == end else lengths[tile],
            )
            for tile in range(begin, end + (end_key > 0))
        ]
        for (begin, key), (end, end_key) in pairwise(bounds)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_shares(seed):
    """All keys are read once, and no program ends much later than the others."""
    draw = random.Random(seed)
    tokens, head_groups = draw.choice([2, 32, 128]), draw.choice([1, 2, 8])
    workers = draw.choice([3, 132])
    most, longest = draw.choice([2, 5]) * tokens, draw.choice([300, 20000])
    new = [draw.randint(1, most) for _ in range(draw.choice([1, 3, 30]))]
    contexts = [count + draw.choice([0, draw.randint(0, longest)]) for count in new]
    starts = torch.tensor([0, *accumulate(new)], device=DEVICE)
    lengths = torch.tensor(contexts, device=DEVICE), starts
    tiles = list_tiles(*lengths, sum(new), WIDTH, tokens)
    shares, flags = share_tiles(tiles, tokens, 128, head_groups, workers, 2)
    assert flags.shape == (workers, 2) and not flags.any()
    rows = all_tiles(contexts, new, tokens)
    keys = [-(-min(row[3] + tokens, row[4]) // 128) for row in rows]
    pieces = pieces_of(shares, keys, head_groups, workers)
    read = {}
    for own in pieces:
        for tile, first, end in own:
            assert read.get(tile, 0) == first < end  # from the first key to the last
            read[tile] = end
    assert read == dict(enumerate(n for n in keys for _ in range(head_groups)))

    def last_to_end(pieces):
        return max(sum(b - a + BEGINNING for _, a, b in own) for own in pieces)

    whole = pieces_of(torch.zeros(1, 1), keys, head_groups, workers)
    mean = sum(n + BEGINNING for n in keys) * head_groups / workers
    mean = max(mean, min(max(keys, default=0), LEAST) + BEGINNING)
    mean = max(mean, (max(keys, default=0) + BEGINNING) / (MOST_PARTS - 1))
    most = max(mean + 4 * BEGINNING, 1.25 * (mean + 1 + 2 * BEGINNING))
    assert last_to_end(pieces) <= min(most, last_to_end(whole))


def test_other_machines_keep_lesson_6s_kernel():
    cache = LayerCache(torch.zeros(2, 16, 1, 64), torch.zeros(2, 16, 1, 64))
    assert not hopper.takes_prompts(torch.zeros(3, 1, 64), cache, Masking(0.1))
    assert prompts_by(cache, torch.float32) == "prefill.paged_prefill"


def attend(
    case,
    *,
    late=False,
    change=lambda text: text,
    workers=3,
    places=2,
    q_places=2,
    byte_places=1,
    cut=False,
    kind=None,  # of 8 bits
    **masking,
):
    """By the kernel's text, with tiles of 16 keys; rows of sequences that wait: 7."""
    machine = Machine(late)
    # So small a tile is converted in several chunks, too.
    in_chunks = lambda text: change(text).replace("(4096)", "(64)")  # noqa: E731
    kernel = kernel_of(KERNEL, "prompts_kernel", machine, in_chunks)
    options = Masking(**{"scale": 0.25, **masking})
    num_tokens, num_heads, key_dim = case.q.shape
    num_blocks, block_size, num_kv_heads, value_dim = case.values.shape
    sizes = hopper.constants_of(
        num_heads, num_kv_heads, 64, 64, block_size, options.sliding_window
    )
    sizes |= {"TILE": 16, "PLACES": places, "Q_PLACES": q_places}
    sizes |= {"BYTE_PLACES": byte_places}
    keys, values, scales = case.keys, case.values, (None, None)
    if kind is not None:
        layer = in_eight_bits(case, kind).layer(0)
        keys, values = layer.keys, layer.values
        scales = layer.key_scale, layer.value_scale
    tokens, batch = 64 // sizes["HEADS"], case.batch
    lengths = batch.context_lengths, batch.query_starts
    tables = batch.block_tables.contiguous()
    box, rows = min(block_size, 16), num_blocks * block_size
    tiles = list_tiles(*lengths, num_tokens, tables.shape[1], 2 * tokens)
    shares, parts = None, (None,) * 4
    if cut:
        head_groups = num_heads // sizes["HEADS"]
        shares, flags = share_tiles(tiles, 2 * tokens, 16, head_groups, workers, 2)
        assert shares[0, 0]
        states = torch.full((3, workers, 2, 64), torch.nan)
        sums = torch.full((workers, 2, 64, value_dim), torch.nan)
        parts = states[0], states[1], sums, flags
    out = torch.full((num_tokens, num_heads, value_dim), 7.0)
    machine.run(
        kernel, workers, out, *parts,
        Descriptor(case.q, (tokens, sizes["HEADS"], key_dim)),
        Descriptor(keys.view(rows, -1), (box, key_dim)),
        Descriptor(values.view(rows, -1), (box, value_dim)),
        tiles, shares, tables, options.sinks, *scales, workers,
        *log2_scales(options.scale, options.softcap), **sizes,
    )  # fmt: skip
    if cut:
        assert not flags.any() and not sums.isnan().all()  # parts came, and were taken
    return out


def is_right(case, **how):
    """Rows of prompts as the oracle has them; those of sequences that decode stay."""
    out = attend(case, **how)
    masking = {name: how[name] for name in Masking._fields if name in how}
    if how.get("kind") is None:
        expected = oracle(case, **masking)
    else:
        layer = in_numbers(in_eight_bits(case, how["kind"]).layer(0), torch.float64)
        options = Masking(**{"scale": 0.25, **masking})
        expected = gathered_attention(case.q.double(), layer, case.batch, options)
        case.batch.scratch.clear()
    ends = case.batch.query_starts.tolist()
    for start, end in pairwise(ends):
        if end - start == 1:
            expected[start:end] = 7.0
    return torch.allclose(out.double(), expected, rtol=0, atol=3e-5)


LENGTHS = [(0, 1), (3, 40), (0, 70), (37, 64), (9, 1), (15, 2)]
OPTIONS = {
    "plain": {},
    "window": {"sliding_window": 20},
    "window shorter than a tile": {"sliding_window": 3},
    "window and sinks": {"sliding_window": 20, "sinks": sinks_of(4)},
    "cap and sinks": {"softcap": 5.0, "sinks": sinks_of(4)},
    "cut": {"cut": True, "workers": 40},
    "cut, with sinks": {"cut": True, "workers": 9, "sinks": sinks_of(4)},
    "places": {"places": 4, "q_places": 1, "workers": 1},
}


@interpreted
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("name", OPTIONS)
def test_against_the_oracle(name, late):
    """Ragged prompts and chunks; NaN in slots that nobody has written."""
    long = [(700, 30)] if "cut" in name else []
    case = make_case([*LENGTHS, *long], block_size=8)
    assert is_right(case, late=late, **OPTIONS[name])


@interpreted
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("kind", ["fp8", "fp8_v"])
@pytest.mark.parametrize("name", OPTIONS)
def test_in_eight_bits(name, kind, late):
    """Bytes that are no number in slots that nobody has written."""
    long = [(700, 30)] if "cut" in name else []
    case = make_case([*LENGTHS, *long], block_size=8)
    assert is_right(case, late=late, kind=kind, byte_places=2, **OPTIONS[name])


@interpreted
@pytest.mark.parametrize(
    ("heads", "kv_heads", "block_size"), [(6, 1, 16), (3, 3, 32), (8, 1, 4)]
)
def test_other_groups_and_blocks(heads, kv_heads, block_size):
    assert is_right(make_case([(5, 30), (0, 17)], heads, kv_heads, 16, 32, block_size))


@interpreted
def test_a_row_that_only_pads_sees_nothing():
    case = make_case([(0, 5), (0, 40)], block_size=8)
    case.batch.context_lengths[1] = 0
    case.batch.block_tables[1] = 10**9
    assert attend(case)[5:].eq(0).all()


MISTAKES = {
    "V given away before the product is made": (
        "        weighted = warpgroup_mma_wait(0, deps=[product])\n"
        "        _has_read(v_ring, number - 1)\n",
        "        _has_read(v_ring, number - 1)\n"
        "        weighted = warpgroup_mma_wait(0, deps=[product])\n",
    ),
    "K read before it has come": ("mbarrier.wait(k_full.index(place), ", "("),
    "V read before it has come": (
        "    mbarrier.wait(v_full.index(place), number // PLACES & 1)\n    return",
        "    return",
    ),
    "Q copied over while it is read": (
        "mbarrier.wait(q_empty.index(own), ",
        "(",
    ),
    "Q read before it has come": ("mbarrier.wait(q_full.index(own), ", "("),
    "unwritten V not cleared": ("context % BLOCK_SIZE != 0", "False"),
    "no mask beyond the last tile": ("last - whole + 1", "1"),
    "no mask at the window's edge": ("edge = last - (", "edge = count - 0 * ("),
    "what was is not rescaled": ("weighted = _scaled(weighted, rescale)", "pass"),
    "a tile too few of a window": ("(position - WINDOW + 1, 0)", "(position, 0)"),
    "heads of another group": ("kv_head = head // GROUP", "kv_head = 0 * head"),
}  # fmt: skip


def shows(mistake, case, **how):
    """Is this mistake found out, when copies are early or when they are late?"""
    right, wrong = mistake

    def change(text):
        assert text.count(right) == 1
        return text.replace(right, wrong)

    def passes(late):
        try:
            return is_right(case, late=late, change=change, **how)
        except AssertionError:  # of the machine
            return False

    return not passes(late=False) or not passes(late=True)


@interpreted
@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_show(mistake, monkeypatch):
    monkeypatch.setattr(gluon_machine, "PATIENCE", 1)
    case = make_case([(3, 100), (0, 150), (150, 64)], block_size=8)
    how = {"places": 4, "q_places": 1, "sliding_window": 60, "workers": 2}
    assert shows(MISTAKES[mistake], case, **how)


_CONVERT = """    for chunk in gl.static_range(tiles.shape[1] // CHUNK):
        rows = source.slice(chunk * CHUNK, CHUNK).load(layout)
        rows = _widen(rows, tiles.dtype)
        tiles.index(place).slice(chunk * CHUNK, CHUNK).store(rows)
    fence_async_shared()  # before the matrix unit reads them
    wait_for_threads()  # all have stored before one of them says so
"""
_IS_THERE = "    mbarrier.arrive(full.index(place))\n"
_IS_READ = "    _has_read(in_bytes, number)\n"
_ALL = _CONVERT + _IS_THERE + _IS_READ
MISTAKES_IN_EIGHT_BITS = {
    "bytes read before they have come": (
        "mbarrier.wait(full_of_bytes.index(number % PLACES), ",
        "(",
    ),
    "bytes copied over before they are read": (_ALL, _IS_READ + _CONVERT + _IS_THERE),
    "a tile there before it is converted": (_ALL, _IS_THERE + _CONVERT + _IS_READ),
    "only the first chunk is converted": (
        "gl.static_range(tiles.shape[1] // CHUNK)",
        "gl.static_range(1)",
    ),
    "all chunks are the first": ("chunk * CHUNK, CHUNK).load", "0, CHUNK).load"),
    "a tile converted over what is read": (
        "    place = _next_place(ring, number)\n    for",
        "    place = number % tiles.shape[0]\n    for",
    ),
    "K's scale forgotten": ("scale * gl.load(key_scale + head // GROUP)", "scale"),
    "V's scale forgotten": ("factor * gl.load(value_scale + head // GROUP)", "factor"),
    "K's scale of another head": ("load(key_scale + head // GROUP)", "load(key_scale)"),
}  # fmt: skip


@interpreted
@pytest.mark.parametrize("mistake", MISTAKES_IN_EIGHT_BITS)
def test_planted_mistakes_in_eight_bits_show(mistake, monkeypatch):
    monkeypatch.setattr(gluon_machine, "PATIENCE", 1)
    case = make_case([(3, 100), (0, 150), (150, 64)], block_size=8)
    how = {"kind": "fp8", "workers": 2}
    assert is_right(case, **how)
    assert shows(MISTAKES_IN_EIGHT_BITS[mistake], case, **how)


MISTAKES_OF_PARTS = {
    "both consumers have one place": (" * CONSUMERS + which\n    first", "\n    first"),
    "a part begins at the first key": ("(turn == 0), gl.load(own + 1)", "False, 0"),
    "a part ends at the last key": ("gl.load(own + 3) - 1, last)", "last, last)"),
    "a sink counts in each part": ("if not is_begun:  # of", "if True:  # of"),
    "a part is not weighted": ("_scaled(gl.load(sums), weight)", "gl.load(sums)"),
    "the total is not rescaled": ("total * rescale + gl.load", "total + gl.load"),
    "only one part is merged": ("(gl.load(own + 2) == tile)", "False"),
    "programs before others wait": ("workers - 1 - gl.program", "gl.program"),
}  # fmt: skip


@interpreted
@pytest.mark.parametrize("mistake", MISTAKES_OF_PARTS)
def test_planted_mistakes_of_parts_show(mistake):
    case = make_case([(0, 70), (700, 30)], block_size=8)
    how = {"cut": True, "workers": 9, "sinks": sinks_of(4)}
    assert is_right(case, **how)
    assert shows(MISTAKES_OF_PARTS[mistake], case, **how)


@interpreted
def test_a_barrier_that_never_opens_is_an_error(monkeypatch):
    monkeypatch.setattr(gluon_machine, "PATIENCE", 0.5)
    right = "        mbarrier.arrive(q_empty.index(own))\n"
    change = lambda text: text.replace(right, "")  # noqa: E731
    with pytest.raises(AssertionError, match="nobody opens a barrier"):
        attend(make_case([(0, 300)], block_size=8), change=change, workers=1)


COMPILE = """
import json, sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from helpers.machine_code import assembled
from minipaged.attention.kernels.hopper import constants_of, layout_of_boxes
from minipaged.attention.kernels.hopper_kernel import prompts_kernel

kind, dim, block_size, window, sinks, cut = json.loads(sys.argv[1])
sizes = constants_of(32, 8, dim, dim, block_size, window, kind != "bf16")


def descriptor(*box, kind="bf16"):
    dtype = torch.bfloat16 if kind == "bf16" else torch.float8_e4m3fn
    return f"tensordesc<{kind}{list(box)},{layout_of_boxes(box, dtype)!r}>"


box = min(block_size, sizes["TILE"])
types = dict.fromkeys(prompts_kernel.arg_names, "constexpr")
types |= {
    "out": "*bf16", "tiles": "*i32", "block_tables": "*i64", "workers": "i32",
    "scale": "fp32", "q": descriptor(64 // sizes["HEADS"], sizes["HEADS"], dim),
    "keys": descriptor(box, dim, kind="fp8e4nv" if kind == "fp8" else "bf16"),
    "values": descriptor(box, dim, kind="bf16" if kind == "bf16" else "fp8e4nv"),
}
constants = sizes | {"sinks": None, "softcap": None}
for name, kinds in {"key_scale": ["fp8"], "value_scale": ["fp8", "fp8_v"]}.items():
    if kind in kinds:
        types[name] = "*fp32"
    else:
        constants[name] = None
parts = {"maxima": "*fp32", "totals": "*fp32", "sums": "*fp32", "flags": "*i32"}
parts["shares"] = "*i32"
if cut:
    types |= parts
else:
    constants |= dict.fromkeys(parts)
if sinks:
    types["sinks"] = "*bf16"
    del constants["sinks"]
names = prompts_kernel.arg_names
aligned = [["tt.divisibility", 16]]  # as torch's tensors are
places = {(n,): aligned for n, name in enumerate(names) if types[name][0] == "*"}
types = {name: types[name] for name in names}
source = GluonASTSource(prompts_kernel, types, constants, places)
target = GPUTarget("cuda", 90, 32)
compiled = triton.compile(source, target=target, options={"num_warps": 4})
print(json.dumps(assembled(compiled)))
"""


COMPILED = [  # kind, dim, block size, window, sinks, cut
    ("bf16", 128, 16, None, False, False),
    ("bf16", 64, 16, None, True, True),
    ("bf16", 128, 16, None, False, True),
    ("fp8", 128, 16, None, False, True),
]
MORE_COMPILED = [
    ("bf16", 128, 64, None, True, False),
    ("bf16", 256, 16, None, True, True),
    ("fp8", 64, 16, 300, True, False),
    ("fp8", 256, 16, None, True, True),
    ("fp8_v", 128, 16, None, False, True),
]


@pytest.mark.skipif(not hopper.has_gluon(), reason="wants Gluon of Triton 3.6")
@pytest.mark.parametrize("case", all_or([*COMPILED, *MORE_COMPILED], COMPILED), ids=str)
def test_compiles_for_hopper(case):
    """On any machine: registers and shared memory suffice, and no product waits."""
    command = [sys.executable, "-c", COMPILE, json.dumps(case)]
    path = os.pathsep.join(sys.path)  # of our helpers, too
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": path}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    kind, dim, _, window, *_ = case
    threads = 512 if kind != "bf16" and dim <= 128 else 384
    assert found["registers"] == 65536 // threads // 8 * 8  # all that there are
    # Counters and addresses, outside of loops. A tile would be thousands of bytes.
    assert found["spilled"] <= 512
    assert not found["warnings"]  # such as of products that wait for each other
    assert found["shared"] <= 227 * 1024
    # Of each consumer, those of two loops (three with a window) and of the last tile,
    # 16 keys each.
    tile = 128 if dim <= 128 else 64
    assert found["products"] == 2 * (3 + (window is not None)) * tile // 16
    assert not found["overwritten"]


def test_a_register_given_away_too_early_is_found():
    product = "/*0*/ HGMMA.64x128x16.F32.BF16 R88, R152, gdesc[UR8].tnspB, R88, gsb0 ;"
    waits = [f"/*1*/ WARPGROUP.DEPBAR.LE gsb0, 0x{left} ;" for left in (1, 0)]
    write = "/*2*/ @!P0 FADD R155, R24, R25 ;"
    assert overwritten("\n".join([product, waits[0], write])) == [write]
    assert not overwritten("\n".join([product, waits[1], write]))
    assert not overwritten("\n".join([write, product, write.replace("155", "156")]))
    assert overwritten("\n".join([product, "/*3*/ LDS.128 R150, [R2] ;"]))
