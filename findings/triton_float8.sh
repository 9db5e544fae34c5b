#!/usr/bin/env bash
# triton 3.7.1, torch 2.13.0: interpreted, a cast to float8e4nv halves some numbers.
# Behaviour: with TRITON_INTERPRET=1, 1.99 becomes 1 and 7.9 becomes 4: where the
#   mantissa is rounded up to the next power of two, the exponent stays. 500 and 1000
#   become 256, 0.001 becomes 0, and NaN a number. A compiled kernel rounds to the
#   nearest number, and stops at 448 (PTX: cvt.rn.satfinite.e4m3x2.f32), as torch does.
# One would guess: interpreted, an error of a sixteenth at most, as e4m3 has.
# For users: the interpreter is no oracle for kernels that store 8 bits. Compare with
#   torch's cast, of numbers that are clamped to 448 first.
# Seen on 2026-11-29:
#   triton 3.7.1 torch 2.13.0+cpu
#   numbers     1.99 7.9 500 1000 0.001 0.00195312 1.06 nan
#   interpreted 1 4 256 256 0 0.00195312 1 384
#   nearest     2 8 448 448 0.00195312 0.00195312 1 nan
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 triton==3.7.1
cat > "$folder/finding.py" <<'END'
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def cast(source, out, back, n: tl.constexpr):
    place = tl.arange(0, n)
    x = tl.load(source + place).to(tl.float8e4nv)
    tl.store(out + place, x)
    tl.store(back + place, x.to(tl.float32))


x = torch.tensor([1.99, 7.9, 500.0, 1000.0, 0.001, 2.0**-9, 1.06, float("nan")])
out, back = torch.empty(8, dtype=torch.float8_e4m3fn), torch.empty(8)
cast[(1,)](x, out, back, 8)
right = x.clamp(-448, 448).to(torch.float8_e4m3fn).float()

print("triton", triton.__version__, "torch", torch.__version__)
print("numbers    ", *(f"{number:g}" for number in x.tolist()))
print("interpreted", *(f"{number:g}" for number in back.tolist()))
print("nearest    ", *(f"{number:g}" for number in right.tolist()))
assert back[0] == 1 and right[0] == 2  # halved
assert back[2] == 256 and right[2] == 448  # wrapped
END
"$folder/venv/bin/python" -I "$folder/finding.py"
