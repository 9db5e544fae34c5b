"""Lab: who waits, who is in the CPU's memory, and who runs, at one moment."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from minipaged.lab.pool.snapshot import FrozenTable
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan, Work
from minipaged.scheduling.preemption import PreemptingScheduler, blocks_soon
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence


class Span(NamedTuple):
    """Tokens of a sequence that a step computes: positions start to stop - 1."""

    name: str
    start: int
    stop: int
    num_prefill: int  # positions from here on are decoded, one in a step
    num_again: int  # of these tokens were computed before, and lost


@dataclass(frozen=True)
class Card:
    """A request as its lane shows it."""

    names: tuple[str, ...]  # of its living sequences, in the order of their forks
    num_prompt: int
    num_tokens: int  # of all its sequences
    num_computed: int  # of them lie in blocks of the pool, those of this step included
    num_lost: int  # of them did, and lie nowhere now
    num_restarts: int
    place: int = 0  # in line; 0 is the first
    num_wanted: int = 0  # blocks that it needs to go on
    spans: tuple[Span, ...] = ()  # what this step computes
    tables: Mapping[str, FrozenTable] | None = None  # of places in the CPU's memory

    @property
    def num_places(self) -> int:
        """Blocks in the CPU's memory; those that several sequences share count once."""
        tables = self.tables or {}
        return len({place for one in tables.values() for place in one.block_ids})


@dataclass(frozen=True)
class Lanes:
    """The requests of an engine, by what becomes of them in this step."""

    waiting: tuple[Card, ...]  # without K and V; first in line first
    swapped: tuple[Card, ...]  # whose K and V lie in the CPU's memory; in line as well
    running: tuple[Card, ...]
    num_places: int | None  # blocks in the CPU's memory; None: there is no such lane

    @classmethod
    def take(
        cls,
        scheduler: PreemptingScheduler,
        names: Mapping[Sequence, str],
        reached: "Reached",
        plan: Plan | None = None,
        shows: Callable[[Request], bool] = lambda request: True,
    ) -> "Lanes":
        """Look at the scheduler; nothing of it is kept.

        plan: the step that is computed next, if there is one.
        shows: which of all these are there already.
        """
        size, works = scheduler.pool.block_size, plan.works if plan else ()
        line = [one for one in scheduler.waiting if shows(one)]
        cards = [
            _card(one, names, reached, place=place, num_wanted=blocks_soon(one, size))
            for place, one in enumerate(line)
        ]
        running = [
            _card(one, names, reached, spans=_spans(one, works, names, reached))
            for one in scheduler.running
            if shows(one)
        ]
        space = scheduler.swap_space
        return cls(
            tuple(card for card in cards if card.tables is None),
            tuple(card for card in cards if card.tables is not None),
            tuple(running),
            None if space is None else space.pool.num_blocks,
        )

    @property
    def names(self) -> frozenset[str]:
        """Of all requests in all lanes."""
        cards = chain(self.waiting, self.swapped, self.running)
        return frozenset(chain.from_iterable(card.names for card in cards))


class Reached(Observer):
    """How far each sequence was ever computed: what is lost of that comes again."""

    def __init__(self) -> None:
        """Nothing was computed yet."""
        self._ends: dict[Sequence, int] = {}

    def of(self, sequence: Sequence) -> int:
        """So many of its first tokens were computed before this step."""
        return self._ends.get(sequence, 0)

    def forked(self, parent: Sequence, child: Sequence) -> None:
        """It begins with what its parent has."""
        self._ends[child] = child.num_computed

    def committed(self, plan: Plan) -> None:
        """These are computed."""
        for work in plan.works:
            self._ends[work.sequence] = max(self.of(work.sequence), work.stop)


class Room(NamedTuple):
    """The most that the lanes of several moments hold: so much place is kept."""

    waiting: int = 0
    swapped: int = 0
    running: int = 0
    boxes: int = 0  # in a card of the CPU's lane

    @classmethod
    def of(cls, moments: Iterable[Lanes | None]) -> "Room":
        """For all of these to be drawn in one place."""
        room = cls()
        for lanes in filter(None, moments):
            boxes = max((card.num_places for card in lanes.swapped), default=0)
            sizes = len(lanes.waiting), len(lanes.swapped), len(lanes.running), boxes
            room = cls(*map(max, room, sizes))
        return room


def _card(
    request: Request, names: Mapping[Sequence, str], reached: Reached, **more: object
) -> Card:
    live = [one for one in request.live if one in names]
    lost = [one for one in live if one.table is None and request.swapped is None]
    tables = None
    if request.swapped is not None:
        tables = {
            names[sequence]: FrozenTable(tuple(places), num_tokens)
            for sequence, places, num_tokens in zip(*request.swapped, strict=True)
        }
    return Card(
        names=tuple(sorted((names[one] for one in live), key=lambda n: (len(n), n))),
        num_prompt=len(request.prompt),
        num_tokens=sum(one.num_tokens for one in live),
        num_computed=sum(one.num_computed for one in live),
        num_lost=sum(map(reached.of, lost)),
        num_restarts=request.num_restarts,
        tables=tables,
        **more,
    )


def _spans(
    request: Request,
    works: Iterable[Work],
    names: Mapping[Sequence, str],
    reached: Reached,
) -> tuple[Span, ...]:
    return tuple(
        Span(
            names[work.sequence],
            work.start,
            work.stop,
            work.sequence.num_prefill_tokens,
            max(0, min(work.stop, reached.of(work.sequence)) - work.start),
        )
        for work in works
        if work.request is request
    )
