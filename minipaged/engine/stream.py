"""Appendix A: one request's answer, token by token, while the engine runs."""

from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

from minipaged.decoding.strategy import Output, TokenLogprob, output_of
from minipaged.decoding.text_pieces import TextPieces
from minipaged.engine.serving import Listeners
from minipaged.errors import Unpicklable
from minipaged.scheduling.request import Request

if TYPE_CHECKING:
    from minipaged.engine.engine import Engine


class Stream(Unpicklable):
    """What `Engine.add` returns: iterate over it for the tokens, as they come.

    A thread that asks for a token before it is there makes the engine's next step, or
    waits for the thread that makes it (`Engine.serve`, `Engine.run`). A coroutine never
    makes a step: `async for token in stream` and `output = await stream` start a thread
    that does, if there is none. A coroutine that is cancelled aborts the request. So
    does an `async for` that was left, once its iterator is closed, and `with stream:`,
    at its end.

    The tokens of several samples or beams have no common order: ask for the `result`.

    Times are in seconds on the engine's clock, and None before they come.
    """

    def __init__(self, engine: "Engine", request: Request, arrival: float):
        """Made by `Engine.add`."""
        self._engine = engine
        self.request = request
        self.arrival = arrival
        self.first_token_at: float | None = None
        self.finished_at: float | None = None
        self._tokens: list[int] = []  # of its only sequence, so far
        self.output: Output | None = None  # once it has finished
        self.num_preemptions = 0  # how often all its blocks were taken for others
        self.listeners = Listeners()  # coroutines that wait for it

    def is_of(self, engine: "Engine") -> bool:
        """Was it made by this engine's `add`?"""
        return self._engine is engine

    @property
    def finished(self) -> bool:
        """Is there an Output: was the request answered, aborted or refused?"""
        return self.output is not None

    @property
    def tokens(self) -> list[int]:
        """The new tokens so far; none for several sequences: see `result`."""
        return self._tokens.copy()

    @property
    def num_tokens(self) -> int:
        """How many `tokens` there are."""
        return len(self._tokens)

    def tokens_from(self, number: int) -> list[int]:
        """The new tokens from this number on."""
        return self._tokens[number:]

    @property
    def logprobs(self) -> list[TokenLogprob] | None:
        """The logprobs of these tokens; None if `add` was not asked for them."""
        strategy = self.request.strategy
        if self.request.error or strategy.options.logprobs is None:
            return None
        if self.request.num_parallel > 1:
            return []
        return strategy.of(self.request.answers[0])[: len(self._tokens)]

    @property
    def num_cached_tokens(self) -> int:
        """Prompt tokens found in the prefix cache when the request first started."""
        return self.request.num_cached_tokens

    @property
    def time_to_first_token(self) -> float | None:
        """From the arrival to the first token."""
        return (
            None if self.first_token_at is None else self.first_token_at - self.arrival
        )

    @property
    def time_per_token(self) -> float | None:
        """The mean time between tokens; None for fewer than two tokens."""
        if self.finished_at is None or self._num_tokens < 2:
            return None
        return (self.finished_at - self.first_token_at) / (self._num_tokens - 1)

    @property
    def normalised_latency(self) -> float | None:
        """From the arrival to the end, divided by the tokens of the longest answer.

        Source: PagedAttention paper, section 6.1.
        """
        if self.finished_at is None or not self._num_tokens:
            return None
        return (self.finished_at - self.arrival) / self._num_tokens

    def result(self) -> Output:
        """The Output, once the request has finished; the engine steps until then."""
        while not self.finished:
            self._engine.go_on(lambda: self.finished)
        return self.output

    def __iter__(self) -> Iterator[int]:
        """The new tokens, each as soon as it is chosen.

        Raises ValueError for a request of several samples or beams.
        """
        self._require_one_sequence()
        number = 0
        while self._has_more(number):
            yield self._tokens[number]
            number += 1

    async def __aiter__(self) -> AsyncIterator[int]:
        """The new tokens, in an event loop, which is free for other tasks meanwhile.

        Raises what a step raises. Whoever leaves early aborts the request.
        """
        self._require_one_sequence()
        number = 0
        try:
            while some := await self.news(number):
                for token in some:
                    yield token
                number += len(some)
        finally:
            self.abort()

    async def news(self, number: int, count: int = 1) -> list[int]:
        """The tokens from this number on, as soon as there are so many, or the end.

        There are none at the end. Raises what a step raises. Whoever leaves here must
        call `abort`.
        """
        while len(self._tokens) < number + count and not self.finished:
            await self._listen(number + count - 1)
        return self._tokens[number:]

    def __await__(self) -> Generator[Any, None, Output]:
        """The Output, once the request has finished; see `__aiter__`."""
        return self._wait_for_output().__await__()

    async def _wait_for_output(self) -> Output:
        try:
            while not self.finished:
                await self._listen(len(self._tokens))
        finally:
            self.abort()
        return self.output

    async def _listen(self, number: int) -> None:
        """Wait for the token of this number, or the end; some thread makes steps."""
        engine = self._engine
        engine.serve_awaited(self)
        await self.listeners.wait(
            lambda: len(self._tokens) > number or self.finished or not engine.is_served
        )

    def abort(self) -> None:
        """End the request, unless it has finished: see `Engine.abort`."""
        if not self.finished:
            self._engine.abort(self)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_error: object) -> None:
        self.abort()

    def texts(self, tokenizer: Any) -> Iterator[str]:
        """The answer in pieces of text, none of which is half a letter.

        Together they are the text that the tokenizer decodes all tokens to, without
        special tokens. `tokenizer`: of `transformers`, fast or not; else TypeError.
        """
        self._require_one_sequence()
        return TextPieces(tokenizer).of(self)

    def _has_more(self, number: int) -> bool:
        """Wait for the token of this number; False if the request ends without it."""
        while len(self._tokens) <= number and not self.finished:
            self._engine.go_on(lambda: len(self._tokens) > number or self.finished)
        return len(self._tokens) > number

    def _require_one_sequence(self) -> None:
        if self.request.num_parallel > 1:
            raise ValueError(
                f"this request grows {self.request.num_parallel} sequences at a time, "
                "whose tokens have no common order; ask for .result() instead"
            )

    @property
    def _num_tokens(self) -> int:
        return max(map(len, self.output.sequences), default=0)

    def catch_up(self, now: float) -> None:
        """Take over the new tokens of the last steps; called by the engine."""
        request = self.request
        first = request.answers[0]
        if self.first_token_at is None and first.num_new:
            self.first_token_at = now
        if request.num_parallel == 1:
            start = first.num_prompt_tokens + len(self._tokens)
            self._tokens += first.tokens[start : first.num_known]
        if first.finish_reason is None:  # most often
            return
        if not request.live and not request.holds_blocks and self.output is None:
            self.finished_at = now
            self.output = output_of(request)

    def hear(self, tokens: list[int], output: Output | None, now: float) -> None:
        """Take over tokens, and the Output, that another rank tells of (appendix H)."""
        self.request.answers[0].tokens += tokens
        self.catch_up(now)
        if output is not None:
            self.output = output
            self.finished_at = now

    def __repr__(self) -> str:
        state = self.output.finish_reason if self.finished else "not finished"
        return f"Stream({len(self.request.prompt)} prompt tokens, {state})"
