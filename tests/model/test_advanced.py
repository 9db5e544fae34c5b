"""Sequences go on by another token, with its slot and context; all else is padding."""

import pytest
import torch

from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.model.advanced import advance
from minipaged.model.advanced_kernel import advance_rows
from minipaged.model.inputs import RaggedBatch

DEVICE = "cpu" if INTERPRETED else "cuda"
WAYS = [advance, advance_rows]


def numbers(values):
    return torch.as_tensor(values, dtype=torch.int64).to(DEVICE)


def batch_of(tokens, positions, slots, contexts, tables):
    """Rows of one token each."""
    parts = tokens, positions, slots, tables, contexts, range(len(tokens) + 1), []
    return RaggedBatch(
        *(numbers([*part]) for part in parts),
        max_query_length=1,
        min_context_length=1,
        max_context_length=24,
        rows_share=True,
    )


def rows_of(batch):
    """(token, position, slot, context) of each row."""
    parts = batch.tokens, batch.positions, batch.slots, batch.context_lengths
    return [*zip(*(part.tolist() for part in parts), strict=True)]


PADDING = 0, 0, -1, 0


@pytest.mark.parametrize("advance", WAYS)
def test_the_example_of_the_docstring(advance):
    tables = [[2, 9, 4]] * 2 + [[0, 0, 0]]
    batch = batch_of([5, 6, 0], [8, 9, 0], [16, 17, -1], [9, 10, 0], tables)
    pending_from = numbers([0, 1, -1])
    advance(batch, pending_from, numbers([7]), 2, 4)
    assert rows_of(batch) == [PADDING, (7, 10, 18, 11), PADDING]
    assert pending_from.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("advance", WAYS)
def test_a_new_block_begins(advance):
    batch = batch_of([5], [7], [39], [8], [[2, 9, 4]])
    advance(batch, numbers([-1]), numbers([3]), 1, 4)
    assert rows_of(batch) == [(3, 8, 16, 9)]


@pytest.mark.parametrize("advance", WAYS)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_again_and_again_by_fewer_sequences(advance, length):
    """Beside a loop over the rows, which is the oracle; -1, no token, counts as 0."""
    random = torch.Generator().manual_seed(length)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=random).tolist()

    num_rows, num_sequences = 150, 140 // length
    tables = draw(0, 50, num_rows, 6)
    positions = draw(0, 20, num_rows)
    zeros = [0] * num_rows
    batch = batch_of(zeros, positions, zeros, zeros, tables)
    pending_from = numbers(draw(-1, 40, num_rows))
    for count in (num_sequences, num_sequences - 1, 1):
        chosen = draw(-1, 9, num_sequences)
        advance(batch, pending_from, numbers(chosen)[:count], length, 4)
        wanted = [PADDING] * num_rows
        for sequence in range(count):
            row = length * sequence + length - 1
            positions[row] += 1
            at = positions[row]
            slot = tables[row][at // 4] * 4 + at % 4
            wanted[row] = max(chosen[sequence], 0), at, slot, at + 1
        assert rows_of(batch) == wanted
    assert set(pending_from.tolist()) == {-1}
