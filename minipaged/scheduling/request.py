"""Lesson 2: a prompt, the sequences that answer it, and the blocks that they take."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.next_works import NextWorks
from minipaged.scheduling.observer import Observer, Observers
from minipaged.scheduling.sequence import Sequence


@dataclass(eq=False)
class Request:
    """A prompt on its way through the engine, as scheduling sees it."""

    prompt: list[int]
    max_new_tokens: int
    # Says what is computed next. A `decoding.Strategy` also chooses the tokens.
    strategy: NextWorks = field(default_factory=NextWorks)
    num_parallel: int = 1  # how many sequences may grow at one time: samples or beams
    drops_sequences: bool = False  # beams: a living one may be dropped for a better one
    salt: bytes = b""  # requests with equal salts share cached blocks
    answers: list[Sequence] = field(init=False)  # what the user gets; at first one
    # Sequences that hold blocks and are no answers: guesses at the next tokens, say.
    drafts: list[Sequence] = field(default_factory=list, init=False)
    num_cached_tokens: int = 0  # of the prompt, when the request first started
    num_restarts: int = 0  # how often it lost its blocks (appendix B)
    swapped: Any = None  # where its K and V are kept while it is preempted (B)
    error: str | None = None  # why it will never have an answer
    prompt_logits: bool = False  # are logits of the prompt's tokens wanted, too?
    observers: Observer = field(default_factory=Observers)
    number: int = field(default_factory=count().__next__)  # its place in line

    def __post_init__(self) -> None:
        self.prompt = list(self.prompt)  # a copy: the caller's list may change
        self.answers = [Sequence(self.prompt)]
        # How many tokens of a sequence are computed at most: all but the last.
        self.max_computed = len(self.prompt) + self.max_new_tokens - 1

    @property
    def sequences(self) -> list[Sequence]:
        """All sequences that may hold blocks: answers and drafts."""
        return self.answers + self.drafts if self.drafts else self.answers

    @property
    def live(self) -> list[Sequence]:
        """The sequences that have not ended yet."""
        sequences = self.answers + self.drafts if self.drafts else self.answers
        return [seq for seq in sequences if seq.finish_reason is None]

    @property
    def is_live(self) -> bool:
        """Has any of its sequences not ended yet?"""
        return self.answers[0].finish_reason is None or bool(self.live)

    def end(self, finish_reason: str) -> None:
        """Mark all its sequences as ended."""
        for sequence in self.live:
            sequence.end(finish_reason)

    def fail(self, error: str) -> None:
        """End it without an answer, for this reason; other requests go on."""
        self.error = error
        self.end("error")

    def start(self, table: BlockTable) -> None:
        """Give it this table: it computes the tokens after those in the table."""
        self.live[0].table = table
        if not self.num_restarts:
            self.num_cached_tokens = min(table.num_tokens, len(self.prompt))

    @property
    def wants_prompt_logits(self) -> bool:
        """Are logits of its prompt still wanted? Not after the first new token."""
        return self.prompt_logits and not self.answers[0].num_new

    @property
    def is_prefilling(self) -> bool:
        """Must a living sequence still compute tokens of its prefill?"""
        return any(seq.num_computed < seq.num_prefill_tokens for seq in self.live)

    def blocks_at_most(self, block_size: int) -> int:
        """The most blocks that it can come to hold at one time, by its strategy."""
        return self.strategy.blocks_at_most(self, block_size)

    def blocks_to_come(self, block_size: int) -> int:
        """How many of `blocks_at_most` its living sequences do not hold yet."""
        tables = [seq.table.block_ids for seq in self.live if seq.table is not None]
        held = len(tables[0]) if len(tables) == 1 else len(set().union(*tables))
        return self.blocks_at_most(block_size) - held

    @property
    def holds_blocks(self) -> bool:
        """Does any of its sequences hold blocks, even if it has just ended?"""
        return any(sequence.table is not None for sequence in self.sequences)

    def fork(self, parent: Sequence, is_draft: bool = False) -> Sequence:
        """Add an answer, or a draft, with the same past as `parent`, and return it."""
        child = parent.fork()
        (self.drafts if is_draft else self.answers).append(child)
        self.observers.forked(parent, child)
        return child
