#!/usr/bin/env bash
# triton 3.7.1: a tile that `tl.trans` turns to be a left factor is loaded without a pipeline.
# Behaviour: in a loop with num_stages=4, loads that feed `tl.dot` are asynchronous
#   (cp.async), three tiles ahead. If the tile is turned by `tl.trans` and is the left
#   factor, compiled for sm_80, its loads are plain (ld.global), in the iteration that
#   needs them; for sm_90 they are if it is converted, too. No warning says so. The
#   right factor, as in q @ tl.trans(k), keeps its pipeline. So does the left one if
#   pointers that lie the other way load it as it is wanted.
# One would guess: `tl.trans` only names dimensions, so both sides are pipelined alike.
# For users: count cp.async in `compiled.asm["ptx"]`; exchange the axes of the pointers
#   instead of turning the tile.
# Seen on 2026-11-29:
#   triton 3.7.1          cp.async  ld.global
#   sm_80 left, trans            0         33
#   sm_80 left, pointers        36          1
#   sm_80 right, trans          36          1
#   sm_90 left, trans           36          1
#   sm_90 left, trans, cast      0         33
#   sm_90 left, pointers, cast  36          1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet triton==3.7.1
cat > "$folder/finding.py" <<'END'
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def added(few, many, out, count, LEFT: tl.constexpr, TRANS: tl.constexpr):
    row, inner, wide = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 128)
    part = tl.load(few + row[:, None] * 64 + inner[None, :])  # [16, 64]
    if LEFT:
        total = tl.zeros([128, 16], tl.float32)
        for n in tl.range(0, count, num_stages=4):
            if TRANS:
                tile = tl.load(many + (n * 64 + inner[:, None]) * 128 + wide[None, :])
                tile = tl.trans(tile)
            else:
                tile = tl.load(many + (n * 64 + inner[None, :]) * 128 + wide[:, None])
            total = tl.dot(tile.to(tl.bfloat16), tl.trans(part), total)
        tl.store(out + row[None, :] * 128 + wide[:, None], total)
    else:
        total = tl.zeros([16, 128], tl.float32)
        for n in tl.range(0, count, num_stages=4):
            tile = tl.load(many + (n * 128 + wide[:, None]) * 64 + inner[None, :])
            total = tl.dot(part, tl.trans(tile).to(tl.bfloat16), total)
        tl.store(out + row[:, None] * 128 + wide[None, :], total)


def counts(capability, kind, left, trans):
    """Of cp.async and ld.global in the PTX."""
    signature = {"few": "*bf16", "many": kind, "out": "*fp32", "count": "i32"}
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(3)}
    source = ASTSource(added, signature, {"LEFT": left, "TRANS": trans}, aligned)
    target = GPUTarget("cuda", capability, 32)
    ptx = triton.compile(source, target=target, options={"num_warps": 4}).asm["ptx"]
    return ptx.count("cp.async.c"), ptx.count("ld.global")


cases = {
    "sm_80 left, trans": (80, "*bf16", True, True),
    "sm_80 left, pointers": (80, "*bf16", True, False),
    "sm_80 right, trans": (80, "*bf16", False, True),
    "sm_90 left, trans": (90, "*bf16", True, True),
    "sm_90 left, trans, cast": (90, "*fp16", True, True),
    "sm_90 left, pointers, cast": (90, "*fp16", True, False),
}
print(f"triton {triton.__version__:14} cp.async  ld.global")
found = {}
for name, case in cases.items():
    found[name], plain = counts(*case)
    print(f"{name:26} {found[name]:3}  {plain:9}")
without = [name for name, count in found.items() if not count]
assert without == ["sm_80 left, trans", "sm_90 left, trans, cast"], without
END
TRITON_CACHE_DIR="$folder/cache" "$folder/venv/bin/python" -I "$folder/finding.py"
