"""Cases of attention whose K and V lie in 8 bits."""

import torch

from minipaged.memory.eight_bits import EightBitKVCache, LayerScales, scale_for
from minipaged.memory.kv_cache import LayerCache

# One head's numbers are 64 times another's, so that exchanged scales would be seen.
OF_HEADS = torch.tensor([0.5, 32.0])


def scales_of(kind):
    keys, values = scale_for(4 * OF_HEADS), scale_for(4 * OF_HEADS.flip(0))
    return LayerScales(keys if kind == "fp8" else None, values)


def in_eight_bits(case, kind, cache_class=EightBitKVCache):
    """The case's K and V, times OF_HEADS, in such a cache; NaN, where they were NaN."""
    keys = case.keys * OF_HEADS[:, None].to(case.keys)
    values = case.values * OF_HEADS.flip(0)[:, None].to(case.values)
    num_blocks, block_size, heads, key_dim = case.keys.shape
    shape = heads, key_dim, case.values.shape[3]
    scales = LayerScales(
        *(x if x is None else x.to(case.q.device) for x in scales_of(kind))
    )
    cache = cache_class(
        [scales], [shape], num_blocks, block_size, case.q.dtype, case.q.device
    )
    slots = torch.arange(num_blocks * block_size, device=case.q.device)
    cache.write(0, slots, keys.flatten(0, 1), values.flatten(0, 1))
    return cache


def in_numbers(layer, dtype):
    """The layer as a plain one, of the numbers that its bytes stand for."""
    keys, values = layer.keys.to(dtype), layer.values.to(dtype)
    if layer.key_scale is not None:
        keys = keys * layer.key_scale.to(dtype)[:, None]
    return LayerCache(keys, values * layer.value_scale.to(dtype)[:, None])
