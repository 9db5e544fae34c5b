#!/usr/bin/env bash
# torch 2.13.0: on a CPU, silu of the same number depends on the numbers around it.
# Behaviour: elementwise functions such as silu, sigmoid, softplus and gelu (tanh) take
#   most of a tensor with vector instructions, and its last numbers, fewer than a vector,
#   one by one, by another exponential. So the last bit of a row's result depends on
#   where the row lies in the tensor, and on the tensor's length.
# One would guess: f(x)[i] is f(x[i]), to the bit, because no number is added to another.
# For users: a batch is not equal to its rows, even where all products of matrices are.
#   Pad tensors to a multiple of 32 numbers where bits must be equal.
# Seen on 2026-11-29:
#   an AMD EPYC with AVX-512
#   torch 2.13.0+cpu
#   width 100: rows of 300 that differ from the same row alone: 57
#   largest relative difference: 1.6e-07
#   in columns 96 to 99
#   width 96, a multiple of 32: equal True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -I - <<'END'
import torch
from torch.nn.functional import silu

torch.manual_seed(0)
print("torch", torch.__version__)
x = torch.randn(300, 100)
whole = silu(x)
alone = torch.stack([silu(row) for row in x])
differ = (whole != alone).any(dim=1)
print("width 100: rows of 300 that differ from the same row alone:", int(differ.sum()))
error = (whole - alone).abs() / whole.abs()
print(f"largest relative difference: {error.max():.1e}")
assert differ.any()
place = (whole != alone).any(dim=0).nonzero()[:, 0].tolist()
print("in columns", f"{min(place)} to {max(place)}")
x = torch.randn(300, 96)
equal = torch.equal(silu(x), torch.stack([silu(row) for row in x]))
print("width 96, a multiple of 32: equal", equal)
assert equal
END
