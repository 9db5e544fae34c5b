"""Lesson 2: one sequence being generated; lesson 4: its forks (paper, section 5.2)."""

from minipaged.memory.block_table import BlockTable


class Sequence:
    """Prompt and generated tokens, with the table of the blocks of their K and V.

    `num_computed` of its tokens have room in the table: at first those found cached;
    once prefilled, between steps, all but the last. A fork is made while all have room.

    Source: PagedAttention paper, section 5.2.
    """

    def __init__(self, prompt: list[int], table: BlockTable | None = None):
        """Start with the prompt; a fork's `table` has room for it already."""
        self.tokens = list(prompt)
        self.num_prompt_tokens = len(prompt)
        self.num_prefill_tokens = len(prompt)  # known when it started, or started again
        self.num_pending = 0  # chosen, unread: counted by callers that plan ahead
        self.table = table  # None: it has not started, or its blocks are given back
        self.finish_reason: str | None = None  # or why it ended: "stop", "length", ...

    @property
    def num_computed(self) -> int:
        """Tokens with room in the table: computed, or about to be by a planned step."""
        return 0 if self.table is None else self.table.num_tokens

    @property
    def num_tokens(self) -> int:
        """All its tokens, those included that are chosen and not read yet."""
        return len(self.tokens) + self.num_pending

    @property
    def num_uncomputed(self) -> int:
        """Tokens without room in the table: neither computed nor planned."""
        return self.num_tokens - self.num_computed

    @property
    def num_new(self) -> int:
        """How many tokens were generated so far."""
        return len(self.tokens) - self.num_prompt_tokens

    @property
    def new_tokens(self) -> list[int]:
        """What was generated so far."""
        return self.tokens[self.num_prompt_tokens :]

    def append(self, token: int) -> None:
        """Add a generated token. Its block is found by the next step, not here."""
        self.tokens.append(token)
        self.num_pending -= self.num_pending > 0

    def fork(self) -> "Sequence":
        """A second sequence with the same past, whose blocks are shared, not copied."""
        child = Sequence(self.tokens, self.table.fork())
        child.num_prompt_tokens = self.num_prompt_tokens
        return child

    def end(self, finish_reason: str) -> None:
        """Nothing more is wanted of it. Its blocks are given back by the scheduler."""
        self.finish_reason = finish_reason

    def free(self) -> None:
        """Give the blocks back; the tokens stay readable."""
        if self.table is not None:
            self.table.free()
            self.table = None
