"""Lesson 2: all tokens that one step computes, laid end to end (paper, section 4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, NamedTuple

import torch

from minipaged.memory.block_table import BlockTable


class Chunk(NamedTuple):
    """The tokens of one sequence that a step computes: a prompt, a part of one, or one.

    The table has room for them already: they are the last `len(tokens)` of its tokens.
    """

    tokens: Sequence[int]
    table: BlockTable
    wants_logits: bool = True  # False: more of the prompt is to come


@dataclass
class RaggedBatch:
    """One step's work, flattened: sequences of any lengths, laid end to end.

    Letters: T tokens to compute, S sequences, M blocks of the longest table. Prefill
    (many tokens of a sequence) and decode (one token) differ only in their number.

    Source: PagedAttention paper, section 4.3 ("concatenates all the input tokens").
    """

    tokens: torch.Tensor  # [T] int64
    positions: torch.Tensor  # [T] int64: position of each token in its own sequence
    slots: torch.Tensor  # [T] int64: where its K and V are written
    block_tables: torch.Tensor  # [S, M] int64; rows of shorter tables end in zeros
    context_lengths: torch.Tensor  # [S] int64: tokens to attend to, new ones included
    query_starts: torch.Tensor  # [S + 1] int64: where s's new tokens start in the batch
    logits_at: torch.Tensor  # [number of chunks that want logits]: which tokens' logits
    max_query_length: int
    min_context_length: int
    max_context_length: int
    copies: Sequence[tuple[int, int]] = ()  # (source, copy) blocks, before the forward
    scratch: dict[Any, Any] = field(default_factory=dict)  # of attention, this step

    @classmethod
    def build(
        cls,
        chunks: Sequence[Chunk],
        copies: Sequence[tuple[int, int]] = (),
        device: torch.device | str = "cpu",
    ) -> "RaggedBatch":
        """Flatten the chunks (at least one, none empty), in their order."""
        lengths = [len(chunk.tokens) for chunk in chunks]
        if not lengths or 0 in lengths:
            raise ValueError(
                "a batch needs at least one chunk, each of one token or more"
            )
        contexts = [chunk.table.num_tokens for chunk in chunks]
        tables = [chunk.table.block_ids for chunk in chunks]
        num_blocks = max(map(len, tables))
        starts = list(accumulate(lengths, initial=0))

        def tensor(values: list) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        block_tables = tensor([ids + [0] * (num_blocks - len(ids)) for ids in tables])
        context_lengths, query_starts = tensor(contexts), tensor(starts)
        if len(chunks) == starts[-1]:  # one token each
            tables_of_tokens, positions = block_tables, context_lengths - 1
        else:
            row = torch.arange(len(chunks), device=device).repeat_interleave(
                query_starts.diff(), output_size=starts[-1]
            )
            tables_of_tokens = block_tables[row]
            # A sequence's tokens are its last ones: they end where its context ends.
            shift = (context_lengths - query_starts[1:])[row]
            positions = torch.arange(starts[-1], device=device) + shift
        block_size = chunks[0].table.pool.block_size
        blocks = tables_of_tokens.gather(1, positions[:, None] // block_size)[:, 0]
        last = [stop - 1 for stop in starts[1:]]
        return cls(
            tokens=tensor(list(chain.from_iterable(chunk.tokens for chunk in chunks))),
            positions=positions,
            slots=blocks * block_size + positions % block_size,
            block_tables=block_tables,
            context_lengths=context_lengths,
            query_starts=query_starts,
            logits_at=tensor(
                [i for i, c in zip(last, chunks, strict=True) if c.wants_logits]
            ),
            max_query_length=max(lengths),
            min_context_length=min(contexts),
            max_context_length=max(contexts),
            copies=copies,
        )
