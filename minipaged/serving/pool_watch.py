"""Lab: what a server's pool holds, step by step, while somebody watches."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

from minipaged.engine.engine import Engine
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request

KEPT = 200  # states to step back to
PAUSE = 0.1  # seconds between two messages to a page
_encode = json.JSONEncoder(separators=(",", ":")).encode


class State(NamedTuple):
    """The pool after a step."""

    totals: tuple[int, ...]  # see TOTALS
    num_used: int  # blocks that have a holder
    num_cached: int  # free blocks whose content can be found
    # Of each sequence that runs: its request, which one it is there, its tokens, its
    # blocks. In lists, which share what has not changed: many objects for each step
    # would keep Python's garbage collector busy.
    requests: list[Request]
    numbers: list[int]
    lengths: list[int]
    blocks: list[tuple[int, ...]]
    waiting: tuple[tuple[Request, int], ...]  # in order; and how often it lost blocks

    @property
    def sequences(self) -> Iterator[tuple[Request, int, int, tuple[int, ...]]]:
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


class PoolWatch(Observer):
    """Keeps the last states of an engine's pool, and tells them to those who watch.

    While nobody watches, it does nothing. States are kept after each step, in the
    engine's thread, and when requests come or leave between steps.

    Attributes: num_watching; is_over, asked between messages: set it to end them as a
    server stops.
    """

    def __init__(self, engine: Engine):
        """For one engine, which it observes from now on."""
        self._engine = engine
        self._states: deque[State] = deque(maxlen=KEPT)
        self.num_watching = 0
        self.is_over: Callable[[], bool] = lambda: False
        engine.scheduler.observers.append(self)

    def committed(self, plan: Plan) -> None:
        """A step is over."""
        if self.num_watching:
            self._states.append(self._state())

    async def messages(self) -> AsyncIterator[str]:
        """The latest state, whenever it is another one, at most ten times a second."""
        before: State | None = None
        with self._watching():
            while not self.is_over():
                self._look()
                if self._states and (latest := self._states[-1]) is not before:
                    yield _encode(message_of(latest, before))
                    before = latest
                await asyncio.sleep(PAUSE)

    def history(self) -> str:
        """The states that are kept, the oldest first, each as a change of the last."""
        states = [None, *self._states]
        return _encode([message_of(now, before) for before, now in pairwise(states)])

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self.num_watching += 1
        try:
            yield
        finally:
            self.num_watching -= 1
            if not self.num_watching:
                self._states.clear()

    def _look(self) -> None:
        """Keep the state if it has changed without a step, and no step is made now."""
        lock = self._engine.paged.alone()
        if lock.acquire(blocking=False):
            try:
                state = self._state()
            finally:
                lock.release()
            if not self._states or state != self._states[-1]:
                self._states.append(state)

    def _state(self) -> State:
        scheduler, stats = self._engine.scheduler, self._engine.stats
        pool, prefix_cache = scheduler.pool, scheduler.prefix_cache
        before = self._states[-1].blocks if self._states else []
        requests, numbers, lengths, blocks = [], [], [], []
        for request in scheduler.running:
            for number, sequence in enumerate(request.sequences):
                if (table := sequence.table) is None:
                    continue
                block_ids = (*table.block_ids,)
                at = len(blocks)
                if at < len(before) and before[at] == block_ids:
                    block_ids = before[at]
                requests.append(request)
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
            tuple([(request, request.num_restarts) for request in scheduler.waiting]),
        )


def message_of(state: State, before: State | None) -> dict[str, Any]:
    """A state as JSON. Of tables that were there before, what was added to them.

    A table is [request, sequence, prompt's tokens, found tokens, tokens, blocks that
    stay, new blocks]. For example, [7, 0, 40, 32, 49, 3, [12]]: request 7 had a prompt
    of 40 tokens, of which 32 were found. It now has 49 tokens in 4 blocks. The first
    three are those of `before`, and the fourth is block 12.
    """
    was = () if before is None else before.sequences
    known = {(request, number): block_ids for request, number, _, block_ids in was}
    tables = []
    for request, number, num_tokens, block_ids in state.sequences:
        old = known.get((request, number), ())
        kept = len(old) if block_ids[: len(old)] == old else 0
        about = request.number, number, len(request.prompt), request.num_cached_tokens
        tables.append([*about, num_tokens, kept, block_ids[kept:]])
    return {
        **dict(zip(TOTALS, state.totals, strict=True)),
        "used": state.num_used,
        "cached": state.num_cached,
        "tables": tables,
        "waiting": [
            [request.number, len(request.prompt), num_restarts]
            for request, num_restarts in state.waiting
        ],
    }
