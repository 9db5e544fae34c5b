"""Appendix E: sequences of a step go on by another token, on the device.

A draft model guesses a token, computes it, guesses the next, and so on. All of these
steps but their tokens are known before: each sequence goes on by one position. So only
the first step is sent from the CPU, and the device makes the next ones from it.
"""

import torch
from torch import Tensor

from minipaged.model.inputs import RaggedBatch


def advance(
    batch: RaggedBatch,
    pending_from: Tensor,
    chosen: Tensor,
    length: int,
    block_size: int,
) -> None:
    """Put the next tokens of sequences in the place of their last ones.

    batch: each row has one token, and each sequence `length` rows, one after the other.
    chosen: [S] int64, the next tokens of the first S sequences; all rows but their last
    ones become padding. pending_from: [T], which pending token each token is;
    afterwards none is. For example, with length 2: rows 0 and 1 have positions 8 and 9.
    Afterwards row 0 is padding, and row 1 has position 10.
    """
    if batch.positions.is_cuda:
        from minipaged.model.advanced_kernel import advance_rows

        return advance_rows(batch, pending_from, chosen, length, block_size)
    row = torch.arange(len(batch.positions), device=chosen.device)
    place = row // length
    goes_on = (row % length == length - 1) & (place < len(chosen))
    position = (batch.positions + 1) * goes_on
    block = batch.block_tables[row, position // block_size]
    slot = block * block_size + position % block_size
    token = chosen[place.clamp(max=len(chosen) - 1)].clamp(min=0)
    batch.tokens.copy_(token * goes_on)
    batch.positions.copy_(position)
    batch.slots.copy_(torch.where(goes_on, slot, -1))
    batch.context_lengths.copy_((position + 1) * goes_on)
    pending_from.fill_(-1)
