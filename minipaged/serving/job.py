"""Lab: one HTTP request: the streams that answer it, and how they are left."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from threading import Lock
from typing import Any

from minipaged.decoding.strategy import Output
from minipaged.serving.errors import ApiError, bad
from minipaged.serving.forms import Piece
from minipaged.serving.limits import Door, Limits
from minipaged.serving.link import Link, Reply
from minipaged.serving.metrics import Metrics
from minipaged.serving.protocol import Generating
from minipaged.serving.requests import Question
from minipaged.serving.text import AnswerText, NamingDecoder


class Answer:
    """One stream of a job: a sample, or all beams of a question."""

    def __init__(self, index: int, question: Question, sample: int):
        """index: in the response. sample: the how manieth of its question."""
        self.index, self.question, self.sample = index, question, sample
        self.stream: Reply | None = None
        self.has_begun = asyncio.Event()  # its prompt is computed


class Job:
    """Asks the engine, follows the answers, and aborts what is unfinished at the end.

    Samples are requests of their own, with seeds that follow each other. If prefixes
    are shared, the first sample computes the prompt, and the others then find it.
    """

    def __init__(
        self,
        link: Link,
        decoder: NamingDecoder,
        door: Door,
        asked: Generating,
        salt: bytes,
        metrics: Metrics,
        limits: Limits,
    ):
        """salt: of whoever asks."""
        self._link, self._decoder, self._door = link, decoder, door
        self._asked, self._salt = asked, salt
        self._metrics, self._limits = metrics, limits
        self._lock = Lock()  # of the next line, and of the end
        self._inside = 0  # answers that the door has let in
        self._is_left = self._is_late = False
        self.streams: list[Reply] = []
        self.answers: list[Answer] = []
        self._questions: Sequence[Question] = ()
        self._tasks: list[asyncio.Task] = []  # one for each of several answers
        self._num_generated = 0
        self._timer = asyncio.get_running_loop().call_later(
            limits.request_seconds, self._give_up
        )

    def read(self, read: Callable[[], list[Question]]) -> None:
        """What `read` makes of the body; may be called in another thread.

        Raises ApiError if anything is refused.
        """
        asked = self._asked
        per_prompt = asked.num_beams or asked.num_answers
        self._enter(per_prompt)  # before the work of reading
        self._questions = read()
        self._enter(per_prompt * (len(self._questions) - 1))
        samples = 1 if asked.num_beams else asked.num_answers
        for number, question in enumerate(self._questions):
            for sample in range(samples):
                index = number * asked.num_answers + sample
                self.answers.append(Answer(index, question, sample))

    def hand_in(self) -> None:
        """Ask the engine, without waiting."""
        shares = self._link.about.shares_prefixes
        for answer in self.answers:
            if not (answer.sample and shares):
                self._add(answer)

    async def accepted(self) -> None:
        """Wait for the engine; raises ApiError if it refuses it.

        Nothing is running then after `leave`.
        """
        for stream in self.streams.copy():
            await stream.accepted()

    def _enter(self, count: int) -> None:
        with self._lock:
            if self._is_left:  # meanwhile; nobody reads the error
                raise ApiError(499, "the client has left")
            self._door.admit(count)
            self._inside += count

    def _add(self, answer: Answer) -> None:
        seed = self._asked.seed
        own = self._asked.cache_salt
        salt = self._salt if own is None else self._salt + b":" + own.encode()
        answer.stream = self._link.add(
            answer.question.prompt,
            is_streamed=bool(self._asked.stream),
            seed=None if seed is None else seed + answer.sample,
            cache_salt=salt,
            **answer.question.arguments,
        )
        self.streams.append(answer.stream)
        if self._is_late:
            answer.stream.abort()

    async def whole(self) -> list[Piece]:
        """All answers, in order."""
        if len(self.answers) == 1:
            return await self._finish(self.answers[0])
        self._tasks = [asyncio.create_task(self._finish(one)) for one in self.answers]
        found = await asyncio.gather(*self._tasks)
        return [piece for pieces in found for piece in pieces]

    async def _finish(self, answer: Answer) -> list[Piece]:
        """The pieces of a stream: one, or one for each beam."""
        await self._begin(answer)
        stream, question, asked = answer.stream, answer.question, self._asked
        if asked.num_beams is None and asked.num_answers > 1:
            await stream.news(0)
            answer.has_begun.set()
        output = await stream.result()
        self._check(output)
        pieces = []
        for number, tokens in enumerate(output.sequences):
            if output.scores is not None and output.scores[number] < -1e8:
                continue  # no answer: fewer beams could end
            entries = output.logprobs and output.logprobs[number]
            text = self._text(question)
            said = text.whole(tokens) if question.max_tokens else ""
            if not question.max_tokens:
                tokens, entries = [], output.logprobs and []
            self._num_generated += len(tokens)
            reason = output.finish_reason
            if asked.num_beams:  # it is said of all beams together
                reason = "length" if len(tokens) == question.max_tokens else "stop"
            pieces.append(
                Piece(
                    answer.index + number,
                    question,
                    said,
                    len(tokens),
                    entries,
                    is_first=True,
                    **self._end(reason, text, tokens),
                    prompt_entries=output.prompt_logprobs,
                )
            )
        return pieces

    def pieces(self) -> AsyncIterator[Piece]:
        """The pieces of all answers, as they come."""
        if len(self.answers) == 1:
            return self._pieces_of(self.answers[0])
        return self._pieces_of_all()

    async def _pieces_of_all(self) -> AsyncIterator[Piece]:
        queue: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue()

        async def follow(answer: Answer) -> None:
            try:
                async for piece in self._pieces_of(answer):
                    queue.put_nowait(piece)
                queue.put_nowait(None)
            except Exception as error:
                queue.put_nowait(error)

        self._tasks = [asyncio.create_task(follow(answer)) for answer in self.answers]
        remaining = len(self._tasks)
        while remaining:
            piece = await queue.get()
            if isinstance(piece, BaseException):
                raise piece
            if piece is None:
                remaining -= 1
            else:
                yield piece

    async def _pieces_of(self, answer: Answer) -> AsyncIterator[Piece]:
        await self._begin(answer)
        stream, question = answer.stream, answer.question
        text = self._text(question)
        wants_logprobs = question.arguments["logprobs"] is not None
        number = num_told = 0
        said = ""
        tokens: list[int] = []
        interval = self._limits.stream_interval
        while new := await stream.news(number, interval if number else 1):
            answer.has_begun.set()
            for token in new:
                number += 1
                if question.max_tokens:
                    tokens.append(token)
                    said += text.add(token)
                if text.stopped_by is not None:
                    break
            is_last = stream.finished and number == len(stream.tokens)
            if is_last or text.stopped_by is not None:
                break
            entries = stream.logprobs[num_told:number] if wants_logprobs else None
            if not said and not entries:
                continue
            yield self._piece(answer, said, number - num_told, entries, not num_told)
            num_told, said = number, ""
        answer.has_begun.set()
        if text.stopped_by is not None:
            stream.abort()  # if the engine has not noticed it
            reason = "stop"
        else:
            output = await stream.result()
            self._check(output)
            reason = output.finish_reason
            said += text.rest() if question.max_tokens else ""
        entries = stream.logprobs[num_told:number] if wants_logprobs else None
        if not question.max_tokens:
            entries = entries and []
        end = self._end(reason, text, tokens)
        count = len(tokens) - num_told
        yield self._piece(answer, said, count, entries, not num_told, **end)

    def _piece(
        self,
        answer: Answer,
        text: str,
        count: int,
        entries: Any,
        is_first: bool,
        **end: Any,
    ) -> Piece:
        self._num_generated += count
        question = answer.question
        of_prompt = None
        if is_first and question.arguments["prompt_logprobs"] is not None:
            of_prompt = answer.stream.prompt_logprobs
        return Piece(
            answer.index,
            question,
            text,
            count,
            entries,
            is_first,
            **end,
            prompt_entries=of_prompt,
        )

    async def _begin(self, answer: Answer) -> None:
        """See that the answer's stream is there."""
        if answer.stream is None:
            first = self.answers[answer.index - answer.sample]
            await first.has_begun.wait()
            self._add(answer)

    def _text(self, question: Question) -> AnswerText:
        asked = self._asked
        keeps = bool(asked.include_stop_str_in_output)
        return AnswerText(self._decoder, question.prompt, asked.stops, keeps)

    def _end(self, reason: str, text: AnswerText, tokens: list[int]) -> dict[str, Any]:
        """Why it ended: a stop string, or a token of stop_token_ids, is named."""
        stop: str | int | None = text.stopped_by
        if stop is not None:
            reason = "stop"
        elif reason == "stop" and tokens[-1:] and self._asked.stop_token_ids:
            (last,) = tokens[-1:]
            stop = last if last in self._asked.stop_token_ids else None
        return {"finish_reason": reason, "stop_reason": stop}

    def _check(self, output: Output) -> None:
        """Raise ApiError if this is no answer."""
        if output.finish_reason == "error":
            raise bad(output.error)
        if output.finish_reason == "aborted":
            if self._is_late:
                seconds = self._limits.request_seconds
                raise ApiError(504, f"there was no answer in {seconds:g} seconds")
            raise ApiError(503, "the server is shutting down")

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens so far; each prompt counts once."""
        prompt = sum(len(question.prompt) for question in self._questions)
        cached = sum(
            answer.stream.num_cached_tokens
            for answer in self.answers
            if not answer.sample
        )
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self._num_generated,
            "total_tokens": prompt + self._num_generated,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def _give_up(self) -> None:
        self._is_late = True
        for stream in self.streams.copy():
            stream.abort()

    def leave(self) -> None:
        """Abort what is unfinished; a second call changes nothing.

        Nothing here waits: where the server stops or a scope is cancelled, an `await`
        would raise, and the rest would be skipped.
        """
        with self._lock:
            if self._is_left:
                return
            self._is_left = True
            self._door.leave(self._inside)
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for stream in self.streams.copy():
            stream.abort()
            self._metrics.left(stream)
