#!/usr/bin/env bash
# triton 3.9.0: a loop that contains a `gdc_wait` is no longer pipelined, without a warning.
# Behaviour: compiled for sm_90. In a loop with num_stages=4, loads that feed `tl.dot` are
#   asynchronous (cp.async), three tiles ahead. Up to 3.8.0, `tl.extra.cuda.gdc_wait()` is
#   inline assembly, and a loop that contains it has the same copies as a loop without.
#   With 3.9.0 it is an operation, tt.grid_dependency_wait, and a loop that contains it has
#   none: its loads are plain (ld.global), in the round that needs them. That is also so
#   if only the first round waits, and if launch_pdl is off. A wait before the loop and
#   `gdc_launch_dependents` in the loop change nothing.
# One would guess: the newer version compiles the loop as before, or says why it cannot.
# For users: wait before the loop, and count cp.async in `compiled.asm["ptx"]`. With 3.7.1
#   the loop is pipelined, but then copies overtake the wait: see triton_gdc_wait_loop.sh.
# Seen on 2026-11-29:
#                          triton 3.7.1         triton 3.9.0
#                        cp.async  ld.global  cp.async  ld.global
#   no wait                    36          0        36          0
#   before the loop            36          0        36          0
#   in the loop                36          0         0          8
#   in its first round         36          0         0          8
#   launch_dependents          36          0        36          0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/finding.py" <<'END'
import json

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def multiplied(tiles, out, count, CASE: tl.constexpr):
    row, inner, wide = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 128)
    ones = tl.full([16, 64], 1.0, tl.bfloat16)
    total = tl.zeros([16, 128], tl.float32)
    if CASE == "before the loop":
        tl.extra.cuda.gdc_wait()
    for n in tl.range(0, count, num_stages=4):
        if CASE == "in the loop":
            tl.extra.cuda.gdc_wait()
        elif CASE == "in its first round":
            if n == 0:
                tl.extra.cuda.gdc_wait()
        elif CASE == "launch_dependents":
            tl.extra.cuda.gdc_launch_dependents()
        tile = tl.load(tiles + (n * 128 + wide[:, None]) * 64 + inner[None, :])
        total = tl.dot(ones, tl.trans(tile), total)
    tl.store(out + row[:, None] * 128 + wide[None, :], total)


def counts(case, **options):
    """Of cp.async and ld.global in the PTX."""
    signature = {"tiles": "*bf16", "out": "*fp32", "count": "i32"}
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(2)}
    source = ASTSource(multiplied, signature, {"CASE": case}, aligned)
    target = GPUTarget("cuda", 90, 32)
    ptx = triton.compile(source, target=target, options=options).asm["ptx"]
    waits = case in ("before the loop", "in the loop", "in its first round")
    assert ptx.count("griddepcontrol.wait") == waits, case
    return ptx.count("cp.async.c"), ptx.count("ld.global")


found = {}
for case in [
    "no wait",
    "before the loop",
    "in the loop",
    "in its first round",
    "launch_dependents",
]:
    found[case] = counts(case, launch_pdl=True)
    assert counts(case, launch_pdl=False) == found[case], case
print(json.dumps([triton.__version__, found]))
END
for version in 3.7.1 3.9.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet triton==$version
    # -W error: a warning would be an error. The variable quiets one about another thing.
    TRITON_DEFAULT_FP_FUSION=1 TRITON_CACHE_DIR="$folder/cache" \
        "$folder/$version/bin/python" -I -W error "$folder/finding.py" \
        > "$folder/$version.json"
done
python3 -I - "$folder"/3.7.1.json "$folder"/3.9.0.json <<'END'
import json
import sys
from pathlib import Path

(old, before), (new, after) = [json.loads(Path(p).read_text()) for p in sys.argv[1:]]
print(f"{'':21}  triton {old:12}  triton {new}")
print(f"{'':20}" + "  cp.async  ld.global" * 2)
for case in before:
    numbers = [*before[case], *after[case]]
    print(f"{case:20}  {numbers[0]:8}  {numbers[1]:9}  {numbers[2]:8}  {numbers[3]:9}")
assert all(copies and not plain for copies, plain in before.values()), before
lost = [case for case, (copies, plain) in after.items() if plain and not copies]
assert lost == ["in the loop", "in its first round"], after
END
