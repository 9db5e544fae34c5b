"""Lesson 2: who may watch a run, and what is told when."""

from collections.abc import Callable
from functools import wraps
from inspect import isfunction
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

    def save_counts(self) -> Any:
        """What `restore_counts` needs to forget all that is told from now on.

        For observers that count. It is called as a step begins: if the step raises, it
        is undone, and all is told anew.
        """

    def restore_counts(self, saved: Any) -> None:
        """Be as you were when this was saved. It may be called twice."""

    def started(self, prefix_cache: "PrefixCache | None") -> None:
        """A run of `generate` begins, over this prefix cache, if any."""

    def admitted(self, request: "Request") -> None:
        """The request has a table, with what was cached of its prompt."""

    def preempted(self, request: "Request") -> None:
        """All its blocks were taken; `request.swapped` if they lie somewhere else."""

    def planned(self, plan: "Plan") -> None:
        """Tables have grown for this plan; it is computed next."""

    def computed(self, batch: Any, logits: Any) -> None:
        """K and V of this RaggedBatch are in the cache; its logits are a tensor.

        Both hold until the next step: copy what is to be kept.
        """

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
    """Several observers as one: whatever it is told, each of them is told, in order."""

    def save_counts(self) -> list[tuple[Observer, Any]]:
        """What each of them has saved."""
        return [(each, each.save_counts()) for each in self]

    def restore_counts(self, saved: list[tuple[Observer, Any]]) -> None:
        """Each of them is as it was."""
        for each, own in saved:
            each.restore_counts(own)


def _tells_each(event: Callable[..., None]) -> Callable[..., None]:
    @wraps(event)
    def tell(observers: Observers, *arguments: Any) -> None:
        for each in observers:
            getattr(each, event.__name__)(*arguments)

    return tell


for _name, _event in vars(Observer).items():
    if isfunction(_event) and _name not in vars(Observers):
        setattr(Observers, _name, _tells_each(_event))
