"""Lesson 2: the tensors that hold K and V, written by slot (paper, section 4.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch

from minipaged.errors import require_counts
from minipaged.memory.checks import check_copies, checked_shapes
from minipaged.memory.free_memory import free_memory, resident_memory, room_for


@dataclass(frozen=True)
class LayerCache:
    """One layer's keys and values, in blocks, as attention reads them."""

    keys: torch.Tensor  # [num_blocks, block_size, num_kv_heads, key_dim]
    values: torch.Tensor  # [num_blocks, block_size, num_kv_heads, value_dim]
    # [num_kv_heads] float32: what K is multiplied by when it is read; None: nothing.
    key_scale: torch.Tensor | None = None
    value_scale: torch.Tensor | None = None


class KVCache:
    """Keys and values of every layer, laid out in physical blocks.

    `keys[layer]` and `values[layer]` are shaped as in LayerCache. One block id means
    the same block in every layer, so one block table serves them all. Slots that were
    never written hold arbitrary memory.

    Source: PagedAttention paper, section 4.2.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, int, int]],
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ):
        """Allocate the tensors. `shapes`: (num_kv_heads, key_dim, value_dim) per layer.

        Raises MemoryError, before anything is allocated, if there is no room for them.
        """
        require_counts(num_blocks=num_blocks, block_size=block_size)
        shapes = checked_shapes(shapes)
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype must be a torch.dtype, got {dtype!r:.60}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        numbers = block_size * sum(heads * (k + v) for heads, k, v in shapes)
        device = torch.device(device)

        def blocks(num_heads: int, dim: int) -> torch.Tensor:
            size = (num_blocks, block_size, num_heads, dim)
            return torch.empty(size, dtype=dtype, device=device)

        free = free_on(device)
        # On a CPU, the system gives memory at the first write. What is used now tells
        # a swap space later how much of this is still to come.
        self.resident_before = resident_memory()
        # No inference tensors: code outside inference mode writes to them, too.
        with (
            room_for(num_blocks, numbers * dtype.itemsize, free, device),
            torch.inference_mode(False),
        ):
            self.keys = [blocks(heads, key_dim) for heads, key_dim, _ in shapes]
            self.values = [blocks(heads, value_dim) for heads, _, value_dim in shapes]

    @property
    def bytes_per_block(self) -> int:
        """Bytes of K and V that one block holds, over all layers."""
        tensors = (*self.keys, *self.values)
        return sum(tensor[0].numel() * tensor.element_size() for tensor in tensors)

    def layer(self, index: int) -> LayerCache:
        """The keys and values of one layer."""
        return LayerCache(self.keys[index], self.values[index])

    def write(
        self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Store the new tokens' K and V of one layer.

        slots: [T] int64, all different. keys: [T, num_kv_heads, key_dim]; values
        [T, num_kv_heads, value_dim].
        """
        # Blocks are contiguous, so a slot is a row of the flattened view.
        self.keys[layer].flatten(0, 1).index_copy_(0, slots, keys)
        self.values[layer].flatten(0, 1).index_copy_(0, slots, values)

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks in all layers: (source, copy) pairs, as if all at once.

        Raises ValueError, changing nothing, if their order could change the result.
        """
        if not copies:
            return
        check_copies(copies)
        source, destination = torch.tensor(copies, device=self.keys[0].device).unbind(1)
        for blocks in (*self.keys, *self.values):
            blocks.index_copy_(0, destination, blocks.index_select(0, source))


def free_on(device: torch.device) -> float:
    """Bytes of the device's memory that torch can still get; inf if that is unknown."""
    if device.type == "cpu":
        return free_memory()
    if device.type != "cuda":
        return inf
    free, _ = torch.cuda.mem_get_info(device)
    # What torch has reserved and does not use can be had, too.
    reserved = torch.cuda.memory_reserved(device)
    return free + reserved - torch.cuda.memory_allocated(device)
