"""Lesson 2: what one step computes."""

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request
    from minipaged.scheduling.sequence import Sequence


class Work(NamedTuple):
    """Tokens of a sequence that a step computes: of its prefill, or its newest ones.

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

    @property
    def num_recomputed(self) -> int:
        """How many of them were computed before, and lost.

        A preemption or an interrupted step loses them. This is an upper bound: of
        a prompt that was lost half-way, all tokens count.
        """
        if not self.request.num_restarts:
            return 0
        return max(0, min(self.stop, self.sequence.num_prefill_tokens) - self.start)


@dataclass(frozen=True, eq=False)
class Plan:
    """One step: first copy these blocks, then compute these works."""

    works: list[Work]
    copies: list[tuple[int, int]] = field(default_factory=list)  # (source, copy)

    @property
    def sequences(self) -> "list[Sequence]":
        """The sequences that it computes, and all others that their requests have now.

        Asked after the step, it includes the forks that the step made, and a beam that
        the step computed and dropped.
        """
        computed = [work.sequence for work in self.works]
        of_requests = [work.request.sequences for work in self.works]
        return list(dict.fromkeys(chain(computed, *of_requests)))

    @property
    def num_tokens(self) -> int:
        """How many tokens it computes, over all sequences."""
        return sum([work.stop - work.start for work in self.works])
