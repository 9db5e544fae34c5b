"""Lesson 2: what one step computes."""

from collections.abc import Sequence as Rows
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request
    from minipaged.scheduling.sequence import Sequence


class Work(NamedTuple):
    """Tokens of a sequence that a step computes: of its prompt, or its newest ones.

    The last `num_logits` of them get logits. For example, `start=8`, `stop=12` and
    `num_logits=1`: compute positions 8 to 11, and choose a token by the logits of 11.
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
    """One step: copy blocks, pairs (source, copy), then compute these works."""

    works: Rows[Work]
    copies: Rows[tuple[int, int]] = ()

    @property
    def sequences(self) -> "Rows[Sequence]":
        """The sequences that it computes, and all others that their requests have now.

        After the step, forks made in it are there. A beam that was dropped in it is
        there, too, because it was computed.
        """
        computed = [work.sequence for work in self.works]
        of_requests = [work.request.sequences for work in self.works]
        return list(dict.fromkeys(chain(computed, *of_requests)))

    @property
    def num_tokens(self) -> int:
        """How many tokens it computes, over all sequences."""
        return sum([work.stop - work.start for work in self.works])
