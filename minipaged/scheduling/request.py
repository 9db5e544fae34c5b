"""Lesson 2: a prompt, what it may take, and the sequences that answer it."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.observer import Observer, Observers
from minipaged.scheduling.plan import Work
from minipaged.scheduling.sequence import Sequence


@dataclass(eq=False)
class Request:
    """One prompt on its way through the engine, as scheduling sees it."""

    prompt: list[int]
    max_new_tokens: int
    strategy: Any = None  # chooses its tokens (decoding.strategy.Strategy)
    num_parallel: int = 1  # how many sequences may grow at one time: samples or beams
    drops_sequences: bool = False  # for better ones, before they have ended: beams
    salt: bytes = b""  # cached blocks: for equal salts
    sequences: list[Sequence] = field(init=False)  # as they are returned; at first one
    num_cached_tokens: int = 0  # of the prompt, at first
    num_restarts: int = 0  # appendix B
    swapped: Any = None  # where K and V lie (appendix B)
    error: str | None = None  # why it has no answer, and never will have
    scores_prompt: bool = False  # are logits of the prompt's tokens wanted, too?
    observers: Observer = field(default_factory=Observers)
    number: int = field(default_factory=count().__next__)  # its place in line

    def __post_init__(self) -> None:
        self.prompt = list(self.prompt)  # a chat's history, for instance, grows on
        self.sequences = [Sequence(self.prompt)]
        # The most tokens of a sequence that are computed: all but the last.
        self.max_computed = len(self.prompt) + self.max_new_tokens - 1

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
        return self.scores_prompt and not self.sequences[0].num_new

    @property
    def is_prefilling(self) -> bool:
        """Has a living sequence still to compute some of what it started with?"""
        return any(one.num_computed < one.num_prefill_tokens for one in self.live)

    def next_decodes(self, limit: float) -> list[Work]:
        """One token of each living sequence that has one to compute.

        Nothing while prefilling, and if `limit` is less than their number.
        """
        works = []
        if len(self.sequences) > 1 and self.is_prefilling:
            from minipaged.scheduling.restart import share_prompt  # after a restart

            share_prompt(self)
        for sequence in self.sequences:
            if sequence.finish_reason is not None:
                continue
            start = sequence.num_computed
            if start < sequence.num_prefill_tokens:
                return []
            # The last one allowed is never computed, read or not.
            if start < sequence.num_tokens and start < self.max_computed:
                works.append(Work(self, sequence, start, start + 1, 1))
        return works if len(works) <= limit else []

    def next_prefills(self, limit: float) -> list[Work]:
        """What is still to be prefilled, at most `limit` tokens of it."""
        if not self.is_prefilling or not limit:
            return []
        if len(self.live) > 1:
            from minipaged.scheduling.restart import chunks_of_group  # after a restart

            return chunks_of_group(self, limit)
        (sequence,) = self.live
        start, end = sequence.num_computed, sequence.num_prefill_tokens
        stop = min(end, start + limit)
        work = Work(self, sequence, start, stop, num_logits=int(stop == end))
        if self.is_scored:
            from minipaged.scheduling.prompt_logits import with_all_logits  # appendix A

            work = with_all_logits(work)
        return [work]

    def blocks_at_most(self, block_size: int) -> int:
        """The most blocks that this request can come to hold at one time.

        Its sequences share the blocks that the prompt fills; the rest is their own.
        Once all have been forked, only the living ones count.
        """
        has_forked = len(self.sequences) == self.num_parallel
        num_growing = len(self.live) if has_forked else self.num_parallel
        shared = len(self.prompt) // block_size
        own = -(-self.max_computed // block_size) - shared
        return shared + num_growing * own if num_growing else 0

    def blocks_to_come(self, block_size: int) -> int:
        """How many of these its living sequences do not hold yet."""
        tables = [one.table.block_ids for one in self.live if one.table is not None]
        held = len(tables[0]) if len(tables) == 1 else len(set().union(*tables))
        return self.blocks_at_most(block_size) - held

    @property
    def holds_blocks(self) -> bool:
        """Is any of its sequences on blocks, be it one that has just ended?"""
        return any(one.table is not None for one in self.sequences)

    def fork(self, parent: Sequence) -> Sequence:
        """One sequence more, with the same past as `parent`; among ours at once."""
        child = parent.fork()
        self.sequences.append(child)
        self.observers.forked(parent, child)
        return child
