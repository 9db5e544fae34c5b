"""Appendix A: the inputs of a step, from arrays that are kept between steps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
import torch

from minipaged.model.inputs import RaggedBatch
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.sequence import Sequence

_NONE = np.zeros(0, np.int64)


class Pending(NamedTuple):
    """Tokens that the last step has chosen, and that the CPU has not read yet.

    With guesses (appendix E), a sequence has several, and they may have to be computed
    at places before those of the plan.
    """

    # Together N tokens, int64; -1 where none could be drawn.
    parts: tuple[torch.Tensor, ...]
    places: Mapping[Sequence, list[int]]  # of each sequence's tokens, the newest last
    # By how many places each is moved back. It may be shorter than N: then it repeats.
    back: torch.Tensor | None = None
    with_before: torch.Tensor | None = None  # [2, N]: these, and the tokens before

    @property
    def tokens(self) -> torch.Tensor:
        """All parts as one tensor, [N]."""
        return self.parts[0] if len(self.parts) == 1 else torch.cat(self.parts)

    @property
    def num_tokens(self) -> int:
        """N."""
        return sum([part.shape[0] for part in self.parts])


class StepArrays(NamedTuple):
    """A batch on the CPU: the first seven arrays are those of a RaggedBatch."""

    tokens: np.ndarray  # 0 where a token is pending
    positions: np.ndarray
    slots: np.ndarray
    block_tables: np.ndarray
    context_lengths: np.ndarray
    query_starts: np.ndarray
    logits_at: np.ndarray
    pending_at: np.ndarray  # [U]: which tokens of the batch are pending
    pending_from: np.ndarray  # [U]: their places in `Pending.tokens`
    max_query_length: int
    min_context_length: int
    max_context_length: int

    def with_a_row_for_each_token(self) -> "StepArrays":
        """The same tokens, each as a sequence with its own row of the tables.

        A token attends to the tokens before it, and to itself. So this is the same
        step, if all K and V are written before any token attends. For example: 3 tokens
        at the end of a context of 9 are three rows, of contexts 7, 8 and 9.
        """
        lengths = self.query_starts[1:] - self.query_starts[:-1]
        contexts = self.positions + 1
        return StepArrays(
            tokens=self.tokens,
            positions=self.positions,
            slots=self.slots,
            block_tables=self.block_tables.repeat(lengths, axis=0),
            context_lengths=contexts,
            query_starts=np.arange(len(self.tokens) + 1),
            logits_at=self.logits_at,
            pending_at=self.pending_at,
            pending_from=self.pending_from,
            max_query_length=1,
            min_context_length=int(contexts.min()),
            max_context_length=self.max_context_length,
        )

    def batch(
        self, tensors: Iterable[torch.Tensor], copies: list[tuple[int, int]]
    ) -> RaggedBatch:
        """A RaggedBatch of these tensors: the first seven arrays, on the device."""
        return RaggedBatch(
            *tensors,
            max_query_length=self.max_query_length,
            min_context_length=self.min_context_length,
            max_context_length=self.max_context_length,
            copies=copies,
        )

    def on_device(
        self,
        device: torch.device,
        block_size: int,
        copies: list[tuple[int, int]],
        pending: Pending | None = None,
    ) -> RaggedBatch:
        """The batch; tokens that are `pending` are copied into it on the device."""
        tensors = to_device(self[:9] if pending else self[:7], device)
        batch = self.batch(tensors[:7], copies)
        if pending:
            pending_at, pending_from = tensors[7:]
            batch.tokens[pending_at] = pending.tokens[pending_from].clamp(min=0)
            if pending.back is not None:
                from minipaged.model.moved_back import move_back  # appendix E

                back = torch.zeros_like(batch.tokens)
                back[pending_at] = pending.back[pending_from % len(pending.back)]
                move_back(batch, back, block_size)
                batch.min_context_length = 1
        return batch


class PersistentInputs:
    """Builds the same batches as `RaggedBatch.of_plan`, at less cost a step.

    The tables of all sequences lie in one array, each in its row. A step writes only
    the changes of tables: mostly none, now and then one block. An ended sequence keeps
    its row until a new one needs it.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        """No sequence has been seen yet."""
        self._device = torch.device(device)
        self._tables = np.zeros((1, 1), dtype=np.int64)
        self._rows: dict[Sequence, _Row] = {}
        self._free = [0]  # numbers of rows

    def build(self, plan: Plan, pending: Pending | None = None) -> RaggedBatch:
        """The batch of this plan, which must compute something.

        Tokens that are `pending` are copied into it on the device.
        """
        arrays = self.arrays(plan, pending)
        block_size = plan.works[0].sequence.table.pool.block_size
        return arrays.on_device(self._device, block_size, plan.copies, pending)

    def arrays(
        self, plan: Plan, pending: Pending | None = None, num_more: int = 0
    ) -> StepArrays:
        """The batch as arrays, before they are brought to the device.

        num_more: of how many later tokens of each sequence the blocks are wanted, too.
        """
        block_size = plan.works[0].sequence.table.pool.block_size
        _, sequences, starts, stops, wanted = zip(*plan.works, strict=True)
        rows = [self._update(sequence) for sequence in sequences]
        numbers = np.array([row.number for row in rows])
        longest = max(stops)
        width = -(-longest // block_size)
        if num_more:  # no further than a table goes: its text may end before
            most = max([row.length for row in rows])
            width = max(width, min(-(-(longest + num_more) // block_size), most))
        block_tables = self._tables[numbers, :width]
        texts = [sequence.tokens for sequence in sequences]
        # Pending tokens are the last of a work. They are not in the text yet, or a
        # negative number stands for them.
        pending_from: list[int] = []
        unread: list[tuple[int, int]] = []  # works, and how many of their tokens
        if pending is not None:
            ends = enumerate(zip(starts, stops, texts, strict=True))
            for index, (start, stop, text) in ends:
                if stop > len(text) or text[stop - 1] < 0:
                    count = _num_unread(text, start, stop)
                    pending_from += pending.places[sequences[index]][-count:]
                    unread.append((index, count))
        if sum(stops) - sum(starts) == len(rows):  # one token each, as in most steps
            # From lists, because a call of numpy costs as much as to make a list.
            last = zip(texts, starts, strict=True)
            tokens = [text[start] if start < len(text) else 0 for text, start in last]
            places = zip(rows, starts, strict=True)
            slots = [
                row.block_ids[at // block_size] * block_size + at % block_size
                for row, at in places
            ]
            tokens, positions, slots, contexts = np.array(
                [*tokens, *starts, *slots, *stops], dtype=np.int64
            ).reshape(4, -1)
            query_starts = np.arange(len(rows) + 1)
            most_new = 1
            logits_at = [index for index, count in enumerate(wanted) if count]
        else:
            contexts = np.array(stops)
            lengths = [stop - start for start, stop in zip(starts, stops, strict=True)]
            ends = [*accumulate(lengths)]
            query_starts = np.array([0, *ends])
            most_new = max(lengths)
            count = ends[-1]
            parts = [
                text[start:stop] + [0] * (stop - max(start, len(text)))
                for text, start, stop in zip(texts, starts, stops, strict=True)
            ]
            tokens = np.fromiter(chain.from_iterable(parts), np.int64, count)
            row = np.arange(len(rows)).repeat(lengths)
            shift = contexts - query_starts[1:]
            positions = np.arange(count) + shift.repeat(lengths)
            blocks = block_tables[row, positions // block_size]
            slots = blocks * block_size + positions % block_size
            firsts = [end - num for end, num in zip(ends, wanted, strict=True)]
            logits_at = chain.from_iterable(map(range, firsts, ends))
        return StepArrays(
            tokens=tokens,
            positions=positions,
            slots=slots,
            block_tables=block_tables,
            context_lengths=contexts,
            query_starts=query_starts,
            logits_at=np.array([*logits_at], dtype=np.int64),
            pending_at=_last_of(query_starts, unread) if unread else _NONE,
            pending_from=np.array(pending_from, dtype=np.int64) if unread else _NONE,
            max_query_length=most_new,
            min_context_length=min(stops),
            max_context_length=longest,
        )

    def _update(self, sequence: Sequence) -> "_Row":
        """The sequence's row, after its table is written into it."""
        row = self._rows.get(sequence) or self._new_row(sequence)
        block_ids = sequence.table.block_ids
        length = len(block_ids)
        if row.block_ids is not block_ids:  # a new table, or one that was truncated
            row.length = 0  # first: Ctrl-C may come between these lines
            row.block_ids = block_ids
        # A table grows at its end, and copy-on-write exchanges its last block.
        if row.length != length or row.last != block_ids[-1]:
            if length > self._tables.shape[1]:
                wider = np.zeros((len(self._tables), 2 * length), dtype=np.int64)
                wider[:, : self._tables.shape[1]] = self._tables
                self._tables = wider
            start = max(0, row.length - 1)
            self._tables[row.number, start:length] = block_ids[start:]
            row.length = length
            row.last = block_ids[-1]
        return row

    def _new_row(self, sequence: Sequence) -> "_Row":
        if not self._free:
            ended = [known for known in self._rows if known.table is None]
            for other in ended:
                self._free.append(self._rows.pop(other).number)
        if not self._free:
            count = len(self._tables)
            self._tables = np.concatenate([self._tables, np.zeros_like(self._tables)])
            self._free = list(range(2 * count - 1, count - 1, -1))
        self._rows[sequence] = row = _Row(self._free.pop())
        return row


def _num_unread(text: list[int], start: int, stop: int) -> int:
    """How many of the tokens up to `stop` are not read yet."""
    known = min(stop, len(text))
    while known > start and text[known - 1] < 0:
        known -= 1
    return stop - max(start, known)


def _last_of(query_starts: np.ndarray, works: list[tuple[int, int]]) -> np.ndarray:
    """The places of the last tokens of works, each (index, how many), in a batch."""
    if all([count == 1 for _, count in works]):
        return query_starts[1:][[index for index, _ in works]] - 1
    ends = ((int(query_starts[index + 1]), count) for index, count in works)
    places = chain.from_iterable(range(end - count, end) for end, count in ends)
    return np.array([*places], dtype=np.int64)


def to_device(arrays: list[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """These arrays as tensors of int64. To a GPU they go in one copy, side by side.

    The CPU waits neither for the copy, nor for what the GPU does before it.
    """
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    # Each array begins at a multiple of 16 bytes: for other addresses, kernels would be
    # compiled anew.
    lengths = [array.size + array.size % 2 for array in arrays]
    packet = host_memory(sum(lengths), device)
    for part, array in zip(packet.split(lengths), arrays, strict=True):
        part.numpy()[: array.size] = array.ravel()
    parts = packet.to(device, non_blocking=device.type == "cuda").split(lengths)
    return [p[: a.size].view(a.shape) for p, a in zip(parts, arrays, strict=True)]


def to_device_once(numbers: bytes, device: torch.device) -> torch.Tensor:
    """These bytes as int64 on the device; nobody may write to them.

    What was sent lately is still there: many steps ask for what the step before has
    asked for.
    """
    # Another stream might read them before they have come.
    on_gpu = device.type == "cuda"
    stream = torch.cuda.current_stream(device).cuda_stream if on_gpu else 0
    return _sent(numbers, device, stream)


@lru_cache(maxsize=16)
def _sent(numbers: bytes, device: torch.device, _stream: int) -> torch.Tensor:
    array = np.frombuffer(bytearray(numbers), np.int64)
    return to_device([array], device)[0]


def host_memory(size: int, device: torch.device) -> torch.Tensor:
    """Memory of the CPU for so many int64; no copy from it to the device waits.

    torch reuses pinned memory only after copies from it have ended.
    """
    pinned = device.type == "cuda"
    return torch.empty(size, dtype=torch.int64, device="cpu", pin_memory=pinned)


@dataclass(slots=True)
class _Row:
    """A row of the array: the table that was written into it."""

    number: int
    block_ids: list[int] | None = None  # the table's list itself, to recognise it
    length: int = 0
    last: int = -1
