"""Lesson 2: who may watch a run, and what is told when."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache
    from minipaged.scheduling.plan import Plan, Work
    from minipaged.scheduling.request import Request
    from minipaged.scheduling.sequence import Sequence


class Observer:
    """Is told what happens on a PagedModel while it is among its `observers`.

    Override what you want to see; by default nothing is done. An observer looks and
    changes nothing. What it raises ends the run, as any exception does.
    """

    def started(self, prefix_cache: "PrefixCache | None") -> None:
        """A run of `generate` begins, over this prefix cache, if any."""

    def admitted(self, request: "Request") -> None:
        """The request has a table, with what was cached of its prompt."""

    def planned(self, plan: "Plan") -> None:
        """Tables have grown for this plan; it is computed next."""

    def computed(self, batch: Any, logits: Any) -> None:
        """K and V of this RaggedBatch are in the cache; its logits are a tensor."""

    def forked(self, parent: "Sequence", child: "Sequence") -> None:
        """The child shares all of the parent's blocks."""

    def chosen(self, plan: "Plan") -> None:
        """Tokens were appended, sequences forked, and marked as ended."""

    def published(self, work: "Work") -> None:
        """Blocks that this work has filled can be found by others."""

    def freed(self, sequence: "Sequence") -> None:
        """The sequence has ended, and its blocks are given back."""

    def committed(self, plan: "Plan") -> None:
        """The step is over: what it filled is published, what has ended is freed."""


class Observers(list[Observer], Observer):
    """Several observers as one: each of them is told, in order."""

    def started(self, prefix_cache: "PrefixCache | None") -> None:
        """Tell each."""
        for each in self:
            each.started(prefix_cache)

    def admitted(self, request: "Request") -> None:
        """Tell each."""
        for each in self:
            each.admitted(request)

    def planned(self, plan: "Plan") -> None:
        """Tell each."""
        for each in self:
            each.planned(plan)

    def computed(self, batch: Any, logits: Any) -> None:
        """Tell each."""
        for each in self:
            each.computed(batch, logits)

    def forked(self, parent: "Sequence", child: "Sequence") -> None:
        """Tell each."""
        for each in self:
            each.forked(parent, child)

    def chosen(self, plan: "Plan") -> None:
        """Tell each."""
        for each in self:
            each.chosen(plan)

    def published(self, work: "Work") -> None:
        """Tell each."""
        for each in self:
            each.published(work)

    def freed(self, sequence: "Sequence") -> None:
        """Tell each."""
        for each in self:
            each.freed(sequence)

    def committed(self, plan: "Plan") -> None:
        """Tell each."""
        for each in self:
            each.committed(plan)
