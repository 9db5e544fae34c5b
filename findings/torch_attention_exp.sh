#!/usr/bin/env bash
# torch 2.13.0: on a CPU, attention in bfloat16 depends on how many positions are masked.
# Behaviour: scaled_dot_product_attention takes the exponentials of whole vectors of
#   positions (16, with AVX-512) by an approximation that is wrong by up to 0.0001
#   (fexp_u20 of ATen/cpu/vec/vec512/vec512_float.h), and the remaining ones by exp. Then
#   it rounds them to bfloat16. An exponential near the middle between two numbers of
#   bfloat16 is rounded one way in a row of 15 positions, and the other way in one of 16.
#   Which routine is called is inferred: written out below, both give all bits.
# One would guess: a position that a mask hides has weight 0, and changes nothing.
# For users: a sequence that is padded beside a longer one gets other bits in bfloat16.
# Seen on 2026-11-29:
#   an AMD EPYC with AVX-512
#   torch 2.13.0+cpu AVX512
#   15 positions: 0 of 512 numbers differ from those of 6
#   16 positions: 28 of 512 numbers differ from those of 6
#   32 positions: 28 of 512 numbers differ from those of 6
#   weights that differ (head, position): [[5, 3], [10, 4]]
#   all weights of 6 positions are those of exp: True
#   all weights of 16 positions are those of fexp_u20: True
#   largest relative error of fexp_u20: 9.9e-05
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -I - <<'END'
import torch
from torch.nn.functional import pad, scaled_dot_product_attention

torch.manual_seed(0)
capability = torch.backends.cpu.get_cpu_capability()
print("torch", torch.__version__, capability)
if capability != "AVX512":
    raise SystemExit("this needs a CPU with AVX-512")
generator = torch.Generator().manual_seed(0)
query, keys, values = torch.randn(3, 1, 16, 6, 32, generator=generator).bfloat16()
query = query[:, :, -1:]


def attended(width, values):
    filled = [pad(x, (0, 0, 0, width - 6)) for x in (keys, values)]
    seen = torch.arange(width) < 6
    return scaled_dot_product_attention(query, *filled, seen[None])


def fexp_u20(x):
    """exp(x); each step in float64, then rounded to float32, as fmadd rounds once."""
    factors = -0.079204240219773236, -0.22433836478672356, 0.30354260500649682
    *factors, last = torch.tensor([*factors, 0.00010703434948458272]).double()
    scaled = (x.double() * torch.tensor(1.44269504).double()).float()
    part = (scaled - scaled.floor()).double()
    correction = factors[0]
    for factor in (*factors[1:], last):
        correction = (part * correction + factor).float().double()
    exponent = (scaled - correction.float()).double()
    return (exponent * 2**23 + 127 * 2**23).float().int().view(torch.float32)


for width in (15, 16, 32):
    differ = (attended(width, values) != attended(6, values)).sum()
    print(f"{width} positions: {differ} of 512 numbers differ from those of 6")
ones = torch.eye(6, 32).bfloat16().expand(1, 16, 6, 32)  # so that the result is weights
weights = {width: attended(width, ones)[0, :, 0, :6] for width in (6, 16)}
differ = (weights[6] != weights[16]).nonzero().tolist()
print("weights that differ (head, position):", differ)
assert differ
scores = (query.float() @ keys.float().mT)[0, :, 0] / 32**0.5
scores -= scores.amax(1, keepdim=True)
for width, exp in ((6, torch.exp), (16, fexp_u20)):
    terms = exp(scores)
    found = (terms.bfloat16() / terms.sum(1, keepdim=True)).bfloat16()
    equal = torch.equal(found, weights[width])
    print(f"all weights of {width} positions are those of {exp.__name__}: {equal}")
    assert equal
error = (fexp_u20(scores).double() / scores.double().exp() - 1).abs().max()
print(f"largest relative error of fexp_u20: {error:.1e}")
assert 1e-5 < error < 1e-4
END
