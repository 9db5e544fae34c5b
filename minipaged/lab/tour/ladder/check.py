"""Lab: what the ladder's rungs can take."""

import torch

from minipaged.attention.backend import AttentionBatch
from minipaged.attention.kernels.check import (
    check_contiguous,
    check_fit,
    check_heads,
)
from minipaged.memory.kv_cache import LayerCache


def check_rung(q: torch.Tensor, cache: LayerCache, batch: AttentionBatch) -> None:
    """Refuse what the rungs leave out."""
    keys, values = cache.keys, cache.values
    check_fit(
        q=(q, "num_sequences num_heads dim"),
        keys=(keys, "num_blocks block_size num_kv_heads dim"),
        values=(values, "num_blocks block_size num_kv_heads dim"),
        block_tables=(batch.block_tables, "num_sequences table_width"),
        context_lengths=(batch.context_lengths, "num_sequences"),
    )
    check_heads(q, keys)
    check_contiguous(q=q, keys=keys, values=values, block_tables=batch.block_tables)
