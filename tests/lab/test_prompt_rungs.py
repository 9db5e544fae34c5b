"""Appendix C's rungs for prompts: what they compute, and that they compile.

No interpreter of Triton's runs Gluon, so a machine of ours runs the kernels' text. On a
GPU, benchmarks/gpu/prompt_rungs.py checks them before it measures.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from helpers import gluon_machine
from helpers.gluon_machine import Descriptor, Machine, kernel_of
from minipaged.attention.kernels.hopper import has_gluon
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.sizes import LOG2_E
from minipaged.lab.measure.measured import measured_prompt_rungs
from minipaged.lab.tour import prompt_rungs
from minipaged.lab.tour.prompt_rungs import RUNGS

KERNELS = Path(prompt_rungs.__file__)
DIM, GROUP, WORKERS = 128, 2, 3
interpreted = pytest.mark.skipif(not INTERPRETED, reason="a GPU runs the kernels")


def same(text):
    return text


def is_right(number, late, num_tokens=384, change=same):
    """By the kernel's text, launched as `attend` launches it."""
    rung, draw = RUNGS[number], torch.Generator().manual_seed(0)
    q = torch.randn(2 * GROUP, num_tokens, DIM, generator=draw)
    keys, values = torch.randn(2, 2, num_tokens, DIM, generator=draw)
    boxes = [
        Descriptor(x.view(-1, DIM), [rows, DIM])
        for x, rows in ((q, 128 if number == 1 else 64), (keys, 128), (values, 128))
    ]
    machine, out, pieces = (
        Machine(late),
        torch.zeros_like(q),
        len(q) * num_tokens // 128,
    )
    sizes = num_tokens, len(q), DIM**-0.5 * LOG2_E
    name = "together" if number == 1 else "apart"
    kernel = kernel_of(KERNELS, name, machine, change)
    if number == 1:  # a partition of its own: the machine's copies run beside it
        alone = partial(kernel, GROUP=GROUP)
        job = lambda *given: machine.specialize([(alone, given)], [], [])  # noqa: E731
        machine.run(job, pieces, out, *boxes, *sizes)
    else:
        loop = kernel.__globals__[rung.loop.fn.__name__]
        options = {"GROUP": GROUP, "LOOP": loop, "HEAVY_FIRST": rung.heavy_first}
        programs = WORKERS if rung.persistent else pieces
        machine.run(kernel, programs, out, *boxes, pieces, *sizes, **options)
    expected = scaled_dot_product_attention(
        *(x.double()[None] for x in (q, keys, values)), is_causal=True, enable_gqa=True
    )
    return torch.allclose(out.double(), expected[0], rtol=0, atol=3e-5)


@interpreted
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("number", RUNGS)
def test_against_float64(number, late):
    assert is_right(number, late)


MISTAKES = {  # rung, right, wrong
    "no mask on the diagonal": (1, "gl.where(key <= row, ", "gl.where(True, "),
    "K read before it has come": (1, "mbarrier.wait(full.index(1), n & 1)", "pass"),
    "a ring's tile read before it has come": (
        2,
        "mbarrier.wait(full.index(place), ",
        "(0, ",
    ),
    "a place filled before it is empty": (
        2,
        "mbarrier.wait(empty.index(place), ",
        "(0, ",
    ),
    "V given away before the product is made": (
        3,
        "        weighted = warpgroup_mma_wait(0, deps=[product])\n"
        "        has_read(v_ring, number - 1)\n",
        "        has_read(v_ring, number - 1)\n"
        "        weighted = warpgroup_mma_wait(0, deps=[product])\n",
    ),
    "what was is not rescaled": (
        3,
        "has_read(v_ring, number - 1)\n        weighted = ",
        "has_read(v_ring, number - 1)\n        ignored = ",
    ),
    "a piece too few": (4, "(place_in(whole) < left)", "(place_in(whole) < 0 * left)"),
}


@interpreted
@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_show(mistake, monkeypatch):
    monkeypatch.setattr(gluon_machine, "PATIENCE", 1)
    number, right, wrong = MISTAKES[mistake]

    def change(text):
        assert text.count(right) == 1
        return text.replace(right, wrong)

    def passes(late):
        try:
            return is_right(number, late, 640, change)
        except AssertionError:  # of the machine
            return False

    assert not passes(late=False) or not passes(late=True)


COMPILE = """
import json, sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver


class Hopper:  # a driver that knows what to compile for, and can launch nothing
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0


driver.set_active(Hopper())
launch, compiled = triton.JITFunction.run, []
triton.JITFunction.run = lambda kernel, *given, warmup, **options: compiled.append(
    launch(kernel, *given, warmup=True, **options)
)
from helpers.machine_code import assembled
from minipaged.lab.tour.prompt_rungs import RUNGS, attend

q, kv = (torch.zeros(heads, 1024, 128, dtype=torch.bfloat16) for heads in (32, 8))
# Rung 4 is rung 3 in another order, in fewer programs.
for number in (1, 2, 3):
    attend(q, kv, kv, RUNGS[number])
print(json.dumps([assembled(kernel) for kernel in compiled]))
"""


@pytest.mark.skipif(not has_gluon(), reason="wants Gluon of Triton 3.6")
def test_compile_for_hopper():
    """On any machine: nothing spills, and no product's factor is overwritten."""
    path = os.pathsep.join(sys.path)  # of our helpers, too
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", COMPILE],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    first, *others = json.loads(run.stdout.splitlines()[-1])
    for found in (first, *others):
        assert found["spilled"] == 0 and not found["warnings"]
        assert found["shared"] <= 227 * 1024
        assert not found["overwritten"]
    # Of rung 1, shared memory has room for two, and the registers for one.
    assert 256 * first["registers"] <= 65536 < 2 * 256 * first["registers"]
    # P·V of 128 keys, 16 at a time: in one loop, or of two consumers; rung 3 once more.
    assert [found["products"] for found in (first, *others)] == [8, 16, 32]


def test_what_was_measured():
    """On every length, each rung is quicker than the one before it."""
    stored = measured_prompt_rungs()
    assert min(stored["equal_to_float64"].values()) > 0.9999
    for row in stored["prompts"].values():
        speeds = [row["tflop_per_s"][f"rung {number}"] for number in RUNGS]
        assert speeds == sorted(speeds)
