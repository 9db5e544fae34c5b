"""Appendix E: as moved_back.py, in one launch, where each row has one token."""

import torch
from torch import Tensor

from minipaged.attention.kernels.setup import tl, triton
from minipaged.model.inputs import RaggedBatch

_TOKENS = 128  # of a program


@triton.jit(do_not_specialize=["num_rows", "table_stride"])
def _take_pending_kernel(
    tokens,  # [T]
    positions,  # [T]
    slots,  # [T]
    contexts,  # [T]: each row has one token
    block_tables,  # [T, M]
    pending_from,  # [T]
    pending,  # tokens, and how far each is moved back
    lengths,  # [2]: how many tokens, and how many numbers after them
    num_rows,
    table_stride,
    block_size,
    TOKENS: tl.constexpr,
):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    is_token = token < num_rows
    place = tl.load(pending_from + token, mask=is_token, other=-1)
    is_pending = place >= 0
    newest = tl.load(pending + place, mask=is_pending, other=0)
    tl.store(tokens + token, tl.maximum(newest, 0), mask=is_pending)
    back, num_back = pending + tl.load(lengths), tl.load(lengths + 1)
    may_move = is_pending & (num_back > 0)
    moved = tl.load(back + place % tl.maximum(num_back, 1), mask=may_move, other=0)
    must_move = moved > 0
    position = tl.load(positions + token, mask=must_move, other=0) - moved
    context = tl.load(contexts + token, mask=must_move, other=0) - moved
    number = position // block_size
    block = tl.load(
        block_tables + token * table_stride + number, mask=must_move, other=0
    )
    slot = block * block_size + position % block_size
    tl.store(positions + token, position, mask=must_move)
    tl.store(contexts + token, context, mask=must_move)
    tl.store(slots + token, slot, mask=must_move)


def take_pending_rows(
    batch: RaggedBatch,
    pending_from: Tensor,
    pending: Tensor,
    lengths: Tensor,
    block_size: int,
) -> None:
    """As `take_pending`."""
    count = len(batch.positions)
    with torch.cuda.device_of(pending):
        _take_pending_kernel[triton.cdiv(count, _TOKENS),](
            batch.tokens, batch.positions, batch.slots, batch.context_lengths,
            batch.block_tables, pending_from, pending, lengths, count,
            batch.block_tables.stride(0), block_size, TOKENS=_TOKENS,
        )  # fmt: skip
