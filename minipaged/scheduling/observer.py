"""Lesson 2: observers of a run, and what they are told, when."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import isfunction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache
    from minipaged.scheduling.plan import Plan, Work
    from minipaged.scheduling.request import Request
    from minipaged.scheduling.sequence import Sequence


class Observer:
    """Is told what happens on a PagedModel, while the model's `observers` include it.

    `paged.observers.append(observer)` adds it, and `.remove(observer)` takes it out.

    Override the methods that you need; by default they do nothing. An observer looks
    and changes nothing. If it raises an exception, the run ends.
    """

    def save_counts(self) -> Any:
        """Return what `restore_counts` needs to forget all events from now on.

        For observers that count. It is called as a step begins: a step that raises is
        undone, and its events come again.
        """

    def restore_counts(self, saved: Any) -> None:
        """Set the counts to what `save_counts` returned. It may be called twice."""

    def started(self, prefix_cache: "PrefixCache | None") -> None:
        """A run of `generate` begins, over this prefix cache, if any."""

    def admitted(self, request: "Request") -> None:
        """The request has a table, with the cached blocks of its prompt."""

    def preempted(self, request: "Request") -> None:
        """All its blocks were taken; `request.swapped` is None, or where they lie."""

    def planned(self, plan: "Plan") -> None:
        """Tables have grown for this plan; it is computed next."""

    def computed(self, batch: Any, logits: Any) -> None:
        """K and V of this RaggedBatch are in the cache; its logits are a tensor.

        The next step overwrites batch and logits: copy what you keep.
        """

    def forked(self, parent: "Sequence", child: "Sequence") -> None:
        """The child shares all of the parent's blocks."""

    def chosen(self, plan: "Plan") -> None:
        """Tokens were appended, sequences forked, and marked as ended."""

    def verified(
        self, sequence: "Sequence", num_guesses: int, num_accepted: int
    ) -> None:
        """Of so many guesses at its next tokens, so many are right, and are kept.

        With several branches, `num_guesses` counts those of all of them.
        """

    def published(self, work: "Work") -> None:
        """Blocks that this work has filled can be found by others."""

    def freed(self, sequence: "Sequence") -> None:
        """The sequence has ended, and its blocks were given back."""

    def committed(self, plan: "Plan") -> None:
        """The step is over: full blocks are published, ended sequences are freed."""


def check_observers(observers: Iterable[Any]) -> list[Observer]:
    """A list of them; raise TypeError if anything else is among them."""
    if not isinstance(observers, Iterable):
        raise TypeError(f"observers must be a list of them, got {observers!r:.60}")
    found = list(observers)
    for observer in found:
        if not isinstance(observer, Observer):
            raise TypeError(
                "observers must be of mp.Observer or its subclasses, got "
                f"{observer!r:.60}"
            )
    return found


class Observers(list[Observer], Observer):
    """Several observers as one: it tells each of them what it is told, in order."""

    def save_counts(self) -> list[tuple[Observer, Any]]:
        """Each observer, with what it has saved."""
        return [(observer, observer.save_counts()) for observer in self]

    def restore_counts(self, saved: list[tuple[Observer, Any]]) -> None:
        """Give each observer what it has saved."""
        for observer, counts in saved:
            observer.restore_counts(counts)


def _tells_each(event: Callable[..., None]) -> Callable[..., None]:
    @wraps(event)
    def tell(observers: Observers, *arguments: Any) -> None:
        for observer in observers:
            getattr(observer, event.__name__)(*arguments)

    return tell


for _name, _event in vars(Observer).items():
    if isfunction(_event) and _name not in vars(Observers):
        setattr(Observers, _name, _tells_each(_event))
