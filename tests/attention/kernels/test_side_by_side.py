"""Kernels are compiled in threads, and nothing is launched meanwhile.

Where there is no GPU, kernels are compiled for one of Hopper's generation all the same,
in a process of its own: in this one Triton interprets.
"""

import os
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest
import torch

from minipaged.attention.kernels.setup import INTERPRETED, tl, triton
from minipaged.attention.kernels.side_by_side import compiled_side_by_side

ROOT = Path(__file__).parents[3]

# A driver that knows what to compile for, and can launch nothing.
KERNELS = """
from threading import Thread, get_ident
import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.side_by_side import compiled_side_by_side

class Hopper:
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0

driver.set_active(Hopper())
compiled_by = []

@triton.jit
def fill(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1.0)

@triton.jit
def wrong(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), tl.zeros([3], tl.float32))  # not a power of two

def note(src, **_): compiled_by.append(get_ident())
knobs.compilation.listener = note
kernels, x, launch = fill.device_caches[0][0], torch.zeros(64), triton.JITFunction.run

def refused(kernel, *arguments, words):
    try:
        kernel[1,](*arguments)
    except Exception as error:
        return words in repr(error)
"""
RUN = """
others = []
with compiled_side_by_side():
    for size in (16, 32, 64, 64):
        assert fill[1,](x, size) is None
    assert wrong[1,](x, 16) is None
    other = Thread(target=lambda: others.append(refused(fill, x, 8, words="Hopper")))
    other.start()
    other.join()
assert others == [True]  # it tried to launch
assert triton.JITFunction.run is launch
sizes = [16, 32, 64]
assert len(compiled_by) == 4 and compiled_by.count(get_ident()) == 0, compiled_by
assert all(hasattr(kernel, "asm") for kernel in kernels.values())
assert len(kernels) == 4
for size in sizes:
    assert refused(fill, x, size, words="Hopper")  # there now, and launched
assert len(compiled_by) == 4
assert refused(wrong, x, 16, words="Error")
"""


OLD = """
triton.AsyncCompileMode = lambda executor: None  # so much Triton 3.5 takes
with compiled_side_by_side():
    assert refused(fill, x, 16, words="Hopper")  # it tried to launch
assert compiled_by == [get_ident()]
"""


def run_alone(text, folder):
    """In a process of its own; it must end well."""
    script = folder / "kernels_of_a_test.py"  # Triton reads a kernel's source
    script.write_text(text)
    own = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(folder)}
    result = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | own | {"PYTHONPATH": str(ROOT), "TQDM_DISABLE": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.skipif(not INTERPRETED, reason="launches would be real")
@pytest.mark.skipif(
    "ignore_errors" not in signature(triton.AsyncCompileMode).parameters,
    reason="Triton 3.5 stays in its mode when a kernel cannot be compiled",
)
def test_kernels_are_compiled_in_threads_and_not_launched(tmp_path):
    run_alone(KERNELS + RUN, tmp_path)


@pytest.mark.skipif(not INTERPRETED, reason="launches would be real")
def test_an_old_triton_launches_as_ever(tmp_path):
    run_alone(KERNELS + OLD, tmp_path)


@triton.jit
def _fill(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1.0)


@pytest.mark.skipif(not INTERPRETED, reason="compiled, so not launched")
def test_interpreted_kernels_run_as_ever():
    x = torch.zeros(16)
    with compiled_side_by_side():
        _fill[1,](x, 16)
    assert x.tolist() == [1.0] * 16
