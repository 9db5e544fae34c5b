"""The flattened batch: positions, slots and starts."""

import pytest
import torch

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import Chunk, RaggedBatch


def chunk(pool, computed, tokens, num_logits=1):
    table = BlockTable(pool)
    table.append(computed)
    table.append(len(tokens))
    return Chunk(tokens, table, num_logits)


def test_prefill_chunk_and_decode_side_by_side():
    pool = BlockPool(num_blocks=16, block_size=4)
    chunks = [
        chunk(pool, 0, [10, 11, 12, 13, 14]),  # a prompt
        chunk(pool, 6, [20]),  # a single token
        chunk(pool, 3, [30, 31], num_logits=0),  # part of a prompt
    ]
    batch = RaggedBatch.build(chunks, copies=[(9, 8)])
    assert batch.tokens.tolist() == [10, 11, 12, 13, 14, 20, 30, 31]
    assert batch.positions.tolist() == [0, 1, 2, 3, 4, 6, 3, 4]
    assert batch.query_starts.tolist() == [0, 5, 6, 8]
    assert batch.context_lengths.tolist() == [5, 7, 5]
    assert batch.logits_at.tolist() == [4, 5]
    assert (batch.max_query_length, batch.max_context_length) == (5, 7)
    assert batch.slots.tolist() == [
        slot
        for c in chunks
        for slot in c.table.slots(
            c.table.num_tokens - len(c.tokens), c.table.num_tokens
        )
    ]
    assert batch.block_tables.tolist() == [c.table.block_ids for c in chunks]
    assert batch.copies == [(9, 8)]


def test_single_tokens_only():
    pool = BlockPool(num_blocks=16, block_size=4)
    chunks = [chunk(pool, computed, [computed]) for computed in (0, 3, 4, 11)]
    batch = RaggedBatch.build(chunks)
    assert batch.positions.tolist() == [0, 3, 4, 11]
    assert batch.slots.tolist() == [c.table.slot(c.tokens[0]) for c in chunks]
    assert batch.block_tables.shape == (4, 3)
    assert batch.tokens.dtype == torch.int64


@pytest.mark.parametrize("lengths", [[], [0], [3, 0]])
def test_an_empty_batch_or_chunk_is_refused(lengths):
    pool = BlockPool(num_blocks=16, block_size=4)
    with pytest.raises(ValueError, match="at least one chunk, each of one token"):
        RaggedBatch.build([chunk(pool, 1, [7] * n) for n in lengths])
