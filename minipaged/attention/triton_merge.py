"""Lesson 6: merge the splits of a context, as lesson 5 merges partial results."""

import torch

from minipaged.attention.triton_setup import tl, triton
from minipaged.attention.triton_sizes import padded

_COLUMNS = 32  # of the result, by one program


@triton.jit(do_not_specialize=["num_splits"])
def _merge_kernel(
    out,  # [T, H, value dim]
    partial,  # [S, H, splits, value dim] float32
    log_totals,  # [S, H, splits]
    query_starts,
    num_splits,
    NUM_HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    PADDED_SPLITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        tl.extra.cuda.gdc_wait()  # until all splits are written
    head, seq = tl.program_id(0), tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    split = tl.arange(0, PADDED_SPLITS)
    rows = (seq * NUM_HEADS + head).to(tl.int64) * num_splits + split
    exists = split < num_splits
    logs = tl.load(log_totals + rows, mask=exists, other=float("-inf"))
    parts = tl.load(
        partial + rows[:, None] * VALUE_DIM + column[None, :],
        mask=exists[:, None] & (column < VALUE_DIM)[None, :],
        other=0.0,
    )
    token = tl.load(query_starts + seq).to(tl.int64)
    is_single = tl.load(query_starts + seq + 1) - token == 1

    maximum = tl.max(logs, 0)
    weights = tl.exp2(logs - tl.where(maximum == float("-inf"), 0.0, maximum))
    total = tl.sum(weights, 0)
    result = tl.sum(weights[:, None] * parts, 0) / tl.where(total == 0.0, 1.0, total)
    out_row = out + (token * NUM_HEADS + head) * VALUE_DIM
    # Nobody wrote parts of a sequence with more tokens: what came out is not stored.
    mask = is_single & (column < VALUE_DIM)
    tl.store(out_row + column, result.to(out.dtype.element_ty), mask=mask)


def merge_splits(
    out: torch.Tensor,
    partial: torch.Tensor,
    log_totals: torch.Tensor,
    query_starts: torch.Tensor,
    overlap: bool,
) -> None:
    """Each split counts by the sum of its weights; an empty one, by nothing.

    out: [T, H, value_dim], of which only the rows of sequences with one new token are
    written. partial: [S, H, splits, value_dim] float32, a weighted mean each;
    log_totals: [S, H, splits] float32, log2 of the sum of its weights. overlap: launch
    it while the splits are still being computed, which hides the launch; the kernel
    then waits on the GPU until they are all written.
    """
    num_seqs, num_heads, num_splits, value_dim = partial.shape
    _merge_kernel[num_heads, num_seqs, -(-value_dim // _COLUMNS)](
        out, partial, log_totals, query_starts, num_splits,
        NUM_HEADS=num_heads,
        VALUE_DIM=value_dim,
        COLUMNS=_COLUMNS,
        PADDED_SPLITS=padded(num_splits),
        OVERLAP=overlap,
        launch_pdl=overlap,
    )  # fmt: skip
