"""Lab: time the rungs of lesson 6's ladder on the GPU that is here."""

from contextlib import suppress

import torch

from minipaged.attention.kernels.setup import triton
from minipaged.lab.measure.gpu_timing import (
    microseconds,
    num_rotations,
    read_gb_per_s,
)
from minipaged.lab.measure.layer import random_layer
from minipaged.lab.tour.ladder import RUNGS


def rungs_here(num_seqs: int, context: int) -> dict[str, float]:
    """What each rung reaches of what this GPU reads, measured now: in %.

    One layer, 32 query and 8 KV heads of 128, in float16, for not every GPU has
    bfloat16. A rung whose tiles do not fit into this GPU's shared memory is left out.
    """
    ceiling, nbytes = read_gb_per_s(2**28), 2 * num_seqs * context * 8 * 128 * 2
    options = {"device": "cuda", "dtype": torch.float16}
    layers = [
        random_layer([(context - 1, 1)] * num_seqs, 32, 8, 128, **options)
        for _ in range(num_rotations(nbytes))
    ]
    reached = {}
    for name, rung in RUNGS.items():
        calls = [lambda each=layer, f=rung: each.attend(f) for layer in layers]
        with suppress(triton.OutOfResources):
            reached[name] = 100 * nbytes / microseconds(calls) / 1e3 / ceiling
    return reached
