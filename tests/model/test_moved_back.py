"""Tokens are moved back, with their slots and contexts; all others stay."""

import pytest
import torch

from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.model.inputs import RaggedBatch
from minipaged.model.moved_back import move_back, take_pending
from minipaged.model.moved_back_kernel import take_pending_rows

DEVICE = "cpu" if INTERPRETED else "cuda"
TABLES = [[7, 0, 0], [2, 9, 4], [5, 6, 8]]
PARTS = "positions", "slots", "context_lengths"


def batch_of(positions, tables, lengths=None):
    """These tokens in blocks of 4; each row has one token, or as many as `lengths`."""
    lengths = lengths or [1] * len(positions)
    row = [place for place, length in enumerate(lengths) for _ in range(length)]
    slots = [
        tables[r][at // 4] * 4 + at % 4 for r, at in zip(row, positions, strict=True)
    ]
    ends = torch.tensor(lengths).cumsum(0)
    contexts = torch.tensor(positions)[ends - 1] + 1

    def on_device(numbers):
        return torch.as_tensor(numbers, dtype=torch.int64).to(DEVICE)

    return RaggedBatch(
        on_device(positions),
        on_device(positions),
        on_device(slots),
        on_device(tables),
        on_device(contexts),
        on_device([0, *ends.tolist()]),
        on_device([]),
        max_query_length=max(lengths),
        min_context_length=1,
        max_context_length=12,
    )


def same(one, other):
    return all(torch.equal(getattr(one, part), getattr(other, part)) for part in PARTS)


@pytest.mark.parametrize("back", [0, 1, 2, 5, 9])
def test_as_if_it_had_been_planned_there(back):
    """Two tokens of the second row move; the rows beside it stay."""
    lengths = [2, 2, 3]
    batch = batch_of([0, 1, 9, 10, 2, 3, 4], TABLES, lengths)
    of_tokens = torch.tensor([0, 0, back, back, 0, 0, 0], device=DEVICE)
    move_back(batch, of_tokens, 4)
    moved = batch_of([0, 1, 9 - back, 10 - back, 2, 3, 4], TABLES, lengths)
    assert same(batch, moved)


def test_the_example_of_the_docstring():
    batch = batch_of([9, 10], [[2, 9, 4]], [2])
    move_back(batch, torch.tensor([2, 2], device=DEVICE), 4)
    assert batch.positions.tolist() == [7, 8]
    assert batch.slots.tolist() == [39, 16] and batch.context_lengths.tolist() == [9]


@pytest.mark.parametrize("take", [take_pending, take_pending_rows])
@pytest.mark.parametrize("seed", range(3))
def test_a_row_for_each_token(take, seed):
    """The kernel's numbers are torch's; padding, of slot -1, stays as it is.

    There are 80 pending tokens, and numbers for 40, which repeat.
    """
    random = torch.Generator().manual_seed(seed)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=random).tolist()

    tables = draw(0, 50, 150, 6)
    back = draw(0, 4, 40)
    pending = draw(-1, 99, 80)
    pending_from = draw(-1, 80, 150)
    positions = draw(4, 24, 150)
    batch = batch_of(positions, tables)
    batch.slots[140:] = -1
    pending_from[140:] = [-1] * 10
    of_tokens = [back[place % 40] if place >= 0 else 0 for place in pending_from]
    wanted = batch_of(
        [at - moved for at, moved in zip(positions, of_tokens, strict=True)], tables
    )
    wanted.slots[140:] = -1
    tokens = [
        max(pending[place], 0) if place >= 0 else own
        for place, own in zip(pending_from, batch.tokens.tolist(), strict=True)
    ]
    numbers = pending_from, pending + back, [80, 40]
    take(batch, *(torch.tensor(each).to(DEVICE) for each in numbers), 4)
    assert same(batch, wanted) and batch.tokens.tolist() == tokens


@pytest.mark.parametrize("take", [take_pending, take_pending_rows])
def test_pending_tokens_that_stay(take):
    batch = batch_of([9, 3], [[2, 9, 4], [7, 0, 0]])
    wanted = batch_of([9, 3], [[2, 9, 4], [7, 0, 0]])
    numbers = [1, -1], [50, 60, 99], [2, 0]
    take(batch, *(torch.tensor(each).to(DEVICE) for each in numbers), 4)
    assert same(batch, wanted) and batch.tokens.tolist() == [60, 3]


def test_rows_without_tokens_stay():
    """Padding rows come last; without padding tokens, they end at a real token."""
    batch = batch_of([9], [[2, 9, 4]])
    batch.query_starts = torch.tensor([0, 1, 1], device=DEVICE)
    batch.context_lengths = torch.tensor([10, 0], device=DEVICE)
    batch.block_tables = batch.block_tables.repeat(2, 1)
    move_back(batch, torch.tensor([3], device=DEVICE), 4)
    assert batch.context_lengths.tolist() == [7, 0] and batch.slots.tolist() == [38]
