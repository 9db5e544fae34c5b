#!/usr/bin/env bash
# triton 3.7.1 and 3.9.0: a product's registers must be there at launch; setmaxnreg does not count.
# Behaviour: compiled for sm_90. Gluon's `warp_specialize` gives a partition the registers
#   that `worker_num_regs` asks for (setmaxnreg in PTX). Here a partition of 4 warps
#   multiplies 64 rows by 256 columns; each thread holds 128 float32 accumulators.
#   With 16 warps, each thread has 65536 / 512 = 128 registers at launch. The partition
#   asks for 216. If an instruction makes all 256 columns (m64n256k16), ptxas stops:
#   "(C7602) Insufficient registers (128) to compile instruction [...] Try to compile with
#   register target of 154 or higher". If an instruction makes 128 of them, the same tile
#   compiles, and its threads use 151 registers, which is more than at launch.
#   With 12 warps (168 at launch), m64n256k16 compiles. It compiles even if the partition
#   asks for 120. Then ptxas drops every setmaxnreg of the kernel, so no partition gets what
#   it asked for. ptxas says "(C7507) [...] 'setmaxnreg' ignored", but Triton hides that.
# One would guess: a partition's registers are what it asked for, so 216 suffice for 154.
# For users: make instructions narrower: `instr_shape` of NVMMADistributedLayout can be
#   [16, 128, 16] for a tile of 256 columns. Or use fewer warps. TRITON_DUMP_PTXAS_LOG=1
#   shows C7507. ptxas decides this (12.8 in triton 3.7.1, 13.4 in 3.9.0), so other
#   compilers that end with it can meet the same error.
# Seen on 2026-11-29:
#   triton 3.7.1 and, alike, triton 3.9.0
#   warps  at launch  asked for  columns  result
#      16        128        216      256  Insufficient registers (128): wants 154
#      16        128        216      128  151 registers used, 8 setmaxnreg
#      12        168        216      256  151 registers used, 8 setmaxnreg
#      12        168        120      256  151 registers used, 0 setmaxnreg
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat > "$folder/finding.py" <<'END'
import contextlib
import io
import re
import subprocess
import tempfile

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia import hopper
from triton.runtime.errors import PTXASError


@gluon.jit
def idle():
    pass


@gluon.jit
def multiply(left, right, out, COLUMNS: gl.constexpr):
    """COLUMNS: how many of the 256 an instruction makes."""
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, COLUMNS, 16]
    )
    zeros = gl.zeros([64, 256], gl.float32, layout)
    product = hopper.warpgroup_mma(left, right, zeros)
    row = gl.arange(0, 64, gl.SliceLayout(1, layout))
    column = gl.arange(0, 256, gl.SliceLayout(0, layout))
    gl.store(out + row[:, None] * 256 + column[None, :], product)


@gluon.jit
def shared_ones(ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    plain: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for(
        [ROWS, COLUMNS], gl.bfloat16
    )
    ones = gl.full([ROWS, COLUMNS], 1.0, gl.bfloat16, plain)
    return gl.allocate_shared_memory(gl.bfloat16, [ROWS, COLUMNS], shared, ones)


@gluon.jit
def kernel(out, WARPS: gl.constexpr, REGISTERS: gl.constexpr, COLUMNS: gl.constexpr):
    left = shared_ones(64, 64)
    right = shared_ones(64, 256)
    hopper.fence_async_shared()
    gl.warp_specialize(
        [(idle, ()), (multiply, (left, right, out, COLUMNS)), (idle, ())],
        [4, WARPS - 8],
        [REGISTERS, 40],
    )


def result(warps, registers, columns):
    """(registers at launch, what the assembler says or makes)."""
    constants = {"WARPS": warps, "REGISTERS": registers, "COLUMNS": columns}
    signature = {"out": "*fp32"} | dict.fromkeys(constants, "constexpr")
    aligned = {(0,): [["tt.divisibility", 16]]}
    source = GluonASTSource(kernel, signature, constants, aligned)
    target, options = GPUTarget("cuda", 90, 32), {"num_warps": 4}
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            compiled = triton.compile(source, target=target, options=options)
    except PTXASError as error:
        found = re.search(
            r"\(C7602\) (Insufficient registers \((\d+)\)).* target of (\d+)",
            str(error),
        )
        return int(found[2]), f"{found[1]}: wants {found[3]}"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.nvdisasm.path, "-c", file.name]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    used = max(int(number) for number in re.findall(r"\bR(\d+)\b", run.stdout)) + 1
    changes = run.stdout.count("USETMAXREG")
    assert ("(C7507)" in printed.getvalue()) == (changes == 0), printed.getvalue()
    at_launch = int(re.search(r"\.maxnreg (\d+)", compiled.asm["ptx"])[1])
    return at_launch, f"{used} registers used, {changes} setmaxnreg"


knobs.nvidia.dump_ptxas_log = True  # it is printed; see `printed`
print("triton", triton.__version__)
print("warps  at launch  asked for  columns  result")
texts = []
for case in [(16, 216, 256), (16, 216, 128), (12, 216, 256), (12, 120, 256)]:
    at_launch, text = result(*case)
    print(f"{case[0]:5}  {at_launch:9}  {case[1]:9}  {case[2]:7}  {text}")
    assert at_launch == 65536 // (32 * case[0]) // 8 * 8, at_launch
    texts.append(text)
assert texts[0] == "Insufficient registers (128): wants 154", texts
for text, changes in zip(texts[1:], [True, True, False], strict=True):
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    assert numbers[0] > 128 and (numbers[1] > 0) == changes, texts
END
for version in 3.7.1 3.9.0; do
    "$folder/venv/bin/pip" install --quiet triton==$version
    # The variable quiets a warning. At its end, 3.9.0 says "nanobind: leaked": never mind.
    TRITON_DEFAULT_FP_FUSION=1 TRITON_CACHE_DIR="$folder/cache" \
        "$folder/venv/bin/python" -I "$folder/finding.py"
done
