"""Lab: what an engine's pool holds, step by step, while somebody watches."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from minipaged.engine.engine import Engine
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request

KEPT = 200  # states to step back to


class Known(NamedTuple):
    """A request, as a page knows it."""

    number: int
    num_prompt_tokens: int
    num_cached_tokens: int
    num_restarts: int  # how often it lost its blocks

    @classmethod
    def of(cls, request: Request) -> "Known":
        """As it is now."""
        cached, restarts = request.num_cached_tokens, request.num_restarts
        return cls(request.number, len(request.prompt), cached, restarts)


class State(NamedTuple):
    """The pool after a step."""

    totals: tuple[int, ...]  # see TOTALS
    num_used: int  # blocks that have a holder
    num_cached: int  # free blocks whose content can be found
    # Of each sequence that runs: its request, which one it is there, its tokens, its
    # blocks. In lists, which share what has not changed: many objects for each step
    # would keep Python's garbage collector busy.
    requests: list[Known]
    numbers: list[int]
    lengths: list[int]
    blocks: list[tuple[int, ...]]
    waiting: list[Known]  # in order

    @property
    def sequences(self) -> Iterator[tuple[Known, int, int, tuple[int, ...]]]:
        """Of each sequence that runs: what the four lists say."""
        return zip(self.requests, self.numbers, self.lengths, self.blocks, strict=True)


TOTALS = (
    "num_steps",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "num_copied_blocks",
    "num_preemptions",
)


class PoolStates(Observer):
    """Keeps the last states of an engine's pool, for a front that asks again and again.

    While nobody watches, it does nothing. States are kept after each step, and when
    requests have come or left between steps.
    """

    def __init__(self, engine: Engine):
        """For one engine, which it observes from now on; nobody watches yet."""
        self._engine = engine
        self._is_watched = False
        self._new: deque[State] = deque(maxlen=KEPT)  # since the last `take`
        self._last: State | None = None
        engine.scheduler.observers.append(self)

    def committed(self, plan: Plan) -> None:
        """A step is over."""
        if self._is_watched:
            self._keep(self._state())

    def take(self) -> list[State]:
        """All states since the last call; the first call begins to watch."""
        with self._engine.paged.alone():  # between steps, whoever makes them
            self._is_watched = True
            if (state := self._state()) != self._last:
                self._keep(state)
            taken = [*self._new]
            self._new.clear()
        return taken

    def forget(self) -> None:
        """Nobody watches any more."""
        self._is_watched, self._last = False, None
        self._new.clear()

    def _keep(self, state: State) -> None:
        self._new.append(state)
        self._last = state

    def _state(self) -> State:
        scheduler, stats = self._engine.scheduler, self._engine.stats
        pool, prefix_cache = scheduler.pool, scheduler.prefix_cache
        before = self._last
        known = {} if before is None else {one.number: one for one in before.requests}
        requests, numbers, lengths, blocks = [], [], [], []
        for request in scheduler.running:
            now = Known.of(request)
            if (was := known.get(now.number)) == now:
                now = was
            for number, sequence in enumerate(request.sequences):
                if (table := sequence.table) is None:
                    continue
                block_ids = (*table.block_ids,)
                at = len(blocks)
                if (
                    before
                    and at < len(before.blocks)
                    and before.blocks[at] == block_ids
                ):
                    block_ids = before.blocks[at]
                requests.append(now)
                numbers.append(number)
                lengths.append(table.num_tokens)
                blocks.append(block_ids)
        return State(
            tuple([getattr(stats, name) for name in TOTALS]),
            pool.num_blocks - pool.num_free,
            0 if prefix_cache is None else prefix_cache.num_findable,
            requests,
            numbers,
            lengths,
            blocks,
            [Known.of(request) for request in scheduler.waiting],
        )
