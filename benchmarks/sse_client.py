"""A lean client of OpenAI-compatible servers: it reads raw bytes, on kept connections.

On a machine whose cores the server needs too, a client's work counts: this one parses
nothing but the end of an answer.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

try:
    from uvloop import run
except ImportError:
    from asyncio import run

_END = b"data: [DONE]\n\n\r\n0\r\n\r\n"


class Asked(NamedTuple):
    """A request: token ids, and how many new ones are wanted, whatever they are."""

    prompt: list[int]
    num_new: int


class Timed(NamedTuple):
    """When an answer came, in seconds from its request."""

    first: float  # to the first token
    last: float
    num_events: int


class Connection(asyncio.Protocol):
    """A client, whose requests follow each other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport

    async def ask(self, asked: Asked, **fields: Any) -> Timed:
        """Wait for all events of a stream; AssertionError if it is not complete."""
        body = json.dumps(
            {
                "prompt": asked.prompt,
                "max_tokens": asked.num_new,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
                **fields,
            }
        ).encode()
        head = (
            "POST /v1/completions HTTP/1.1\r\nHost: me\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._first, self._said = 0.0, bytearray()
        self._over = asyncio.get_running_loop().create_future()
        start = time.perf_counter()
        self._transport.write(head.encode() + body)
        last = await self._over
        count = b'"completion_tokens":%d' % asked.num_new
        assert count in self._said[-1000:], self._said[-1000:]
        num_events = self._said.count(b"data: {")
        return Timed(self._first - start, last - start, num_events)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if not self._first and b"data: {" in data:
            self._first = time.perf_counter()
        self._said += data
        if not self._said.startswith(b"HTTP/1.1 200 "):
            self._over.set_exception(AssertionError(bytes(self._said)))
        elif self._said.endswith(_END):
            self._over.set_result(time.perf_counter())

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop."""
        if not self._over.done():  # in the middle of an answer
            self._over.set_exception(error or EOFError(bytes(self._said[-1000:])))


def ask_all(
    port: int,
    requests: Sequence[Asked],
    clients: int,
    seconds: float | None = None,
    **fields: Any,
) -> tuple[float, list[Timed]]:
    """So many clients, each of which asks again and again; seconds of all, and each.

    seconds: in which all must be over, else TimeoutError.
    """
    waiting = iter(enumerate(requests))
    found: dict[int, Timed] = {}

    async def client() -> None:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            Connection, "127.0.0.1", port
        )
        for number, asked in waiting:
            found[number] = await connection.ask(asked, **fields)
        transport.close()

    async def all_of_them() -> float:
        start = time.perf_counter()
        async with asyncio.timeout(seconds):
            await asyncio.gather(*[client() for _ in requests[:clients]])
        return time.perf_counter() - start

    took = run(all_of_them())
    return took, [found[number] for number in range(len(requests))]
