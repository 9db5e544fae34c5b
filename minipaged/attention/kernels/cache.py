"""Lesson 6: lesson 2's cache, filled by kernels."""

from collections.abc import Sequence

import torch

from minipaged.attention.kernels.write import copy_blocks, write_kv
from minipaged.memory.checks import check_copies
from minipaged.memory.eight_bits import EightBitKVCache
from minipaged.memory.kv_cache import KVCache


class TritonKVCache(KVCache):
    """K and V in blocks; a layer's new tokens, or a step's copies, take one launch."""

    def write(
        self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """As `KVCache.write`; in addition, a slot of -1 stores nothing."""
        write_kv(self.keys[layer], self.values[layer], slots, keys, values)

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        """As `KVCache.copy`, and as strict."""
        if copies:
            check_copies(copies)
            device = self.keys[0].device
            # From pinned memory: else the CPU would wait for what the GPU does now.
            pairs = torch.tensor(copies, pin_memory=device.type == "cuda")
            pairs = pairs.to(device, non_blocking=True)
            copy_blocks([*self.keys, *self.values], pairs)

    def load_kernels(self) -> None:
        """Compile and load the kernel of copies: a block is copied onto itself."""
        nothing = torch.zeros(1, 2, dtype=torch.int64, device=self.keys[0].device)
        copy_blocks([*self.keys, *self.values], nothing)


class EightBitTritonKVCache(EightBitKVCache, TritonKVCache):
    """K and V in 8 bits, which the kernels round as they store them (appendix C)."""

    def write(
        self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """As `TritonKVCache.write`; what has a scale is rounded to 8 bits."""
        own = self.layer(layer)
        scales = own.key_scale, own.value_scale
        write_kv(own.keys, own.values, slots, keys, values, *scales)
