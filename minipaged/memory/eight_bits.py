"""Lesson 2: K and V in 8 bits, each head with a scale (the border; see appendix C).

The type is e4m3, a float of 8 bits: a sign, 4 bits of exponent, 3 of the mantissa. Its
numbers are 1/8 of a power of two apart, up to 448; below 1/64, they are 1/512 apart.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from minipaged.memory.kv_cache import KVCache, LayerCache

E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max  # 448


class LayerScales(NamedTuple):
    """What a layer's K and V are divided by when they are stored: [num_kv_heads]."""

    keys: Tensor | None  # None: K stays in the model's type
    values: Tensor | None


def scale_for(largest: Tensor, margin: float = 2.0) -> Tensor:
    """Scales for heads whose numbers go up to `largest`; `margin` times that still fit.

    They are powers of two, so that multiplying by them rounds nothing. A float's
    relative error is the same at any scale, as long as nothing becomes too large or too
    small. For example: heads up to 3 and up to 100 get 1/64 and 1/2.
    """
    wanted = largest.float() * margin / LARGEST
    return torch.exp2(torch.ceil(torch.log2(wanted.clamp(min=2.0**-40))))


def to_eight_bits(numbers: Tensor, scale: Tensor) -> Tensor:
    """K or V [T, num_kv_heads, dim], divided by each head's scale, in e4m3.

    What is too large becomes the largest number: a cast alone may give NaN.
    """
    numbers = numbers.float() / scale[:, None]
    return numbers.clamp(-LARGEST, LARGEST).to(E4M3)


def from_eight_bits(stored: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """K or V [..., num_kv_heads, P, dim] as numbers of this type; `scale`, if any."""
    numbers = stored.to(dtype)
    return numbers if scale is None else numbers * scale.to(dtype)[:, None, None]


class EightBitKVCache(KVCache):
    """A cache whose V, or K and V, lie in 8 bits.

    Its tensors hold bytes. So all that moves blocks (copies, a swap space) works as it
    does for other caches; `layer` says what the bytes mean.
    """

    def __init__(
        self,
        scales: Sequence[LayerScales],
        shapes: Sequence[tuple[int, int, int]],
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ):
        """Allocate as KVCache does. `scales`: of each layer.

        `dtype` is the type of the new K and V, and of what has no scale.
        """
        kinds = [[dtype if s is None else E4M3 for s in layer] for layer in scales]
        in_bytes = [
            (heads, key_dim * key.itemsize, value_dim * value.itemsize)
            for (heads, key_dim, value_dim), (key, value) in zip(
                shapes, kinds, strict=True
            )
        ]
        super().__init__(in_bytes, num_blocks, block_size, torch.uint8, device)
        self._layers = [
            LayerCache(keys.view(key), values.view(value), *layer)
            for keys, values, (key, value), layer in zip(
                self.keys, self.values, kinds, scales, strict=True
            )
        ]

    def layer(self, index: int) -> LayerCache:
        """The keys and values of one layer, and their scales."""
        return self._layers[index]

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """As `KVCache.write`; what has a scale is rounded to 8 bits."""
        own = self.layer(layer)
        if own.key_scale is not None:
            keys = to_eight_bits(keys, own.key_scale)
        if own.value_scale is not None:
            values = to_eight_bits(values, own.value_scale)
        in_bytes = (new.contiguous().view(torch.uint8) for new in (keys, values))
        super().write(layer, slots, *in_bytes)
