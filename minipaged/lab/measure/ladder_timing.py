"""Lab: time the rungs of lesson 6's ladder on the GPU that is here."""

import torch

from minipaged.attention.kernels.setup import triton
from minipaged.lab.measure.gpu_timing import (
    microseconds,
    num_rotations,
    read_gb_per_s,
)
from minipaged.lab.measure.layer import random_layer
from minipaged.lab.tour.ladder import RUNGS


def time_rungs(num_seqs: int, context: int) -> dict[str, float]:
    """Microseconds of each rung: one layer, 32 query and 8 KV heads of 128.

    In float16, for not every GPU has bfloat16. A rung whose tiles do not fit into this
    GPU's shared memory is left out.
    """
    nbytes = 2 * num_seqs * context * 8 * 128 * 2
    options = {"device": "cuda", "dtype": torch.float16}
    layers = [
        random_layer([(context - 1, 1)] * num_seqs, 32, 8, 128, **options)
        for _ in range(num_rotations(nbytes))
    ]
    times = {}
    for name, rung in RUNGS.items():
        calls = [lambda each=layer, f=rung: each.attend(f) for layer in layers]
        try:
            times[name] = microseconds(calls)
        except triton.OutOfResources:
            continue
    return times


def rungs_here(num_seqs: int, context: int) -> dict[str, float]:
    """What each rung reaches of what this GPU reads, measured now: in %."""
    ceiling, nbytes = read_gb_per_s(2**28), 2 * num_seqs * context * 8 * 128 * 2
    times = time_rungs(num_seqs, context)
    return {name: 100 * nbytes / us / 1e3 / ceiling for name, us in times.items()}
