"""Lab: what protects a server and its users: keys, sizes, times, and a queue's end."""

import asyncio
import hashlib
import hmac
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minipaged.serving.errors import ApiError, bad

OPEN_PATHS = {"/health", "/pool"}  # without a key; the page asks for it


class Limits(NamedTuple):
    """Of a server."""

    max_body_bytes: int = 1 << 20
    body_seconds: float = 30.0  # in which a body must have come
    request_seconds: float = 600.0  # in which an answer must be complete
    max_queue: int = 1024  # answers that wait, besides those that may run
    stream_interval: int = 1  # tokens of an event, after the first one's


class Door:
    """Counts answers that wait or run, and refuses more than are allowed."""

    def __init__(self, capacity: int):
        """`capacity`: answers, of all requests together."""
        self.capacity = capacity
        self.inside = 0
        self._lock = Lock()

    def admit(self, count: int) -> None:
        """Let so many in. Raises ApiError, with 429, or 400 if it can never be."""
        if count > self.capacity:
            raise bad(
                f"{count} answers are more than this server takes ({self.capacity}); "
                "lower n, or send fewer prompts in a request"
            )
        with self._lock:
            if self.inside + count > self.capacity:
                raise ApiError(
                    429,
                    f"{self.inside} answers wait or run, and {self.capacity} may; "
                    "try again later",
                    headers={"Retry-After": "1"},
                )
            self.inside += count

    def leave(self, count: int) -> None:
        """So many have gone."""
        with self._lock:
            self.inside -= count


class Keys:
    """API keys, compared in constant time."""

    def __init__(self, keys: Sequence[str]):
        """Without keys, everybody may ask."""
        self._digests = [_digest(key) for key in keys]

    def salt_of(self, authorization: str) -> bytes:
        """The salt of a header `Bearer KEY`: a hash of the key.

        Users of different keys share no blocks, so they cannot find out by the clock
        what others ask. Raises ApiError for a key that is unknown.
        """
        if not self._digests:
            return b""
        given = _digest(authorization.removeprefix("Bearer "))
        equal = [hmac.compare_digest(given, digest) for digest in self._digests]
        if not any(equal):
            raise ApiError(
                401,
                "this needs a key of the server: Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return given


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", errors="surrogateescape")).digest()


class Gate:
    """Before the app: checks the key, and reads the whole body within its limits.

    The app finds the salt in `request.state.salt`.
    """

    def __init__(self, app: ASGIApp, keys: Keys, limits: Limits):
        """An ASGI middleware."""
        self._app, self._keys, self._limits = app, keys, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            if scope["path"] not in OPEN_PATHS:
                given = headers.get(b"authorization", b"").decode("latin-1")
                scope.setdefault("state", {})["salt"] = self._keys.salt_of(given)
            body = await self._body(headers, receive)
        except ApiError as error:
            close = {"Connection": "close"}  # the rest of a body is not read
            answer = JSONResponse(
                error.body, error.status, (error.headers or {}) | close
            )
            await answer(scope, receive, send)
            return
        if body is None:
            return  # the client has left
        first: list[Message] = [{"type": "http.request", "body": body}]

        async def receive_again() -> Message:
            return first.pop() if first else await receive()

        await self._app(scope, receive_again, send)

    async def _body(
        self, headers: dict[bytes, bytes], receive: Receive
    ) -> bytes | None:
        most = self._limits.max_body_bytes
        too_large = ApiError(413, f"the body is larger than {most} bytes")
        if int(headers.get(b"content-length", b"0")) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            seconds = self._limits.body_seconds
            raise ApiError(408, f"the body did not come in {seconds:g} s") from None
