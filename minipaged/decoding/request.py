"""Lesson 2: a prompt, what is asked of it, and the sequences that answer it."""

from collections.abc import Sequence as Rows
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch

from minipaged.decoding.options import Options
from minipaged.decoding.sequence import Sequence
from minipaged.observer import Observer

if TYPE_CHECKING:
    from minipaged.decoding.beam import Beams


class Hypothesis(NamedTuple):
    """An answer of a beam search: its new tokens, and its score when it is returned."""

    tokens: list[int]
    score: float = 0.0


@dataclass(eq=False)
class Request:
    """One prompt on its way through the engine."""

    prompt: list[int]
    options: Options | None = None  # None only if there is an error
    generator: torch.Generator | None = None  # None: the generator that all share
    sequences: list[Sequence] = field(default_factory=list)  # as they are returned
    beams: "Beams | None" = None  # what a beam search remembers (lesson 4)
    hypotheses: list[Hypothesis] | None = None  # what it returns, best first
    error: str | None = None  # why it was never run
    salt: bytes = b""  # who may share its cached blocks: those with the same salt
    num_cached_tokens: int = 0  # of the prompt, found in a prefix cache
    observers: Rows[Observer] = ()

    @property
    def live(self) -> list[Sequence]:
        """The sequences that have not ended yet."""
        return [seq for seq in self.sequences if seq.finish_reason is None]

    @property
    def finish_reason(self) -> str:
        """ "stop" if every sequence ended by itself, else "length"."""
        if self.hypotheses is not None:
            eos = self.options.eos_ids
            own = all(one.tokens and one.tokens[-1] in eos for one in self.hypotheses)
            return "stop" if own else "length"
        reasons = {sequence.finish_reason for sequence in self.sequences}
        return "stop" if reasons == {"stop"} else "length"

    def blocks_at_most(self, block_size: int) -> int:
        """The most blocks that this request can come to hold at one time.

        Its sequences share the blocks that the prompt fills; the rest is their own. The
        last token's K and V are never needed, hence the - 1.
        """
        longest = len(self.prompt) + self.options.max_new_tokens - 1
        shared = len(self.prompt) // block_size
        own = -(-longest // block_size) - shared
        return shared + self.options.num_parallel * own

    @property
    def num_blocks_held(self) -> int:
        """Different blocks in the tables of its living sequences."""
        if len(self.live) == 1:
            return len(self.live[0].table.block_ids)
        return len({id_ for one in self.live for id_ in one.table.block_ids})

    def fork(self, parent: Sequence) -> Sequence:
        """One sequence more, with the same past as `parent`; among ours at once."""
        child = parent.fork()
        self.sequences.append(child)
        for observer in self.observers:
            observer.forked(parent, child)
        return child

    def free(self) -> None:
        """Give back whatever blocks are still held, for instance after an exception."""
        for sequence in self.live:
            sequence.free()


@dataclass(frozen=True)
class Turn:
    """A request whose logits have come, with the rows that belong to its sequences."""

    request: Request
    rows: Rows[int]  # one per live sequence, in order


@dataclass(frozen=True)
class Output:
    """What `generate` returns for one prompt.

    sequences: lists of new token ids, as HuggingFace would return them: without the
    prompt, an eos kept, no padding. Empty if `finish_reason` is "error". If fewer beams
    could end than are asked for, the rest are no answers: their scores are below -1e8.
    """

    sequences: list[list[int]]
    finish_reason: str  # "stop" (ended by eos), "length", or "error"
    scores: list[float] | None = None  # of beams; None for greedy and sampling
    num_cached_tokens: int = 0  # prompt tokens found in a prefix cache
    error: str | None = None
