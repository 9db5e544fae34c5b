"""Lesson 2: what every attention function is given, so that they can be exchanged."""

from collections.abc import Callable
from typing import Any, Protocol

import torch


class AttentionBatch(Protocol):
    """What attention must know of a batch: which slots belong to whom.

    Letters: T tokens to compute, S sequences, M blocks of the longest table.
    """

    block_tables: torch.Tensor  # [S, M] int64; row ends beyond a table are arbitrary
    context_lengths: torch.Tensor  # [S] int64: tokens to read, the new ones included
    query_starts: torch.Tensor  # [S + 1] int64: s owns starts[s] to starts[s + 1] - 1
    max_query_length: int
    min_context_length: int
    max_context_length: int
    scratch: dict[Any, Any]  # what one layer works out of the above, for the next one
    workspace: dict[str, torch.Tensor]  # memory to be used again from step to step


# attention(q, keys, values, batch, *, scale, sliding_window=None, softcap=None)
#   q:      [T, num_heads, key_dim], the new tokens of all sequences, one after another
#   keys:   [num_blocks, block_size, num_kv_heads, key_dim], one layer of the cache;
#   values: the same with value_dim. K and V of the new tokens are already written.
#   result: [T, num_heads, value_dim]
Attention = Callable[..., torch.Tensor]
