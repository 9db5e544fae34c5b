"""Lab: what a run of generate computes and holds, forward by forward."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import torch

from minipaged.model.paged_model import PagedModel
from minipaged.model.ragged_batch import RaggedBatch


@dataclass(frozen=True)
class Moment:
    """One forward: what it computes, and the blocks behind it."""

    num_tokens: int  # computed, of all sequences together
    num_sequences: int
    num_blocks: int  # different blocks in the sequences' tables
    num_unshared: int  # what they would hold if nobody shared
    num_copies: int  # blocks copied before this forward wrote


@contextmanager
def watch(paged: PagedModel) -> Iterator[list[Moment]]:
    """Note a Moment for every forward of `paged` inside the `with` block.

    Nothing is noted outside of it, so it costs nothing there. Watched twice, each
    `with` has a list of its own.
    """
    moments: list[Moment] = []
    forward = paged.forward

    def watched(batch: RaggedBatch) -> torch.Tensor:
        moments.append(_moment(batch, paged.pool.block_size))
        return forward(batch)

    with patch.object(paged, "forward", watched):
        yield moments


def saving(moments: list[Moment]) -> float:
    """Blocks saved by sharing, as a share of those without it (paper, figure 15)."""
    unshared = sum(moment.num_unshared for moment in moments)
    return 1 - sum(moment.num_blocks for moment in moments) / unshared


def _moment(batch: RaggedBatch, block_size: int) -> Moment:
    lengths = -(-batch.context_lengths // block_size)  # [S] blocks of each table
    columns = lengths.new_tensor(range(batch.block_tables.shape[1]))
    held = batch.block_tables[columns < lengths[:, None]]  # without the filling zeros
    return Moment(
        num_tokens=len(batch.tokens),
        num_sequences=len(lengths),
        num_blocks=len(held.unique()),
        num_unshared=len(held),
        num_copies=len(batch.copies),
    )
