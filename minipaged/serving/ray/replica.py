"""Lab: a replica: the whole model and one engine, in an actor of Ray Serve."""

import asyncio
import logging
import os
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from typing import Any

from ray import serve

from minipaged.serving.asking import Asking
from minipaged.serving.command import make_host
from minipaged.serving.messages import Abort, About, Add, News, Unpacker, pack
from minipaged.serving.ray.parts import Part, parts_of

_log = logging.getLogger("ray.serve")


class Line(asyncio.Protocol):
    """A replica's end of the socket to its engine. It belongs to one event loop."""

    def __init__(self) -> None:
        """Connect it by `loop.create_connection`."""
        self._unpacker = Unpacker()
        self._numbers = count()
        self._parts: dict[int, asyncio.Queue[Part]] = {}
        self._asking = Asking()
        self._is_closing = False

    async def serve(self, add: Add) -> AsyncIterator[Part]:
        """Hand in the request, with a number of its own, and tell what comes.

        A reader who is behind gets the news of several steps at once. If the reader
        leaves, the request is aborted.
        """
        number = next(self._numbers)
        queue = self._parts[number] = asyncio.Queue()
        self._transport.write(pack(add._replace(number=number)))
        is_over = False
        try:
            while not is_over:
                part = await queue.get()
                while not queue.empty():
                    part.add(queue.get_nowait())
                is_over = part.is_last
                yield part
        finally:
            del self._parts[number]
            if not is_over:
                self._transport.write(pack(Abort(number)))

    async def ask(self, what: str) -> Any:
        """What the engine's end answers between two steps."""
        return await self._asking.ask(self._transport, next(self._numbers), what)

    def close(self) -> None:
        """End the engine."""
        self._is_closing = True
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the loop: one message, or several, or a part."""
        for news in self._unpacker.feed(data):
            self._apply(news)

    def connection_lost(self, _error: Exception | None) -> None:
        """Called by the loop. An actor without an engine must not seem to be alive."""
        if not self._is_closing:
            _log.error("the replica's engine has ended, so the replica ends")
            os._exit(1)

    def _apply(self, news: News) -> None:
        for number, part in parts_of(news).items():
            if number in self._parts:  # else its reader has left
                self._parts[number].put_nowait(part)
        self._asking.hear(news.answers)


class Replica:
    """An engine that fronts reach through Serve. It listens on no port."""

    async def __init__(self, given: Namespace):
        """Make the engine that the flags describe; `given`: see `command.parser`."""
        self._name = serve.get_replica_context().replica_id.unique_id
        self._host = await asyncio.to_thread(make_host, given)
        self._about = await asyncio.to_thread(lambda: self._host.about)
        loop = asyncio.get_running_loop()
        _, self._line = await loop.create_connection(Line, sock=self._host.start())

    async def serve(self, chain: list[int], add: Add) -> AsyncIterator[Part]:
        """Answer a request. `chain` is for the router, which has read it already."""
        async for part in self._line.serve(add):
            yield part

    async def about(self) -> About:
        """What a front must know of the engine."""
        return self._about

    async def figures(self) -> tuple[str, dict[str, Any]]:
        """The replica's name, and its engine's figures."""
        return self._name, (await self._line.ask("figures"))[""]

    async def check_health(self) -> None:
        """Called by Serve, which replaces a replica that does not answer in time."""
        await self._line.ask("figures")

    async def __del__(self) -> None:
        """Called by Serve, when its requests have ended."""
        with suppress(AttributeError):  # the constructor was not completed
            self._line.close()
            await asyncio.to_thread(self._host.stop)
