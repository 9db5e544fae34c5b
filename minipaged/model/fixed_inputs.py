"""Appendix D: the inputs of a step at fixed places, where a CUDA graph reads them.

A CUDA graph repeats the shapes and addresses that it was captured with. So a step is
padded to a size for which there is a graph, and one copy fills the places it reads.
"""

from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch

from minipaged.model.inputs import RaggedBatch
from minipaged.model.persistent_inputs import Pending, StepArrays, host_memory


class Size(NamedTuple):
    """The size of a graph's batch: multiples of 8, except that `longest` may be 1."""

    tokens: int
    rows: int  # sequences
    longest: int  # most new tokens of a sequence; 1: each sequence has one
    rows_share: bool = False  # appendix E: a sequence may have a row for each token

    @property
    def decodes(self) -> bool:
        """Does every sequence have one new token, whose logits are wanted?"""
        return self.longest == 1


class _Place(NamedTuple):
    """Where the numbers of a step lie."""

    batch: RaggedBatch
    pending_from: torch.Tensor  # [T]: which pending token each token is, or -1
    lengths: torch.Tensor  # [2]: how many of them there are, and numbers after them


_NO_TABLES = np.zeros((0, 0), np.int64)


class FixedInputs:
    """Places for the largest batch; a smaller batch uses the first of them.

    A step is padded with tokens of slot -1 and rows of context 0, which read and write
    nothing. If the step decodes, each padding row has one padding token; otherwise the
    first padding row has all padding tokens. For example: 5 sequences decode in 8 rows,
    so rows 5, 6 and 7 are padding, with one padding token each.
    """

    def __init__(self, sizes: list[Size], width: int, num_logits: int, device):
        """Room for these sizes, with tables of `width` blocks."""
        self.width = width
        self.num_logits = num_logits
        self._device = device
        # For each size, the numbers of a step that is all padding. They are made once,
        # because the CPU may have less than a millisecond for a step.
        self._empty = {size: self._all_padding(size) for size in sizes}
        self._starts = {
            size: [0, *accumulate(self._lengths(size)[:-2])] for size in sizes
        }
        self._places: dict[Size, _Place] = {}  # for calls outside of graphs
        rows = max(size.rows for size in sizes)
        longest = max(
            len(numbers) + size.rows * width for size, numbers in self._empty.items()
        )
        whole = {"dtype": torch.int64, "device": device}
        # A step's numbers, then its tables, which are no wider than the step needs.
        with torch.inference_mode(False):  # so that any mode may write to them
            self._packet = torch.zeros(longest, **whole)
            self._tables = torch.zeros(rows, width, **whole)
            # Tokens, and then by how many places each is moved back (appendix E).
            self._pending = torch.zeros(2 * num_logits, **whole)
        self._sent_tables = _NO_TABLES  # they lie in `_tables`

    def _lengths(self, size: Size) -> list[int]:
        """How many numbers each part of a step has.

        The parts: tokens, positions, slots, contexts, starts, which logits are wanted,
        places of pending tokens, and how many of these there are. Lengths are even,
        because kernels are compiled for addresses that are multiples of 16 bytes. For
        example: 8 sequences that decode, with 8 rows of logits, have
        [8, 8, 8, 8, 10, 8, 8, 2].
        """
        of_tokens = [size.tokens] * 3
        of_rows = [size.rows, size.rows + 2]
        num_logits = size.rows if size.decodes else self.num_logits
        return [*of_tokens, *of_rows, num_logits, size.tokens, 2]

    def _all_padding(self, size: Size) -> np.ndarray:
        numbers = np.zeros(sum(self._lengths(size)), np.int64)
        ends = np.cumsum(self._lengths(size))
        _, _, slots, _, starts, _, pending_from, _ = np.split(numbers, ends[:-1])
        pending_from[:] = slots[:] = -1
        starts[:] = np.arange(len(starts)) if size.decodes else size.tokens
        starts[0] = 0
        return numbers

    def send(
        self,
        size: Size,
        arrays: StepArrays | None = None,
        pending: Pending | None = None,
    ) -> None:
        """Copy a step, no larger than `size`, to the places, without waiting.

        arrays: the step; without them, all is padding. pending: tokens of the step
        before that the CPU has not read yet.
        """
        tables = self._new_tables(arrays)
        empty = self._empty[size]
        count = empty.size
        sent = host_memory(count + tables.size, self._device)
        numbers = sent.numpy()
        numbers[:count] = empty
        if arrays is not None:
            numbers[count:] = tables.reshape(-1)
            *starts, of_pending = self._starts[size]
            for part, start in zip(_in_order(arrays), starts, strict=True):
                numbers[start : start + part.size] = part
            if arrays.pending_at.size:
                numbers[of_pending + arrays.pending_at] = arrays.pending_from
        if pending is not None:
            numbers[count - 2 : count] = self._place_pending(pending)
        self._packet[: numbers.size].copy_(sent, non_blocking=True)
        if tables.size:
            num_rows, width = tables.shape
            sent_tables = self._packet[count : numbers.size].view(num_rows, width)
            self._sent_tables = _NO_TABLES  # Ctrl-C may come between these lines
            # Tables of other rows are not read: the contexts are 0.
            self._tables[:num_rows, :width].copy_(sent_tables)
            self._sent_tables = tables

    def _place_pending(self, pending: Pending) -> tuple[int, int]:
        """Copy tokens, and how far they are moved back; how many of each?"""
        parts, num_back = [*pending.parts], 0
        if pending.back is not None:
            parts.append(pending.back)
            num_back = pending.back.shape[0]
        num_tokens = pending.num_tokens
        torch.cat(parts, out=self._pending[: num_tokens + num_back])
        return num_tokens, num_back

    def _new_tables(self, arrays: StepArrays | None) -> np.ndarray:
        """The tables of this step; none if those that were sent last are the same.

        Most steps change no table: a sequence needs a new block now and then.
        """
        if arrays is None:
            return _NO_TABLES
        new, old = arrays.block_tables, self._sent_tables
        is_there = new.shape == old.shape and (new == old).all()
        return _NO_TABLES if is_there else new

    def take_pending(self, size: Size, block_size: int) -> None:
        """Put pending tokens into the step that was sent, and move them back."""
        self._take(self._place(size, block_size), block_size)

    def _take(self, place: "_Place", block_size: int) -> None:
        from minipaged.model.moved_back import take_pending  # appendix E

        batch, pending_from, lengths = place
        take_pending(batch, pending_from, self._pending, lengths, block_size)

    def advance(
        self, size: Size, chosen: torch.Tensor, length: int, block_size: int
    ) -> None:
        """From the step that was sent, make the next one: see `advanced.advance`."""
        from minipaged.model.advanced import advance  # appendix E

        batch, pending_from, _ = self._place(size, block_size)
        advance(batch, pending_from, chosen, length, block_size)

    def batch(self, size: Size, block_size: int) -> RaggedBatch:
        """A batch that reads the places; captured once, it is right for every step.

        It begins with its pending tokens. If the step does not decode, none may have to
        be moved back any more.
        """
        place = self._place_of(size, block_size)
        if size.decodes:
            self._take(place, block_size)
            return place.batch
        tokens, pending_from = place.batch.tokens, place.pending_from
        pending = self._pending[pending_from.clamp(min=0)].clamp(min=0)
        return replace(
            place.batch, tokens=torch.where(pending_from < 0, tokens, pending)
        )

    def _place(self, size: Size, block_size: int) -> "_Place":
        if size not in self._places:
            self._places[size] = self._place_of(size, block_size)
        return self._places[size]

    def _place_of(self, size: Size, block_size: int) -> "_Place":
        lengths = self._lengths(size)
        parts = self._packet[: sum(lengths)].split(lengths)
        tokens, positions, slots, contexts, starts, logits_at, *of_pending = parts
        batch = RaggedBatch(
            tokens=tokens,
            positions=positions,
            slots=slots,
            block_tables=self._tables[: size.rows],
            context_lengths=contexts,
            query_starts=starts[: size.rows + 1],
            logits_at=logits_at,
            max_query_length=size.longest,
            min_context_length=1,
            max_context_length=self.width * block_size,
            rows_share=size.rows_share,
        )
        return _Place(batch, *of_pending)


def _in_order(arrays: StepArrays) -> tuple[np.ndarray, ...]:
    """As `FixedInputs` sends them; the places of pending tokens follow them."""
    return (
        arrays.tokens,
        arrays.positions,
        arrays.slots,
        arrays.context_lengths,
        arrays.query_starts,
        arrays.logits_at,
    )


def without_padding(
    batch: RaggedBatch, arrays: StepArrays, copies: list[tuple[int, int]]
) -> RaggedBatch:
    """A padded batch without its padding: views of the places that the step fills."""
    num_rows, width = arrays.block_tables.shape
    num_tokens = len(arrays.tokens)
    parts = (
        batch.tokens[:num_tokens],
        batch.positions[:num_tokens],
        batch.slots[:num_tokens],
        batch.block_tables[:num_rows, :width],
        batch.context_lengths[:num_rows],
        batch.query_starts[: num_rows + 1],
        batch.logits_at[: len(arrays.logits_at)],
    )
    return arrays.batch(parts, copies)
