"""Lab: one layer of one step, with random numbers, to measure attention alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minipaged.attention.backend import Attend, Masking
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.kv_cache import LayerCache
from minipaged.model.inputs import Chunk, RaggedBatch


@dataclass(frozen=True)
class Layer:
    """What attention is given: new tokens' queries, and blocks full of K and V."""

    q: torch.Tensor  # [T, heads, dim]
    keys: torch.Tensor  # [num_blocks, block_size, kv heads, dim]
    values: torch.Tensor
    batch: RaggedBatch

    @property
    def cache(self) -> LayerCache:
        """The blocks, as attention is given them."""
        return LayerCache(self.keys, self.values)

    def attend(self, attention: Attend, **masking: Any) -> torch.Tensor:
        """Call it as a model does: [T, heads, dim]. `masking`: fields of Masking."""
        masking = Masking(**{"scale": self.q.shape[2] ** -0.5, **masking})
        with torch.inference_mode():
            return attention(self.q, self.cache, self.batch, masking)

    def poisoned(self) -> "Layer":
        """The same, with NaN in every slot that no token of the batch lies in."""
        block_size = self.keys.shape[1]
        poisoned = [
            torch.full_like(blocks, torch.nan) for blocks in (self.keys, self.values)
        ]
        for table, context in zip(
            self.batch.block_tables, self.batch.context_lengths.tolist(), strict=True
        ):
            position = torch.arange(context, device=table.device)
            slots = table[position // block_size] * block_size + position % block_size
            for new, old in zip(poisoned, (self.keys, self.values), strict=True):
                new.flatten(0, 1)[slots] = old.flatten(0, 1)[slots]
        return replace(self, keys=poisoned[0], values=poisoned[1])

    def double(self) -> "Layer":
        """The same in float64, to compute what others are compared with."""
        keys, values = (blocks.double() for blocks in (self.keys, self.values))
        return replace(self.fresh(), q=self.q.double(), keys=keys, values=values)

    def fresh(self) -> "Layer":
        """The same, with nothing left over from earlier calls."""
        return replace(self, batch=replace(self.batch, scratch={}))


def random_layer(
    chunks: Sequence[tuple[int, int]],
    num_heads: int = 8,
    num_kv_heads: int = 2,
    head_dim: int = 64,
    block_size: int = 16,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Layer:
    """A layer of sequences whose blocks lie in random order; always the same numbers.

    `chunks`: for each sequence, the tokens in the cache before, and the new ones.
    """
    generator = torch.Generator().manual_seed(0)
    sizes = [-(-(before + new) // block_size) for before, new in chunks]
    pool = BlockPool(sum(sizes), block_size)
    blocks = [pool.allocate() for _ in range(sum(sizes))]
    shuffled = torch.randperm(len(blocks), generator=generator).tolist()
    order = iter(blocks[place] for place in shuffled)
    rows = []
    for size, (before, new) in zip(sizes, chunks, strict=True):
        table = BlockTable(pool, [next(order) for _ in range(size)], before + new)
        rows.append(Chunk([0] * new, table))
    batch = RaggedBatch.build(rows, device=device)
    shape = (len(blocks), block_size, num_kv_heads, head_dim)
    q_shape = (sum(new for _, new in chunks), num_heads, head_dim)
    q, keys, values = (
        torch.randn(size, generator=generator).to(device, dtype)
        for size in (q_shape, shape, shape)
    )
    return Layer(q, keys, values, batch)
