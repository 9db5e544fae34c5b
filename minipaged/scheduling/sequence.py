"""Lesson 2: one sequence being generated; lesson 4: its forks (paper, section 5.2)."""

from minipaged.memory.block_table import BlockTable


class Sequence:
    """Prompt and generated tokens, with the table of the blocks of their K and V.

    `num_computed` counts the tokens with room in the table: at first those found in a
    cache. Between steps, after the prefill, only the last token and guesses have no
    room yet. A fork is made when all have room: before a new token is appended.

    Source: PagedAttention paper, section 5.2.
    """

    def __init__(self, prompt: list[int], table: BlockTable | None = None):
        """Start with the prompt; a fork's `table` has room for it already."""
        self.tokens = list(prompt)
        self.num_prompt_tokens = len(prompt)
        # Those that its prefill computes; after a restart, generated ones too.
        self.num_prefill_tokens = len(prompt)
        # Chosen on the device, and not read yet; with the guesses after them.
        self.num_pending = 0
        self.guesses_from: int | None = None  # tokens from this position on are guesses
        self.table = table  # None: it has not started, or its blocks were given back
        self.finish_reason: str | None = None  # why it ended: "stop", "length", ...

    @property
    def num_computed(self) -> int:
        """Tokens with room in the table: computed, or about to be by a planned step."""
        return 0 if self.table is None else self.table.num_tokens

    @property
    def num_tokens(self) -> int:
        """How many tokens it has, including those that are chosen but not read yet."""
        return len(self.tokens) + self.num_pending

    @property
    def num_uncomputed(self) -> int:
        """Tokens without room in the table: neither computed nor planned."""
        return self.num_tokens - self.num_computed

    @property
    def num_known(self) -> int:
        """How many tokens come before its guesses. These tokens never change."""
        return len(self.tokens) if self.guesses_from is None else self.guesses_from

    @property
    def num_new(self) -> int:
        """How many tokens it has generated so far."""
        end = len(self.tokens) if self.guesses_from is None else self.guesses_from
        return end - self.num_prompt_tokens

    @property
    def new_tokens(self) -> list[int]:
        """The tokens that it has generated so far."""
        return self.tokens[self.num_prompt_tokens : self.num_known]

    def append(self, token: int) -> None:
        """Add a generated token. The step that computes it finds a block for it."""
        self.tokens.append(token)
        self.num_pending -= self.num_pending > 0  # if it was pending, it is read now

    def guess(self, tokens: list[int]) -> None:
        """Append guesses, which may be wrong; a later step computes them."""
        self.guesses_from = self.num_known
        self.tokens += tokens

    def accept(self, count: int = 0) -> None:
        """Keep the first `count` guesses; drop the others, and their blocks.

        For example, the tokens are [7, 8, 9], all computed, and 8 and 9 are guesses.
        `accept(1)` leaves [7, 8], and room for two tokens in the table. If the next
        step is planned already, its tokens keep their room, a place further in front.
        """
        end = self.num_known + count
        num_wrong = min(len(self.tokens), self.num_computed) - end  # that have room
        del self.tokens[end:]  # a second `accept()` deletes nothing
        self.guesses_from = None
        if num_wrong > 0:
            self.table.truncate(self.table.num_tokens - num_wrong)

    def drop_from(self, stop: int) -> None:
        """Drop the tokens from this position on, which are guesses without room."""
        excess = self.num_tokens - stop
        if self.num_pending:
            self.num_pending -= excess
        elif excess > 0:
            del self.tokens[stop:]

    def fork(self) -> "Sequence":
        """A second sequence with the same past. Its blocks are shared, not copied."""
        child = Sequence(self.tokens, self.table.fork())
        child.num_prompt_tokens = self.num_prompt_tokens
        child.guesses_from = self.guesses_from
        return child

    def end(self, finish_reason: str) -> None:
        """Mark it as ended. The scheduler gives its blocks back."""
        self.finish_reason = finish_reason

    def free(self) -> None:
        """Give the blocks back; the tokens stay readable."""
        if self.table is not None:
            self.table.free()
            self.table = None
