"""Appendix A: the inputs of a step at places that never change, as a graph reads them.

A CUDA graph repeats the shapes and addresses that it was captured with. So a step is
padded to a size for which there is a graph, and one copy fills the places it reads.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from minipaged.model.inputs import RaggedBatch
from minipaged.model.persistent_inputs import StepArrays, Unread, host_memory


class Size(NamedTuple):
    """Of a graph's batch. All three are multiples of 8, but for a `longest` of one."""

    tokens: int
    rows: int  # sequences
    longest: int  # new tokens of a sequence at most; 1: each has one

    @property
    def decodes(self) -> bool:
        """Has every sequence one new token, whose logits are wanted?"""
        return self.longest == 1


class FixedInputs:
    """Places for the largest batch; smaller ones use the first of them.

    What is left over reads and writes nothing. Of a batch that decodes, each row that
    is left over has one token; in others, the first one has all of them. Their slots
    are -1, and the contexts of those rows are 0.
    """

    def __init__(self, sizes: list[Size], width: int, num_logits: int, device):
        """Room for these sizes, `width` blocks a sequence, so many rows of logits."""
        self.width, self.num_logits, self._device = width, num_logits, device
        rows = max(size.rows for size in sizes)
        longest = max(sum(self._lengths(size)) + size.rows * width for size in sizes)
        whole = {"dtype": torch.int64, "device": device}
        # A step's numbers, then its tables, which are no wider than they must be.
        self._packet = torch.zeros(longest, **whole)
        self._tables = torch.zeros(rows, width, **whole)
        self._unread = torch.zeros(num_logits, **whole)

    def _lengths(self, size: Size) -> list[int]:
        """Of tokens, whose they are if unread, positions, slots; contexts, starts; and
        which logits are wanted. Even ones: kernels are compiled for such addresses."""
        return [size.tokens] * 4 + [size.rows, size.rows + 2, self.num_logits]

    def send(
        self,
        size: Size,
        arrays: StepArrays | None = None,
        unread: Unread | None = None,
    ) -> None:
        """Bring a step, which is no larger than that, to the places; nobody waits.

        unread: tokens of the step before that nobody has read yet. Without arrays, all
        is left over.
        """
        width = 1 if arrays is None else arrays.block_tables.shape[1]
        lengths = self._lengths(size)
        numbers = sum(lengths)
        sent = host_memory(numbers + size.rows * width, self._device)
        parts = [part.numpy() for part in sent[:numbers].split(lengths)]
        tokens, unread_from, positions, slots, contexts, starts, logits_at = parts
        for part, empty in zip(parts, (0, -1, 0, -1, 0, size.tokens, 0), strict=True):
            part[:] = empty
        starts[0] = 0
        if size.decodes:
            starts[:] = np.arange(len(starts))
        if arrays is not None:
            unread_from[arrays.unread_at] = arrays.unread_from
            _fill(tokens, arrays.tokens)
            _fill(positions, arrays.positions)
            _fill(slots, arrays.slots)
            _fill(contexts, arrays.context_lengths)
            _fill(starts, arrays.query_starts)
            _fill(logits_at, arrays.logits_at)
        num_rows = 0 if arrays is None else len(arrays.block_tables)
        tables = sent[numbers:].view(size.rows, width)
        tables[num_rows:] = 0
        if num_rows:
            tables[:num_rows] = torch.from_numpy(arrays.block_tables)
        self._packet[: len(sent)].copy_(sent, non_blocking=True)
        came = self._packet[numbers : len(sent)].view(size.rows, width)
        self._tables[: size.rows, :width].copy_(came)
        if unread is not None:
            self._unread[: len(unread.tokens)].copy_(unread.tokens)

    def batch(self, size: Size, block_size: int) -> RaggedBatch:
        """What lies at the places, as a batch; made once, it stays right."""
        parts = self._parts(size)
        tokens, unread_from, positions, slots, contexts, starts, logits_at = parts
        unread = self._unread[unread_from.clamp(min=0)]
        return RaggedBatch(
            tokens=torch.where(unread_from < 0, tokens, unread),
            positions=positions,
            slots=slots,
            block_tables=self._tables[: size.rows],
            context_lengths=contexts,
            query_starts=starts[: size.rows + 1],
            logits_at=logits_at,
            max_query_length=size.longest,
            min_context_length=1,
            max_context_length=self.width * block_size,
        )

    def _parts(self, size: Size) -> Iterator[torch.Tensor]:
        lengths = self._lengths(size)
        return self._packet[: sum(lengths)].split(lengths)


def _fill(places: np.ndarray, numbers: np.ndarray) -> None:
    places[: len(numbers)] = numbers


def without_padding(batch: RaggedBatch, arrays: StepArrays) -> RaggedBatch:
    """A padded batch without what is left over: views of what was sent."""
    (num_rows, width), contexts = arrays.block_tables.shape, arrays.context_lengths
    num_tokens = len(arrays.tokens)
    return RaggedBatch(
        tokens=batch.tokens[:num_tokens],
        positions=batch.positions[:num_tokens],
        slots=batch.slots[:num_tokens],
        block_tables=batch.block_tables[:num_rows, :width],
        context_lengths=batch.context_lengths[:num_rows],
        query_starts=batch.query_starts[: num_rows + 1],
        logits_at=batch.logits_at[: len(arrays.logits_at)],
        max_query_length=int(np.diff(arrays.query_starts).max()),
        min_context_length=int(contexts.min()),
        max_context_length=int(contexts.max()),
    )
