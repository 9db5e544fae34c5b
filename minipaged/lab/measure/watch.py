"""Lab: what a run of generate computes and holds, forward by forward."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from minipaged.decoding.request import Request
from minipaged.model.paged_model import PagedModel
from minipaged.model.ragged_batch import RaggedBatch
from minipaged.observer import Observer


@dataclass(frozen=True)
class Moment:
    """One forward: what it computes, and the blocks behind it."""

    num_tokens: int  # computed, of all sequences together
    num_sequences: int
    num_blocks: int  # different blocks in the sequences' tables
    num_unshared: int  # what they would hold if nobody shared
    num_copies: int  # blocks copied before this forward wrote


class _Watch(Observer):
    """Notes a Moment for every batch that is planned."""

    def __init__(self, block_size: int):
        self.moments: list[Moment] = []
        self._block_size = block_size

    def planned(self, requests: Sequence[Request], batch: RaggedBatch) -> None:
        """Note what is computed next, and what is held for it."""
        self.moments.append(_moment(batch, self._block_size))


@contextmanager
def watch(paged: PagedModel) -> Iterator[list[Moment]]:
    """Note a Moment for every forward of `generate` inside the `with` block.

    Nothing is noted outside of it, so it costs nothing there. Watched twice, each
    `with` has a list of its own.
    """
    watcher = _Watch(paged.pool.block_size)
    paged.observers.append(watcher)
    try:
        yield watcher.moments
    finally:
        paged.observers.remove(watcher)


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
