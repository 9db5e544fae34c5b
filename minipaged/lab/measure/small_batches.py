"""Lab: small batches on which lesson 6's rungs are compared with float64."""

from functools import cache

import torch

from minipaged.attention.backend import Attend
from minipaged.attention.rectangles import gathered_attention
from minipaged.lab.measure.layer import Layer, random_layer

SHAPE = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 16}
# Of each sequence: tokens cached, and new ones. A ragged batch (a single token;
# exactly one block; one more than a block), and a sequence alone.
BATCHES = [(0, 1), (15, 1), (16, 1), (24, 1), (37, 1)], [(69, 1)]


@cache
def _layers(device: str) -> list[tuple[Layer, torch.Tensor]]:
    """Each batch, with the right answer."""
    layers = [random_layer(chunks, **SHAPE, device=device) for chunks in BATCHES]
    return [(layer, layer.double().attend(gathered_attention)) for layer in layers]


def largest_error(attention: Attend, device: str) -> float:
    """How far any number is from float64's; slots without a token hold NaN."""
    errors = [
        (layer.poisoned().attend(attention) - right).abs().max()
        for layer, right in _layers(device)
    ]
    return torch.stack(errors).max().item()  # NaN if one is: Python's max may lose it
