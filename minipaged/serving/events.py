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
from minipaged.serving.forms import Form
from minipaged.serving.job import Job
from minipaged.serving.protocol import StreamOptions

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
                chunk = form.chunk(piece)
                if self._each_time or self._wants_usage:
                    chunk["usage"] = job.usage if self._each_time else None
                await send(_event(chunk))
            if self._wants_usage:
                await send(_event(form.chunk(None) | {"usage": job.usage}))
        except ApiError as error:
            await send(_event(error.body))
        except Exception as error:
            _log.exception("a stream failed")
            await send(_event(internal(error).body))
        await send(_part(b"data: [DONE]\n\n"))
        await send({"type": "http.response.body", "body": b""})


def _event(body: dict[str, Any]) -> Message:
    return _part(b"data: %b\n\n" % to_json(body))


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
