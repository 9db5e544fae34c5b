"""Lab: an answer as server-sent events, while it grows."""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from minipaged.serving.errors import ApiError, internal
from minipaged.serving.forms import Form, Piece
from minipaged.serving.job import Job
from minipaged.serving.protocol import StreamOptions

_HERE = "\0text\0"
_log = logging.getLogger("minipaged.serving")


class Events(Response):
    """Chunks, perhaps usage, and [DONE]; whatever becomes of it, its job is left.

    An error is an event, which clients raise.
    """

    media_type = "text/event-stream"

    def __init__(self, job: Job, form: Form, options: StreamOptions | None):
        """options: what the client wants to be told besides text."""
        self.status_code, self.background = 200, None
        self.init_headers()
        self._job, self._form = job, form
        self._wants_usage = bool(options and options.include_usage)
        self._each_time = bool(options and options.continuous_usage_stats)
        self._frames: dict[int, tuple[bytes, bytes]] = {}  # of each answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI app."""
        try:
            with suppress(ClientDisconnect):
                await unless_left(receive, self._send_all(send))
        finally:
            self._job.leave()

    async def _send_all(self, send: Send) -> None:
        # A stream of its own, as StreamingResponse has one, would take longer.
        start = {"type": "http.response.start", "status": 200}
        await send(start | {"headers": self.raw_headers})
        job, form = self._job, self._form
        try:
            async for piece in job.pieces():
                await send(_part(self._event_of(piece)))
            if self._wants_usage:
                last = form.chunk(None) | {"usage": job.usage}
                await send(_part(_event(last)))
        except ApiError as error:
            await send(_part(_event(error.body)))
        except Exception as error:
            _log.exception("a stream failed")
            await send(_part(_event(internal(error).body)))
        await send(_part(b"data: [DONE]\n\n"))
        await send({"type": "http.response.body", "body": b""})

    def _event_of(self, piece: Piece) -> bytes:
        """Most events of an answer differ in their text alone: the rest is kept."""
        if (
            piece.is_first
            or piece.finish_reason is not None
            or piece.entries is not None
            or self._each_time
        ):
            return _event(self._chunk(piece))
        if piece.index not in self._frames:
            event = _event(self._chunk(piece._replace(text=_HERE)))
            before, _, after = event.rpartition(to_json(_HERE))
            self._frames[piece.index] = before, after
        before, after = self._frames[piece.index]
        return before + to_json(piece.text) + after

    def _chunk(self, piece: Piece) -> dict[str, Any]:
        chunk = self._form.chunk(piece)
        if self._each_time or self._wants_usage:
            chunk["usage"] = self._job.usage if self._each_time else None
        return chunk


def _event(body: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % to_json(body)


def _part(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def unless_left(receive: Receive, work: Awaitable[Any]) -> Any:
    """The result of `work`; ClientDisconnect if the client leaves before."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(receive())  # the body was read: only this can come
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
