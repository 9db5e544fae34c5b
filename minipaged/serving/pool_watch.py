"""Lab: what a server's pool holds, told to those who watch."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from minipaged.serving.pool_states import KEPT, TOTALS, State

PAUSE = 0.1  # seconds between two messages to a page
_encode = json.JSONEncoder(separators=(",", ":")).encode


class PoolWatch:
    """Keeps the last states of an engine's pool, and tells them to those who watch.

    While nobody watches, it does nothing.

    Attributes: num_watching; is_over, asked between messages: set it to end them as a
    server stops.
    """

    def __init__(
        self, take: Callable[[], Awaitable[list[State]]], forget: Callable[[], None]
    ):
        """`take`: the new states. `forget`: nobody wants them any more."""
        self._take, self._forget = take, forget
        self._states: deque[State] = deque(maxlen=KEPT)
        self.num_watching = 0
        self.is_over: Callable[[], bool] = lambda: False

    async def messages(self) -> AsyncIterator[str]:
        """The latest state, whenever it is another one, at most ten times a second."""
        before: State | None = None
        with self._watching():
            while not self.is_over():
                self._states += await self._take()
                if self._states and (latest := self._states[-1]) is not before:
                    yield _encode(message_of(latest, before))
                    before = latest
                await asyncio.sleep(PAUSE)

    async def history(self) -> str:
        """The states that are kept, the oldest first, each as a change of the last."""
        if self.num_watching:
            self._states += await self._take()
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
                self._forget()


def message_of(state: State, before: State | None) -> dict[str, Any]:
    """A state as JSON. Of tables that were there before, what was added to them.

    A table is [request, sequence, prompt's tokens, found tokens, tokens, blocks that
    stay, new blocks]. For example, [7, 0, 40, 32, 49, 3, [12]]: request 7 had a prompt
    of 40 tokens, of which 32 were found. It now has 49 tokens in 4 blocks. The first
    three are those of `before`, and the fourth is block 12.
    """
    was = () if before is None else before.sequences
    known = {
        (request.number, number): block_ids for request, number, _, block_ids in was
    }
    tables = []
    for request, number, num_tokens, block_ids in state.sequences:
        old = known.get((request.number, number), ())
        kept = len(old) if block_ids[: len(old)] == old else 0
        about = request.number, number, *request[1:3]
        tables.append([*about, num_tokens, kept, block_ids[kept:]])
    return {
        **dict(zip(TOTALS, state.totals, strict=True)),
        "used": state.num_used,
        "cached": state.num_cached,
        "tables": tables,
        "waiting": [
            [one.number, one.num_prompt_tokens, one.num_restarts]
            for one in state.waiting
        ],
    }
