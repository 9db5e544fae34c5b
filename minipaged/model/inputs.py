"""Lesson 2: all tokens that one step computes, laid end to end (paper, section 4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import torch

from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.plan import Plan


class Chunk(NamedTuple):
    """A Work as a batch needs it: the tokens themselves, and their table.

    The table has room for them already: they take its last `len(tokens)` positions.
    """

    tokens: list[int]
    table: BlockTable
    num_logits: int = 1  # of its last tokens; 0: none is wanted yet


@dataclass
class RaggedBatch:
    """One step's work, flattened: sequences of any lengths, laid end to end.

    Letters: T tokens to compute, S sequences, M blocks of the longest table, R rows of
    logits. Prefill (many tokens of a sequence) and decode (one token) differ only in
    the number of tokens.

    For example, in blocks of 4: a prompt of 3 tokens in block 7, and the tenth token of
    a sequence in blocks 2, 9 and 4. positions: [0, 1, 2, 9]; slots: [28, 29, 30, 17];
    block_tables: [[7, 0, 0], [2, 9, 4]]; query_starts: [0, 3, 4].

    Source: PagedAttention paper, section 4.3 ("concatenates all the input tokens").
    """

    tokens: torch.Tensor  # [T] int64
    positions: torch.Tensor  # [T] int64: position of each token in its own sequence
    slots: torch.Tensor  # [T] int64: where its K and V are written
    block_tables: torch.Tensor  # [S, M] int64; after a table's end come any numbers
    context_lengths: torch.Tensor  # [S] int64: tokens to attend to, new ones included
    query_starts: torch.Tensor  # [S + 1] int64: where each one's start; at the end, T
    logits_at: torch.Tensor  # [R] int64: the tokens whose logits are wanted
    max_query_length: int
    min_context_length: int
    max_context_length: int
    copies: list[tuple[int, int]] = field(default_factory=list)  # (source, copy) blocks
    scratch: dict[Any, Any] = field(default_factory=dict)  # for attention, in this step
    # Do rows belong to one sequence? Then all K and V must be written before any
    # token attends (appendix E).
    rows_share: bool = False

    @classmethod
    def of_plan(cls, plan: Plan, device: torch.device | str = "cpu") -> "RaggedBatch":
        """The batch of a plan, which must compute something.

        Build it before the next plan is made, which makes the tables longer.
        """
        chunks = [
            Chunk(sequence.tokens[start:stop], sequence.table, num_logits)
            for _, sequence, start, stop, num_logits in plan.works
        ]
        return cls.build(chunks, plan.copies, device)

    @classmethod
    def build(
        cls,
        chunks: list[Chunk],
        copies: list[tuple[int, int]] | None = None,
        device: torch.device | str = "cpu",
    ) -> "RaggedBatch":
        """Flatten the chunks (at least one, none empty), in their order."""
        lengths = [len(chunk.tokens) for chunk in chunks]
        if not lengths or 0 in lengths:
            raise ValueError("give at least one chunk, each of one token or more")
        tables = [chunk.table.block_ids for chunk in chunks]
        contexts = [chunk.table.num_tokens for chunk in chunks]
        num_blocks = max(map(len, tables))
        tables = [ids + [0] * (num_blocks - len(ids)) for ids in tables]
        block_size = chunks[0].table.pool.block_size
        stops = list(accumulate(lengths))
        wanted = [
            range(stop - chunk.num_logits, stop)
            for stop, chunk in zip(stops, chunks, strict=True)
        ]
        if len(chunks) == stops[-1]:  # a token each, as in most steps: lists are quick
            positions = [context - 1 for context in contexts]
            blocks = [
                ids[at // block_size] for ids, at in zip(tables, positions, strict=True)
            ]
            slots = [
                block * block_size + at % block_size
                for block, at in zip(blocks, positions, strict=True)
            ]
        else:
            row = np.arange(len(chunks)).repeat(lengths)  # of each token, in the tables
            # A token's position in its sequence, minus its place in the batch.
            shift = np.subtract(contexts, stops)
            positions = np.arange(stops[-1]) + shift[row]
            blocks = np.array(tables)[row, positions // block_size]
            slots = blocks * block_size + positions % block_size

        def tensor(values: Sequence | np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.asarray(values, dtype=np.int64)).to(device)

        return cls(
            tensor([*chain.from_iterable(chunk.tokens for chunk in chunks)]),
            tensor(positions),
            tensor(slots),
            tensor(tables),
            tensor(contexts),
            tensor([0, *stops]),
            tensor([*chain.from_iterable(wanted)]),
            max_query_length=max(lengths),
            min_context_length=min(contexts),
            max_context_length=max(contexts),
            copies=copies or [],
        )
