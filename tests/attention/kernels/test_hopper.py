"""The kernel for prompts on Hopper: its list of tiles, and that it compiles.

No interpreter runs Gluon: results are checked on a GPU, by benchmarks/gpu/prompts.py.
"""

import json
import os
import random
import subprocess
import sys
from itertools import accumulate

import pytest
import torch

from helpers.thorough import all_or
from minipaged.attention.backend import Masking
from minipaged.attention.kernels import hopper
from minipaged.attention.kernels.hopper_tiles import list_tiles
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.memory.kv_cache import LayerCache

DEVICE = "cpu" if INTERPRETED else "cuda"
WIDTH = 17  # of the tables


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


def test_other_machines_keep_lesson_6s_kernel():
    cache = LayerCache(torch.zeros(2, 16, 1, 64), torch.zeros(2, 16, 1, 64))
    assert not hopper.takes_prompts(torch.zeros(3, 1, 64), cache, Masking(0.1))


COMPILE = """
import json, re, subprocess, sys, tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from minipaged.attention.kernels.hopper import constants_of, layout_of_boxes
from minipaged.attention.kernels.hopper_kernel import prompts_kernel

dim, block_size, window, sinks = json.loads(sys.argv[1])
sizes = constants_of(32, 8, dim, dim, block_size, window)


def descriptor(*box):
    return f"tensordesc<bf16{list(box)},{layout_of_boxes(box, torch.bfloat16)!r}>"


box = min(block_size, sizes["TILE"])
types = dict.fromkeys(prompts_kernel.arg_names, "constexpr")
types |= {
    "out": "*bf16", "tiles": "*i32", "block_tables": "*i64", "workers": "i32",
    "scale": "fp32", "q": descriptor(64 // sizes["HEADS"], sizes["HEADS"], dim),
    "keys": descriptor(box, dim), "values": descriptor(box, dim),
}
constants = sizes | {"sinks": None, "softcap": None}
if sinks:
    types["sinks"] = "*bf16"
    del constants["sinks"]
source = GluonASTSource(prompts_kernel, types, constants)
target = GPUTarget("cuda", 90, 32)
compiled = triton.compile(source, target=target, options={"num_warps": 4})
ptxas = get_ptxas(90).path
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "kernel.ptx")
    path.write_text(compiled.asm["ptx"])
    command = [ptxas, "-v", "--gpu-name=sm_90a", path, "-o", path.with_suffix(".bin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
numbers = {
    "registers": r"Used (\\d+) registers",
    "spilled": r"(\\d+) bytes spill stores",
}
found = {name: int(re.search(text, said)[1]) for name, text in numbers.items()}
found["warnings"] = "warning" in said.lower()
found["shared"] = compiled.metadata.shared
print(json.dumps(found))
"""


CASES = [(128, 16, None, False), (64, 16, None, True)]  # dim, block size, window, sinks


@pytest.mark.skipif(not hopper.has_gluon(), reason="wants Gluon of Triton 3.6")
@pytest.mark.parametrize(
    "case", all_or([*CASES, (256, 64, 100, False)], CASES), ids=str
)
def test_compiles_for_hopper(case):
    """On any machine: registers and shared memory suffice, and no product waits."""
    command = [sys.executable, "-c", COMPILE, json.dumps(case)]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["registers"] == 168  # of 384 threads: all that there are
    # Counters and addresses, outside of products. A tile would be thousands of bytes.
    assert found["spilled"] <= 256
    assert not found["warnings"]  # such as of products that wait for each other
    assert found["shared"] <= 227 * 1024
