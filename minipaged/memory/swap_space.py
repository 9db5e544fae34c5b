"""Appendix B: where the blocks of preempted requests lie (paper, section 4.5)."""

from collections.abc import Sequence

import torch

from minipaged.errors import OutOfBlocks, require_counts
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.free_memory import free_memory, resident_memory, room_for
from minipaged.memory.kv_cache import KVCache


class SwapSpace:
    """Blocks in the memory of the CPU, for K and V that must leave the cache for now.

    A row holds a block: its K and V of all layers, side by side, so that a request's
    blocks move in a single transfer. `pool` says which rows are taken.

    Source: PagedAttention paper, section 4.5 (swapping).
    """

    def __init__(self, cache: KVCache, num_blocks: int, *others: KVCache):
        """Allocate `num_blocks` rows, in pinned memory if the cache is on a GPU.

        At most as many as the cache has blocks: more would never be used. `others`:
        caches over the same blocks, of the same type, whose K and V lie in the rows,
        too (appendix E). Raises MemoryError, before anything is allocated, if there is
        no room for them.
        """
        if not isinstance(cache, KVCache):
            raise TypeError(f"cache must be a KVCache, got {cache!r:.60}")
        require_counts(num_blocks=num_blocks)
        caches = (cache, *others)
        self._tensors = [t for each in caches for t in (*each.keys, *each.values)]
        self.pool = BlockPool(min(num_blocks, cache.num_blocks), cache.block_size)
        numbers = sum(tensor[0].numel() for tensor in self._tensors)
        first = self._tensors[0]
        free = free_memory()
        if not first.is_cuda:  # the cache still takes what it has not written yet
            written = max(0, resident_memory() - cache.resident_before)
            free -= max(0, cache.num_blocks * cache.bytes_per_block - written)
        row_bytes = numbers * first.element_size()
        # Not a tensor of inference mode, because every mode writes to it.
        with (
            room_for(self.pool.num_blocks, row_bytes, free, remedy="swap_blocks"),
            torch.inference_mode(False),
        ):
            self._rows = torch.empty(
                (self.pool.num_blocks, numbers),
                dtype=first.dtype,
                device="cpu",
                pin_memory=first.is_cuda,
            )

    def store(self, block_ids: Sequence[int]) -> list[int]:
        """Copy these blocks of the cache into free rows; return the rows' numbers.

        Raises OutOfBlocks, taking nothing, if too few rows are free.
        """
        wanted = len(block_ids)
        free = self.pool.num_free
        if wanted > free:
            raise OutOfBlocks(wanted, free, self.pool.num_blocks)
        rows = [self.pool.allocate() for _ in block_ids]
        index = torch.tensor(block_ids, device=self._tensors[0].device)
        parts = [tensor.index_select(0, index).flatten(1) for tensor in self._tensors]
        self._rows[rows] = torch.cat(parts, dim=1).cpu()
        return rows

    def load(self, rows: Sequence[int], block_ids: Sequence[int]) -> None:
        """Copy these rows into blocks of the cache. The rows stay taken."""
        device = self._tensors[0].device
        stored = self._rows[list(rows)].to(device)
        index = torch.tensor(block_ids, device=device)
        sizes = [tensor[0].numel() for tensor in self._tensors]
        for tensor, part in zip(self._tensors, stored.split(sizes, 1), strict=True):
            tensor.index_copy_(0, index, part.unflatten(1, tensor.shape[1:]))
