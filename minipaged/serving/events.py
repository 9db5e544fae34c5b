"""Lab: an answer as server-sent events, while it grows."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from minipaged.serving.errors import ApiError, internal
from minipaged.serving.forms import Form
from minipaged.serving.job import Job
from minipaged.serving.protocol import StreamOptions

_log = logging.getLogger("minipaged.serving")


class Events(StreamingResponse):
    """Chunks, perhaps usage, and [DONE]; whatever becomes of it, its job is left.

    An error is an event, which clients raise.
    """

    def __init__(self, job: Job, form: Form, options: StreamOptions | None):
        """options: what the client wants to be told besides text."""
        super().__init__(self._events(), media_type="text/event-stream")
        self._job, self._form = job, form
        self._wants_usage = bool(options and options.include_usage)
        self._each_time = bool(options and options.continuous_usage_stats)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI app."""
        try:
            with suppress(ClientDisconnect):
                await unless_left(receive, self.stream_response(send))
        finally:
            self._job.leave()

    async def _events(self) -> AsyncIterator[bytes]:
        job, form = self._job, self._form
        try:
            async for piece in job.pieces():
                chunk = form.chunk(piece)
                if self._each_time or self._wants_usage:
                    chunk["usage"] = job.usage if self._each_time else None
                yield _event(chunk)
            if self._wants_usage:
                yield _event(form.chunk(None) | {"usage": job.usage})
        except ApiError as error:
            yield _event(error.body)
        except Exception as error:
            _log.exception("a stream failed")
            yield _event(internal(error).body)
        yield b"data: [DONE]\n\n"


def _event(body: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % to_json(body)


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
