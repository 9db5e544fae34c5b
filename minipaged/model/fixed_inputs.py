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
        # The numbers of a step of which all is left over, by its size; made once, for
        # the CPU may have less than a millisecond for a step.
        self._empty = {size: self._all_left_over(size) for size in sizes}
        rows = max(size.rows for size in sizes)
        longest = max(len(own) + size.rows * width for size, own in self._empty.items())
        whole = {"dtype": torch.int64, "device": device}
        # A step's numbers, then its tables, which are no wider than they must be.
        with torch.inference_mode(False):  # so that they can be written to anywhere
            self._packet = torch.zeros(longest, **whole)
            self._tables = torch.zeros(rows, width, **whole)
            self._unread = torch.zeros(num_logits, **whole)

    def _lengths(self, size: Size) -> list[int]:
        """Of tokens, positions, slots; contexts, starts; which logits are wanted; whose
        the tokens are if unread. Even ones: kernels are compiled for such addresses."""
        tokens, rows = size.tokens, size.rows
        return [tokens] * 3 + [rows, rows + 2, self.num_logits, tokens]

    def _all_left_over(self, size: Size) -> np.ndarray:
        numbers = np.zeros(sum(self._lengths(size)), np.int64)
        ends = np.cumsum(self._lengths(size))
        _, _, slots, _, starts, _, unread_from = np.split(numbers, ends[:-1])
        unread_from[:] = slots[:] = -1
        starts[:] = np.arange(len(starts)) if size.decodes else size.tokens
        starts[0] = 0
        return numbers

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
        num_rows, width = (0, 0) if arrays is None else arrays.block_tables.shape
        empty = self._empty[size]
        sent = host_memory(len(empty) + num_rows * width, self._device)
        numbers, tables = sent.numpy()[: len(empty)], sent.numpy()[len(empty) :]
        numbers[:] = empty
        if arrays is not None:
            tables[:] = arrays.block_tables.reshape(-1)
            start = 0
            for own, length in zip(_in_order(arrays), self._lengths(size)):  # noqa: B905
                numbers[start : start + len(own)] = own
                start += length
            numbers[start + arrays.unread_at] = arrays.unread_from
        self._packet[: len(sent)].copy_(sent, non_blocking=True)
        came = self._packet[len(empty) : len(sent)].view(num_rows, width)
        self._tables[:num_rows, :width].copy_(came)  # others' contexts are 0: unread
        if unread is not None:
            self._unread[: len(unread.tokens)].copy_(unread.tokens)

    def batch(self, size: Size, block_size: int) -> RaggedBatch:
        """What lies at the places, as a batch; made once, it stays right."""
        parts = self._parts(size)
        tokens, positions, slots, contexts, starts, logits_at, unread_from = parts
        unread = self._unread[unread_from.clamp(min=0)]
        return RaggedBatch(
            tokens=torch.where(unread_from < 0, tokens, unread.clamp(min=0)),
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


def _in_order(arrays: StepArrays) -> tuple[np.ndarray, ...]:
    """As `FixedInputs` sends them; whose tokens are unread comes behind them."""
    return (
        arrays.tokens,
        arrays.positions,
        arrays.slots,
        arrays.context_lengths,
        arrays.query_starts,
        arrays.logits_at,
    )


def without_padding(batch: RaggedBatch, arrays: StepArrays) -> RaggedBatch:
    """A padded batch without what is left over: views of what was sent."""
    (num_rows, width), num_tokens = arrays.block_tables.shape, len(arrays.tokens)
    parts = (
        batch.tokens[:num_tokens],
        batch.positions[:num_tokens],
        batch.slots[:num_tokens],
        batch.block_tables[:num_rows, :width],
        batch.context_lengths[:num_rows],
        batch.query_starts[: num_rows + 1],
        batch.logits_at[: len(arrays.logits_at)],
    )
    return arrays.batch(parts)
