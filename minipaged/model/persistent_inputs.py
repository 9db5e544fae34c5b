"""Appendix A: the inputs of a step, from arrays that are kept between steps."""

from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from minipaged.model.inputs import RaggedBatch
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.sequence import Sequence


class PersistentInputs:
    """Builds the same batches as `RaggedBatch.of_plan`, at less cost a step.

    The tables of all sequences lie in one array, a row each, and a step writes only
    what has changed of them: mostly nothing, now and then one block. It holds a row for
    each sequence that it has seen lately, a few more than computed at one time.
    """

    def __init__(self, device: torch.device | str = "cpu"):
        """No sequence has been seen yet."""
        self._device = device
        self._tables = np.zeros((1, 1), dtype=np.int64)
        self._rows: dict[Sequence, _Row] = {}
        self._free = [0]  # numbers of rows

    def build(self, plan: Plan) -> RaggedBatch:
        """The batch of this plan, which must compute something."""
        works = plan.works
        rows = np.array([self._update(work.sequence) for work in works])
        starts = np.array([work.start for work in works])
        stops = np.array([work.stop for work in works])
        lengths = stops - starts
        ends = lengths.cumsum()
        block_size = works[0].sequence.table.pool.block_size
        block_tables = self._tables[rows, : -(-int(stops.max()) // block_size)]
        if len(works) == ends[-1]:  # one token each
            tokens = np.array([work.sequence.tokens[work.start] for work in works])
            row, positions = np.arange(len(works)), starts
        else:
            parts = (work.sequence.tokens[work.start : work.stop] for work in works)
            tokens = np.fromiter(chain.from_iterable(parts), np.int64, int(ends[-1]))
            row = np.arange(len(works)).repeat(lengths)
            positions = np.arange(ends[-1]) + (stops - ends).repeat(lengths)
        blocks = block_tables[row, positions // block_size]
        wanted = np.array([work.num_logits for work in works])
        logits_at = np.arange(wanted.sum()) + (ends - wanted.cumsum()).repeat(wanted)
        return RaggedBatch(
            tokens=self._tensor(tokens),
            positions=self._tensor(positions),
            slots=self._tensor(blocks * block_size + positions % block_size),
            block_tables=self._tensor(block_tables),
            context_lengths=self._tensor(stops),
            query_starts=self._tensor(np.concatenate([[0], ends])),
            logits_at=self._tensor(logits_at),
            max_query_length=int(lengths.max()),
            min_context_length=int(stops.min()),
            max_context_length=int(stops.max()),
            copies=plan.copies,
        )

    def _update(self, sequence: Sequence) -> int:
        """The number of the sequence's row, which holds its table as it is now."""
        row = self._rows.get(sequence) or self._new_row(sequence)
        block_ids, length = sequence.table.block_ids, len(sequence.table.block_ids)
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
        return row.number

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

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)


@dataclass
class _Row:
    """What a row of the array says."""

    number: int
    block_ids: list[int] | None = None  # the table's own list, to know it again
    length: int = 0
    last: int = -1
