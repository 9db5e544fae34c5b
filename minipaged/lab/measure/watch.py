"""Lab: what a run of generate computes and holds, forward by forward."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan, Work


@dataclass(frozen=True)
class Moment:
    """One forward: what it computes, and the blocks behind it."""

    num_tokens: int  # computed, of all sequences together
    num_sequences: int
    num_blocks: int  # different blocks in the sequences' tables
    num_unshared: int  # what they would hold if nobody shared
    num_copies: int  # blocks copied before this forward wrote
    works: tuple[Work, ...] = field(default=(), repr=False)  # who computes what


class _Watch(Observer):
    """Notes a Moment for every plan."""

    def __init__(self):
        self.moments: list[Moment] = []

    def planned(self, plan: Plan) -> None:
        """Note what is computed next, and what is held for it."""
        held = [id_ for work in plan.works for id_ in work.sequence.table.block_ids]
        self.moments.append(
            Moment(
                num_tokens=plan.num_tokens,
                num_sequences=len(plan.works),
                num_blocks=len(set(held)),
                num_unshared=len(held),
                num_copies=len(plan.copies),
                works=tuple(plan.works),
            )
        )


@contextmanager
def watch(paged: PagedModel) -> Iterator[list[Moment]]:
    """Note a Moment for every forward of `generate` inside the `with` block.

    Nothing is noted outside of it, so it costs nothing there. Watched twice, each
    `with` has a list of its own.
    """
    watcher = _Watch()
    paged.observers.append(watcher)
    try:
        yield watcher.moments
    finally:
        paged.observers.remove(watcher)


def saving(moments: list[Moment]) -> float:
    """Blocks saved by sharing, as a share of those without it (paper, figure 15)."""
    unshared = sum(moment.num_unshared for moment in moments)
    return 1 - sum(moment.num_blocks for moment in moments) / unshared
