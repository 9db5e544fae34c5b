"""Lesson 2: what one step computes."""

from collections.abc import Sequence as Rows
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request
    from minipaged.scheduling.sequence import Sequence


class Work(NamedTuple):
    """Tokens of one sequence that a step computes: a prompt, a part of one, or one.

    Logits are wanted of the last `num_logits`.
    """

    request: "Request"
    sequence: "Sequence"
    start: int  # positions start to stop - 1
    stop: int
    num_logits: int

    @property
    def num_tokens(self) -> int:
        """How many tokens these are."""
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Plan:
    """One step: who computes what, once these blocks are copied (source, copy)."""

    works: Rows[Work]
    copies: Rows[tuple[int, int]] = ()

    @property
    def sequences(self) -> "Rows[Sequence]":
        """All that its requests have now, and whichever it computes but was dropped."""
        own = [work.sequence for work in self.works]
        theirs = [work.request.sequences for work in self.works]
        return list(dict.fromkeys(chain(own, *theirs)))

    @property
    def num_tokens(self) -> int:
        """How many tokens it computes, of all sequences together."""
        return sum([work.stop - work.start for work in self.works])
