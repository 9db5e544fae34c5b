#!/usr/bin/env bash
# triton 3.7.1: a `gdc_wait` in a loop's first round comes after the round's loads and its product.
# Behaviour: compiled for sm_90. `if n == 0: tl.extra.cuda.gdc_wait()` begins a loop, and
#   tl.load and tl.dot follow it. If the loop is pipelined (num_stages of 2 or more), tiles
#   are asked for before the loop, and in the first round a tile is multiplied, and one
#   more is asked for, before `griddepcontrol.wait`. With num_stages=1, and if gdc_wait
#   stands before the loop, all loads come after it. No warning says so. The table counts
#   instructions on the way to the wait; no GPU is needed.
# One would guess: what is written behind a wait for the kernel before is read after it.
#   If that kernel writes the tiles, a launch that begins early may read old numbers.
# For users: wait before the loop. If only some tensors need the wait, load these in the
#   branch that waits, and look at the order in `compiled.asm["ptx"]`.
# Seen on 2026-11-29:
#   triton 3.7.1           copies  loads  products
#   in the loop, 1 stage        0      0         0
#   in the loop, 2 stages      16      0        16
#   in the loop, 3 stages      24      0        16
#   before it, 3 stages         0      0         0
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
def multiplied(tiles, out, count, IN_LOOP: tl.constexpr, STAGES: tl.constexpr):
    row, inner, wide = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 128)
    ones = tl.full([16, 64], 1.0, tl.bfloat16)
    total = tl.zeros([16, 128], tl.float32)
    if not IN_LOOP:
        tl.extra.cuda.gdc_wait()
    for n in tl.range(0, count, num_stages=STAGES):
        if IN_LOOP:
            if n == 0:
                tl.extra.cuda.gdc_wait()
        tile = tl.load(tiles + (n * 128 + wide[:, None]) * 64 + inner[None, :])
        total = tl.dot(ones, tl.trans(tile), total)
    tl.store(out + row[:, None] * 128 + wide[None, :], total)


def compiled(in_loop, stages):
    signature = {"tiles": "*bf16", "out": "*fp32", "count": "i32"}
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(2)}
    constants = {"IN_LOOP": in_loop, "STAGES": stages}
    source = ASTSource(multiplied, signature, constants, aligned)
    options = {"num_warps": 4, "launch_pdl": True}
    target = GPUTarget("cuda", 90, 32)
    return triton.compile(source, target=target, options=options).asm["ptx"]


def on_the_way(ptx, goal="griddepcontrol.wait"):
    """The instructions on the shortest way from the kernel's beginning to the wait."""
    blocks, name = {"begin": []}, "begin"
    for line in ptx[ptx.index("{\n") :].splitlines():
        if label := re.match(r"(\$L\w+):", line):
            blocks[label[1]] = []
            blocks[name].append(f"bra {label[1]};")  # it goes on there
            name = label[1]
        blocks[name].append(line)
    ways, known = [("begin", [])], {"begin"}
    for name, passed in ways:
        for line in blocks[name]:
            if goal in line:
                return passed
            passed = [*passed, line]
            if branch := re.search(r"(@\S+\s+)?bra(?:\.uni)?\s+(\$L\w+);", line):
                if branch[2] not in known:
                    known.add(branch[2])
                    ways.append((branch[2], passed))
                if not branch[1]:
                    break


cases = {
    "in the loop, 1 stage": (True, 1),
    "in the loop, 2 stages": (True, 2),
    "in the loop, 3 stages": (True, 3),
    "before it, 3 stages": (False, 3),
}
print(f"triton {triton.__version__:15} copies  loads  products")
early = {}
for name, case in cases.items():
    way = "\n".join(on_the_way(compiled(*case)))
    counts = [way.count(kind) for kind in ("cp.async.cg", "ld.global", "mma.sync")]
    early[name] = sum(counts)
    print(f"{name:22} {counts[0]:6}  {counts[1]:5}  {counts[2]:8}")
assert not early["in the loop, 1 stage"] and not early["before it, 3 stages"], early
assert early["in the loop, 2 stages"] and early["in the loop, 3 stages"], early
END
TRITON_CACHE_DIR="$folder/cache" "$folder/venv/bin/python" -I "$folder/finding.py"
