"""Lesson 2: one sequence being generated; lesson 4: its forks (paper, section 5.2)."""

from minipaged.memory.block_table import BlockTable


class Sequence:
    """Prompt and generated tokens, with the table of the blocks of their K and V.

    The last token appended has no K and V yet: the next step computes them. So
    `len(tokens) - table.num_tokens` tokens wait to be computed: the whole prompt at
    first, one token while decoding.

    `append`, `fork` and `free` are all that sampling and beam search need.
    Source: PagedAttention paper, section 5.2.
    """

    def __init__(self, prompt: list[int], table: BlockTable):
        """Start with the prompt; `table` may hold a cached prefix of it already."""
        self.tokens = list(prompt)
        self.num_prompt_tokens = len(prompt)
        self.table = table
        self.finish_reason: str | None = None  # "stop" or "length" once it has ended

    @property
    def num_uncomputed(self) -> int:
        """Tokens whose K and V are still to be computed."""
        return len(self.tokens) - self.table.num_tokens

    @property
    def new_tokens(self) -> list[int]:
        """What was generated so far."""
        return self.tokens[self.num_prompt_tokens :]

    def append(self, token: int) -> None:
        """Add a generated token. Its block is found by the next step, not here."""
        self.tokens.append(token)

    def fork(self) -> "Sequence":
        """A second sequence with the same past, whose blocks are shared, not copied."""
        child = Sequence(self.tokens, self.table.fork())
        child.num_prompt_tokens = self.num_prompt_tokens
        return child

    def free(self, finish_reason: str = "freed") -> None:
        """Give the blocks back; the tokens stay readable."""
        self.table.free()
        self.finish_reason = finish_reason
