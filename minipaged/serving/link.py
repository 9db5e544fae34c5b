"""Lab: the front's end of a link to an engine, and the answers that come over it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, count
from math import inf
from typing import Any

from minipaged.decoding.strategy import Output, TokenLogprob
from minipaged.serving.asking import Asking
from minipaged.serving.errors import ApiError
from minipaged.serving.hosts import Host
from minipaged.serving.messages import Abort, Add, Ask, Begun, News, Unpacker, pack
from minipaged.serving.metrics import Metrics


class Reply:
    """One request in the front: its answer as it comes.

    Attributes: tokens, and their logprobs if they were asked for; prompt_logprobs;
    num_cached_tokens; finished: will nothing more come? output, at the end; times, in
    seconds of `time.perf_counter`.
    """

    def __init__(self, link: "Link", number: int, wants_logprobs: bool):
        """Made by `Link.add`."""
        self._link, self._number = link, number
        self.tokens: list[int] = []  # of its only sequence
        self.logprobs: list[TokenLogprob] | None = [] if wants_logprobs else None
        self.prompt_logprobs: list[TokenLogprob | None] | None = None
        self.num_cached_tokens = 0
        self.output: Output | None = None
        self.failure: ApiError | None = None
        self.arrival = time.perf_counter()
        self.first_token_at: float | None = None
        self.last_token_at: float | None = None
        self.finished_at: float | None = None
        self.finished = self._is_accepted = False
        self._news: asyncio.Future | None = None  # awaited by its only reader
        self._wanted: float = 0  # tokens, for which this reader waits

    async def accepted(self) -> None:
        """Wait until the engine has taken the request; ApiError if it refuses it."""
        while not self._is_accepted and not self.finished:
            await self._listen(0)
        self._raise_failure()

    async def news(self, number: int, count: int = 1) -> list[int]:
        """The tokens from this number on, as soon as there are so many, or the end.

        There are none at the end. Raises ApiError if the request has failed.
        """
        while len(self.tokens) < number + count and not self.finished:
            await self._listen(number + count)
        if len(self.tokens) == number:
            self._raise_failure()
        return self.tokens[number:]

    async def result(self) -> Output:
        """The Output, once the request has ended; raises ApiError if it has failed."""
        while not self.finished:
            await self._listen(inf)
        self._raise_failure()
        return self.output

    def abort(self) -> None:
        """End the request, unless it has ended."""
        if not self.finished:
            self._link.abort(self._number)

    def restart(self) -> None:
        """Called by the link: the answer begins anew, and nobody has seen the old."""
        self.tokens.clear()
        if self.logprobs is not None:
            self.logprobs.clear()

    def begin(self, begun: Begun, now: float) -> None:
        """Called by the link: the first token has come."""
        self.first_token_at = now
        self.num_cached_tokens = begun.num_cached_tokens
        self.prompt_logprobs = begun.prompt_logprobs

    def end(self, ended: Output | ApiError) -> None:
        """Called by the link: nothing more will come."""
        self.finished, self.finished_at = True, time.perf_counter()
        if isinstance(ended, ApiError):
            self.failure = ended
        else:
            if ended.logprobs is None and self.logprobs is not None:
                ended = replace(ended, logprobs=[self.logprobs])
            self.output = replace(ended, prompt_logprobs=self.prompt_logprobs)
        self.wake()

    def wake(self) -> None:
        """Called by the link: wake the reader, if this is what it waits for."""
        news = self._news
        if news is not None and (len(self.tokens) >= self._wanted or self.finished):
            self._news = None
            if not news.done():  # it may have been cancelled
                news.set_result(None)

    def accept(self) -> None:
        """Called by the link."""
        self._is_accepted = True
        self.wake()

    def _listen(self, wanted: float) -> asyncio.Future:
        """Ends when there are so many tokens, or nothing more will come."""
        self._wanted = wanted
        self._news = asyncio.get_running_loop().create_future()
        return self._news

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


class Link(asyncio.Protocol):
    """The front's end. All of it belongs to one event loop.

    Attributes: about, the engine; replies, of unfinished requests; is_up: is there an
    engine? on_loss, called if it ends by itself.
    """

    def __init__(self, host: Host, metrics: Metrics):
        """`open` connects it."""
        self._host, self._metrics = host, metrics
        self.about = host.about
        self.replies: dict[int, Reply] = {}
        self.is_up = False
        self.on_loss: Callable[[], Any] = lambda: None
        self._is_closing = False
        self._unpacker = Unpacker()
        self._numbers = count()
        self._asking = Asking()

    async def open(self) -> None:
        """Let the engine serve."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=self._host.start())

    async def close(self) -> None:
        """End the engine; what is unfinished is told so."""
        self._is_closing = True
        self._transport.close()
        await asyncio.to_thread(self._host.stop)

    def add(
        self, prompt: list[int], *, is_streamed: bool = True, **arguments: Any
    ) -> Reply:
        """Hand in a request, with the arguments of `Engine.add`.

        Whether it is taken, `Reply.accepted` says. Raises ApiError if there is no
        engine.
        """
        self._require_engine()
        number = next(self._numbers)
        wants_logprobs = arguments.get("logprobs") is not None
        reply = self.replies[number] = Reply(self, number, wants_logprobs)
        self._transport.write(pack(Add(number, prompt, arguments, is_streamed)))
        return reply

    def abort(self, number: int) -> None:
        """End this request; its reply is told as soon as it has ended."""
        if self.is_up:
            self._transport.write(pack(Abort(number)))

    async def ask(self, what: str) -> Any:
        """What the engine's end answers between two steps: see `EngineEnd.answers`."""
        self._require_engine()
        return await self._asking.ask(self._transport, next(self._numbers), what)

    def tell(self, what: str) -> None:
        """The same, without waiting for an answer."""
        if self.is_up:
            self._transport.write(pack(Ask(next(self._numbers), what)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport, self.is_up = transport, True

    def data_received(self, data: bytes) -> None:
        """Called by the loop: one message, or several, or a part."""
        for news in self._unpacker.feed(data):
            self._apply(news)

    def connection_lost(self, _error: Exception | None) -> None:
        """Called by the loop: there is no engine any more."""
        self.is_up = False
        failure = self._failure()
        for number in list(self.replies):
            self.replies.pop(number).end(failure)
        self._asking.fail(failure)
        if not self._is_closing:
            self.on_loss()

    def _apply(self, news: News) -> None:
        now = time.perf_counter()
        replies, metrics = self.replies, self._metrics
        for number in news.restarted:
            replies[number].restart()
        for number, begun in news.begun.items():
            replies[number].begin(begun, now)
            metrics.queue.observe(begun.waited)
        for number, logprobs in news.logprobs.items():
            replies[number].logprobs += logprobs
        for number, tokens in news.tokens.items():
            reply = replies[number]
            reply.tokens += tokens
            if reply.last_token_at is not None:
                metrics.next_token.observe(now - reply.last_token_at)
            reply.last_token_at = now
        # In this order they are sent: a first token is waited for most.
        for number in chain(news.begun, news.tokens):
            replies[number].wake()
        for number, output in news.ended.items():
            replies.pop(number).end(output)
        for number, (status, message) in news.failed.items():
            replies.pop(number).end(ApiError(status, message))
        for number in news.accepted:
            if number in replies:
                replies[number].accept()
        self._asking.hear(news.answers)

    def _require_engine(self) -> None:
        if not self.is_up:
            raise self._failure(503)

    def _failure(self, status: int = 500) -> ApiError:
        if self._is_closing:
            return ApiError(503, "the server is shutting down")
        return ApiError(status, "the server's engine has ended; see its log")
