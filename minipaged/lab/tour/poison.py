"""Lab: NaN in a cache, so that a slot which nobody wrote is noticed when it is read."""

import torch

from minipaged.model.paged_model import PagedModel


def poison(paged: PagedModel) -> None:
    """Fill all slots of all layers with NaN: what reads one of them gives NaN, too."""
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(torch.nan)
