"""Lesson 2: a prompt, what it may take, and the sequences that answer it."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.observer import Observer, Observers
from minipaged.scheduling.sequence import Sequence
from minipaged.scheduling.turns import Turns


@dataclass(eq=False)
class Request:
    """One prompt on its way through the engine, as scheduling sees it."""

    prompt: list[int]
    max_new_tokens: int
    # Says what it computes next; `decoding.Strategy` chooses its tokens, too.
    strategy: Turns = field(default_factory=Turns)
    num_parallel: int = 1  # how many sequences may grow at one time: samples or beams
    drops_sequences: bool = False  # for better ones, before they have ended: beams
    salt: bytes = b""  # cached blocks: for equal salts
    answers: list[Sequence] = field(init=False)  # as they are returned; at first one
    # They hold blocks as well, and are no answers: guesses at how one goes on, say.
    drafts: list[Sequence] = field(default_factory=list, init=False)
    num_cached_tokens: int = 0  # of the prompt, at first
    num_restarts: int = 0  # appendix B
    swapped: Any = None  # where K and V lie (appendix B)
    error: str | None = None  # why it has no answer, and never will have
    scores_prompt: bool = False  # are logits of the prompt's tokens wanted, too?
    observers: Observer = field(default_factory=Observers)
    number: int = field(default_factory=count().__next__)  # its place in line

    def __post_init__(self) -> None:
        self.prompt = list(self.prompt)  # a chat's history, for instance, grows on
        self.answers = [Sequence(self.prompt)]
        # The most tokens of a sequence that are computed: all but the last.
        self.max_computed = len(self.prompt) + self.max_new_tokens - 1

    @property
    def sequences(self) -> list[Sequence]:
        """All that may hold blocks: its answers, and its drafts."""
        return self.answers + self.drafts if self.drafts else self.answers

    @property
    def live(self) -> list[Sequence]:
        """The sequences that have not ended yet."""
        return [seq for seq in self.sequences if seq.finish_reason is None]

    def end(self, finish_reason: str) -> None:
        """Nothing more is wanted of any of its sequences."""
        for sequence in self.live:
            sequence.end(finish_reason)

    def fail(self, error: str) -> None:
        """It has no answer, for this reason; others go on."""
        self.error = error
        self.end("error")

    def start(self, table: BlockTable) -> None:
        """It goes on from the cached blocks of this table, if any."""
        self.live[0].table = table
        if not self.num_restarts:
            self.num_cached_tokens = min(table.num_tokens, len(self.prompt))

    @property
    def is_scored(self) -> bool:
        """Are logits of its prompt's tokens wanted, as long as it has said nothing?"""
        return self.scores_prompt and not self.answers[0].num_new

    @property
    def is_prefilling(self) -> bool:
        """Has a living sequence still to compute some of what it started with?"""
        return any(one.num_computed < one.num_prefill_tokens for one in self.live)

    def blocks_at_most(self, block_size: int) -> int:
        """The most blocks that it can come to hold at one time: its strategy knows."""
        return self.strategy.blocks_at_most(self, block_size)

    def blocks_to_come(self, block_size: int) -> int:
        """How many of these its living sequences do not hold yet."""
        tables = [one.table.block_ids for one in self.live if one.table is not None]
        held = len(tables[0]) if len(tables) == 1 else len(set().union(*tables))
        return self.blocks_at_most(block_size) - held

    @property
    def holds_blocks(self) -> bool:
        """Is any of its sequences on blocks, be it one that has just ended?"""
        return any(one.table is not None for one in self.sequences)

    def fork(self, parent: Sequence, is_draft: bool = False) -> Sequence:
        """One sequence more, with the same past as `parent`; among ours at once."""
        child = parent.fork()
        (self.drafts if is_draft else self.answers).append(child)
        self.observers.forked(parent, child)
        return child
