"""Lab: a model that runs on an attention written for one head (lesson 5)."""

from collections.abc import Callable, Iterable, Iterator

import torch

from minipaged.attention.backend import Attend, AttentionBatch, Masking
from minipaged.attention.rectangles import gathered_attention
from minipaged.memory.kv_cache import LayerCache
from minipaged.model.inputs import RaggedBatch
from minipaged.model.paged_model import PagedModel

Block = tuple[torch.Tensor, torch.Tensor]  # K and V of some tokens: [tokens, D] each
Head = Callable[[torch.Tensor, Iterable[Block]], torch.Tensor]
BlocksOf = Callable[[LayerCache, torch.Tensor, int, int], Iterator[Block]]


def record_queries(paged: PagedModel, batch: RaggedBatch) -> list[torch.Tensor]:
    """The queries of each layer, [T, H, D], as a forward of the batch computes them."""
    queries = []

    def recording(
        q: torch.Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
    ) -> torch.Tensor:
        queries.append(q)
        return gathered_attention(q, cache, batch, masking)

    before, paged.attention = paged.attention, recording
    try:
        paged.forward(batch)
    finally:
        paged.attention = before
    return queries


def head_by_head(head: Head, blocks_of: BlocksOf) -> Attend:
    """Attention that asks `head` for every new token and every query head.

    head(q, blocks): of one query [D]. blocks_of(cache, block_ids, num_tokens, kv_head):
    the blocks that hold the first `num_tokens` of a table.
    """

    def attend(
        q: torch.Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
    ) -> torch.Tensor:
        out, group = torch.empty_like(q), q.shape[1] // cache.keys.shape[2]
        starts = batch.query_starts.tolist()
        for row, block_ids in enumerate(batch.block_tables):
            tokens = range(*starts[row : row + 2])
            past = int(batch.context_lengths[row]) - len(tokens)
            for num_seen, token in enumerate(tokens, past + 1):  # itself included
                for query_head in range(q.shape[1]):
                    blocks = blocks_of(cache, block_ids, num_seen, query_head // group)
                    out[token, query_head] = head(q[token, query_head], blocks)
        return out

    return attend
