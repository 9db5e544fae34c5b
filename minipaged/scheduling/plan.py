"""Lesson 2: what one step computes."""

from collections.abc import Sequence as Rows
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request
    from minipaged.scheduling.sequence import Sequence


class Work(NamedTuple):
    """Tokens of a sequence that a step computes: a prompt, a part of it, or one token.

    Logits are wanted of the last `num_logits` tokens. For example, `start=8`, `stop=12`
    and `num_logits=1`: compute positions 8 to 11, and choose a token by 11's logits.
    """

    request: "Request"
    sequence: "Sequence"
    start: int  # positions start to stop - 1
    stop: int
    num_logits: int

    @property
    def num_tokens(self) -> int:
        """How many tokens are computed."""
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Plan:
    """One step: copy these blocks, (source, copy) each, then compute these works."""

    works: Rows[Work]
    copies: Rows[tuple[int, int]] = ()

    @property
    def sequences(self) -> "Rows[Sequence]":
        """The sequences that it computes, and all others that their requests have now.

        A beam that was dropped since is computed, but its request has it no longer.
        """
        computed = [work.sequence for work in self.works]
        of_requests = [work.request.sequences for work in self.works]
        return list(dict.fromkeys(chain(computed, *of_requests)))

    @property
    def num_tokens(self) -> int:
        """How many tokens it computes, over all sequences."""
        return sum([work.stop - work.start for work in self.works])
