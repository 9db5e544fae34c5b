#!/usr/bin/env bash
# triton 3.7.1: the right factor of a product, stored in 8 bits, is loaded byte by byte.
# Behaviour: `tl.dot(w, v.to(tl.bfloat16))`, where v is a tile of float8e4nv in rows,
#   waits in shared memory as bytes. Each is loaded by itself, because the transposing
#   load (ldmatrix.trans) moves 16 bits. Then two at a time become float16, and one at
#   a time bfloat16. In a decode kernel, both together take so many instructions that
#   half the bytes take as long as all.
# One would guess: half the loads, and a conversion of two numbers at a time.
# For users: convert to float16, not to bfloat16. And load words of 16 bits, which hold
#   two columns; take them apart after the load (inline assembly: prmt, and
#   cvt.rn.f16x2.e4m3x2), and multiply even and odd columns by themselves.
# Seen on 2026-11-29:
#   triton 3.7.1: instructions of each of 128 threads, a tile of 64 x 128
#   words: ldmatrix.trans; bytes: loads of one; pairs: conversions of two
#   bf16    to bf16: {'words': 8, 'bytes': 0, 'pairs': 0, 'to bf16': 0}
#   fp8e4nv to bf16: {'words': 0, 'bytes': 64, 'pairs': 32, 'to bf16': 64}
#   fp8e4nv to fp16: {'words': 0, 'bytes': 64, 'pairs': 32, 'to bf16': 0}
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet triton==3.7.1
cat > "$folder/finding.py" <<'END'
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def weigh(out, weights, values, count, KIND: tl.constexpr):
    row, at, column = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 128)
    total = tl.zeros([16, 128], tl.float32)
    for first in range(0, count, 64):
        w = tl.load(weights + row[:, None] * count + first + at[None, :])
        v = tl.load(values + (first + at)[:, None] * 128 + column[None, :])
        total = tl.dot(w.to(KIND), v.to(KIND), total)
    tl.store(out + row[:, None] * 128 + column[None, :], total)


def ptx(stored, kind):
    types = {"out": "*fp32", "weights": "*fp32", "values": f"*{stored}"}
    types |= {"count": "i32", "KIND": "constexpr"}
    aligned = {(at,): [["tt.divisibility", 16]] for at in range(4)}
    source = ASTSource(weigh, types, {"KIND": kind}, aligned)
    return triton.compile(source, GPUTarget("cuda", 90, 32)).asm["ptx"]


what = "instructions of each of 128 threads, a tile of 64 x 128"
print(f"triton {triton.__version__}: {what}")
print("words: ldmatrix.trans; bytes: loads of one; pairs: conversions of two")
seen = []
for stored, kind in (
    ("bf16", tl.bfloat16),
    ("fp8e4nv", tl.bfloat16),
    ("fp8e4nv", tl.float16),
):
    code = ptx(stored, kind)
    found = {
        "words": len(re.findall(r"ldmatrix\S*trans", code)),
        "bytes": len(re.findall(r"ld\.shared\.[bsu]8", code)),
        "pairs": code.count("cvt.rn.f16x2.e4m3x2"),
        "to bf16": len(re.findall(r"cvt\.(?:rn\.)?bf16\.f16", code)),
    }
    print(f"{stored:7} to {kind}:", found)
    seen.append(list(found.values()))
assert seen[0] == [8, 0, 0, 0]
assert seen[1] == [0, 64, 32, 64] and seen[2] == [0, 64, 32, 0]
END
TRITON_CACHE_DIR="$folder/cache" "$folder/venv/bin/python" -I "$folder/finding.py"
