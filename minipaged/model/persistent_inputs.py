"""Appendix A: the inputs of a step, from arrays that are kept between steps."""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch

from minipaged.model.inputs import RaggedBatch
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.sequence import Sequence


class Unread(NamedTuple):
    """Tokens that the step before has chosen, on the device: nobody has read them."""

    tokens: torch.Tensor  # [N] int64; -1 where none could be drawn
    places: Mapping[Sequence, int]  # whose each one is


class StepArrays(NamedTuple):
    """A batch on the CPU: the first seven are those of a RaggedBatch."""

    tokens: np.ndarray  # 0 where a token is unread
    positions: np.ndarray
    slots: np.ndarray
    block_tables: np.ndarray
    context_lengths: np.ndarray
    query_starts: np.ndarray
    logits_at: np.ndarray
    unread_at: np.ndarray  # [U]: which tokens of the batch are unread
    unread_from: np.ndarray  # [U]: and their places in `Unread.tokens`
    max_query_length: int
    min_context_length: int
    max_context_length: int

    def batch(
        self, tensors: Iterable[torch.Tensor], copies: Rows[tuple[int, int]] = ()
    ) -> RaggedBatch:
        """A RaggedBatch of these tensors: the first seven arrays, on the device."""
        return RaggedBatch(
            *tensors,
            max_query_length=self.max_query_length,
            min_context_length=self.min_context_length,
            max_context_length=self.max_context_length,
            copies=copies,
        )


class PersistentInputs:
    """Builds the same batches as `RaggedBatch.of_plan`, at less cost a step.

    The tables of all sequences lie in one array, a row each, and a step writes only
    what has changed of them: mostly nothing, now and then one block. It holds a row for
    each sequence that it has seen lately, a few more than computed at one time.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        """No sequence has been seen yet."""
        self._device = torch.device(device)
        self._tables = np.zeros((1, 1), dtype=np.int64)
        self._rows: dict[Sequence, _Row] = {}
        self._free = [0]  # numbers of rows

    def build(self, plan: Plan, unread: Unread | None = None) -> RaggedBatch:
        """The batch of this plan, which must compute something.

        Tokens that are chosen and `unread` go from there to there on the device.
        """
        arrays = self.arrays(plan, unread)
        tensors = to_device(arrays[:9] if unread else arrays[:7], self._device)
        batch = arrays.batch(tensors[:7], plan.copies)
        if unread:
            unread_at, unread_from = tensors[7:]
            batch.tokens[unread_at] = unread.tokens[unread_from].clamp(min=0)
        return batch

    def arrays(self, plan: Plan, unread: Unread | None = None) -> StepArrays:
        """The same, before it is brought to the device."""
        size = plan.works[0].sequence.table.pool.block_size
        _, sequences, starts, stops, wanted = zip(*plan.works, strict=True)
        rows = [self._update(sequence) for sequence in sequences]
        numbers, longest = np.array([row.number for row in rows]), max(stops)
        block_tables = self._tables[numbers, : -(-longest // size)]
        known = [sequence.tokens for sequence in sequences]
        # Of a sequence's tokens one is unread at most, and then it is a work alone.
        late = []
        if unread is not None:
            ends = enumerate(zip(stops, known, strict=True))
            late = [at for at, (stop, own) in ends if stop > len(own)]
        if sum(stops) - sum(starts) == len(rows):  # one token each, as in most steps
            # From lists, because a call of numpy costs as much as making one of them.
            last = zip(known, starts, strict=True)
            tokens = [own[at] if at < len(own) else 0 for own, at in last]
            places = zip(rows, starts, strict=True)
            slots = [row.last * size + at % size for row, at in places]
            tokens, positions, slots, contexts = np.array(
                [*tokens, *starts, *slots, *stops], dtype=np.int64
            ).reshape(4, -1)
            query_starts, most_new = np.arange(len(rows) + 1), 1
            asked_of = [at for at, count in enumerate(wanted) if count]
        else:
            contexts, lengths = np.array(stops), np.subtract(stops, starts)
            query_starts = np.concatenate([[0], lengths.cumsum()])
            count, ends = int(query_starts[-1]), query_starts[1:]
            most_new = int(lengths.max())
            parts = (w.sequence.tokens[w.start : w.stop] or (0,) for w in plan.works)
            tokens = np.fromiter(chain.from_iterable(parts), np.int64, count)
            row = np.arange(len(rows)).repeat(lengths)
            positions = np.arange(count) + (contexts - ends).repeat(lengths)
            slots = block_tables[row, positions // size] * size + positions % size
            asked_of = chain.from_iterable(map(range, ends - wanted, ends))
        return StepArrays(
            tokens=tokens,
            positions=positions,
            slots=slots,
            block_tables=block_tables,
            context_lengths=contexts,
            query_starts=query_starts,
            logits_at=np.array([*asked_of], dtype=np.int64),
            unread_at=query_starts[1:][late] - 1,
            unread_from=np.array(
                [unread.places[sequences[at]] for at in late], dtype=np.int64
            ),
            max_query_length=most_new,
            min_context_length=min(stops),
            max_context_length=longest,
        )

    def _update(self, sequence: Sequence) -> "_Row":
        """The sequence's row, which holds its table as it is now."""
        row = self._rows.get(sequence) or self._new_row(sequence)
        block_ids = sequence.table.block_ids
        length = len(block_ids)
        if row.block_ids is not block_ids:  # a new table, or one that was truncated
            row.block_ids, row.length = block_ids, 0
        # A table grows at its end, and copy-on-write exchanges its last block.
        if row.length != length or row.last != block_ids[-1]:
            if length > self._tables.shape[1]:
                wider = np.zeros((len(self._tables), 2 * length), dtype=np.int64)
                wider[:, : self._tables.shape[1]] = self._tables
                self._tables = wider
            start = max(0, row.length - 1)
            self._tables[row.number, start:length] = block_ids[start:]
            row.length, row.last = length, block_ids[-1]
        return row

    def _new_row(self, sequence: Sequence) -> "_Row":
        if not self._free:
            for other in [one for one in self._rows if one.table is None]:  # it ended
                self._free.append(self._rows.pop(other).number)
        if not self._free:
            count = len(self._tables)
            self._tables = np.concatenate([self._tables, np.zeros_like(self._tables)])
            self._free = list(range(2 * count - 1, count - 1, -1))
        self._rows[sequence] = row = _Row(self._free.pop())
        return row


def to_device(arrays: list[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """Tensors of the same shapes; int64. To a GPU they go in one copy, side by side.

    Nobody waits for that: not for the copy, nor for what the GPU does before it.
    """
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    # Each begins at a multiple of 16 bytes: kernels are compiled anew for other places.
    rooms = [array.size + array.size % 2 for array in arrays]
    packet = host_memory(sum(rooms), device)
    for part, array in zip(packet.split(rooms), arrays, strict=True):
        part.numpy()[: array.size] = array.ravel()
    parts = packet.to(device, non_blocking=device.type == "cuda").split(rooms)
    return [p[: a.size].view(a.shape) for p, a in zip(parts, arrays, strict=True)]


def host_memory(size: int, device: torch.device) -> torch.Tensor:
    """Room for so many int64, from which copies to the device need no waiting.

    torch gives pinned memory to others only after copies from it have ended.
    """
    pinned = device.type == "cuda"
    return torch.empty(size, dtype=torch.int64, device="cpu", pin_memory=pinned)


@dataclass(slots=True)
class _Row:
    """What a row of the array says."""

    number: int
    block_ids: list[int] | None = None  # the table's own list, to know it again
    length: int = 0
    last: int = -1
