"""Appendix E: as advanced.py, in one launch."""

import torch
from torch import Tensor

from minipaged.attention.kernels.setup import tl, triton
from minipaged.model.inputs import RaggedBatch

_ROWS = 128  # of a program


@triton.jit(do_not_specialize=["count", "length", "num_rows", "table_stride"])
def _advance_kernel(
    tokens,  # [T]
    positions,  # [T]
    slots,  # [T]
    contexts,  # [T]: each row has one token
    block_tables,  # [T, M]
    pending_from,  # [T]
    chosen,  # [count]
    count,
    length,
    num_rows,
    table_stride,
    block_size,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = row < num_rows
    place = row // length
    goes_on = is_row & (row % length == length - 1) & (place < count)
    token = tl.load(chosen + place, mask=goes_on, other=0)
    position = tl.load(positions + row, mask=goes_on, other=-1) + 1
    block = tl.load(
        block_tables + row * table_stride + position // block_size,
        mask=goes_on,
        other=0,
    )
    slot = block * block_size + position % block_size
    tl.store(tokens + row, tl.maximum(token, 0), mask=is_row)
    tl.store(positions + row, position, mask=is_row)
    tl.store(slots + row, tl.where(goes_on, slot, -1), mask=is_row)
    context = tl.where(goes_on, position + 1, 0)
    tl.store(contexts + row, context, mask=is_row)
    tl.store(pending_from + row, -1, mask=is_row)


def advance_rows(
    batch: RaggedBatch,
    pending_from: Tensor,
    chosen: Tensor,
    length: int,
    block_size: int,
) -> None:
    """As `advance`."""
    num_rows = len(batch.positions)
    with torch.cuda.device_of(chosen):
        _advance_kernel[triton.cdiv(num_rows, _ROWS),](
            batch.tokens, batch.positions, batch.slots, batch.context_lengths,
            batch.block_tables, pending_from, chosen, chosen.shape[0], length, num_rows,
            batch.block_tables.stride(0), block_size, ROWS=_ROWS,
        )  # fmt: skip
