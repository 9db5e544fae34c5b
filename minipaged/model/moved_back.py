"""Appendix E: places of a step's tokens, moved back on the device.

The next step may be planned before the CPU knows how many guesses of this one are
right. Then it is planned as if all were. The device knows better, and moves its tokens
back by as many places as guesses were wrong.
"""

import torch
from torch import Tensor

from minipaged.model.inputs import RaggedBatch


def move_back(batch: RaggedBatch, back: Tensor, block_size: int) -> None:
    """Let each token of the batch stand `back` places further in front; in place.

    back: [T] int64, the same for all tokens of a row; 0 for tokens that stay. For
    example, in blocks of 4: tokens at positions 9 and 10, which should be 7 and 8, have
    back = [2, 2]. Of the row's blocks 2, 9 and 4, they get slots 39 and 16.
    """
    starts = batch.query_starts
    batch.positions.sub_(back)
    of_rows = back[(starts[1:] - 1).clamp(min=0)]
    has_tokens = starts.diff() > 0  # padding has none
    batch.context_lengths.sub_(of_rows * has_tokens)
    token = torch.arange(len(back), device=back.device)
    row = torch.searchsorted(starts[1:].contiguous(), token, right=True)
    row = row.clamp(max=len(batch.block_tables) - 1)
    number = batch.positions // block_size
    blocks = batch.block_tables[row, number]
    slots = blocks * block_size + batch.positions % block_size
    batch.slots.copy_(torch.where(back > 0, slots, batch.slots))


def take_pending(
    batch: RaggedBatch,
    pending_from: Tensor,
    pending: Tensor,
    lengths: Tensor,
    block_size: int,
) -> None:
    """Put pending tokens into a batch, and move them back, in place; nothing waits.

    pending_from: [T] int64, which pending token each token of the batch is; -1 for all
    others. pending: int64, N tokens, and then by how many places each is moved back;
    these numbers repeat, if they are fewer. -1, where no token could be drawn, becomes
    0. lengths: [2] int64, how many tokens there are, and how many numbers after them: 0
    if nothing is moved.
    """
    if batch.positions.is_cuda and batch.max_query_length == 1:
        from minipaged.model.moved_back_kernel import take_pending_rows

        return take_pending_rows(batch, pending_from, pending, lengths, block_size)
    is_pending = pending_from >= 0
    place = pending_from.clamp(min=0)
    tokens = pending[place].clamp(min=0)
    batch.tokens.copy_(torch.where(is_pending, tokens, batch.tokens))
    num_tokens, num_back = lengths
    back = pending[num_tokens + place % num_back.clamp(min=1)]
    move_back(batch, back * (is_pending & (num_back > 0)), block_size)
