"""Lab: checks of appendix G's exercises: leaving, stop strings, three incidents."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from random import Random
from threading import Thread
from typing import Any

import anyio
from transformers import GenerationConfig

from minipaged.engine.engine import Engine
from minipaged.engine.stream import Stream
from minipaged.lab.check.diagnose import want
from minipaged.lab.check.incidents import check_guard, parts_of
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, short
from minipaged.lab.tour.incidents import (
    ANSWERS,
    QUESTIONS,
    SYSTEM,
    morning_1,
    morning_2,
    morning_3,
)
from minipaged.model.load import load
from minipaged.model.paged_model import PagedModel

# --- whoever leaves -------------------------------------------------------------------

LENGTH = 12  # tokens of a whole answer
LONG = 700  # of an answer that somebody leaves


class Forgotten:
    """A Stream whose iterator does not abort when it is left: the answer has to."""

    def __init__(self, stream: Stream):
        """Tells what this stream tells."""
        self._stream = stream
        self.abort = stream.abort

    @property
    def tokens(self) -> Sequence[int]:
        """All that have come."""
        return self._stream.tokens

    @property
    def num_tokens(self) -> int:
        """How many have come."""
        return self._stream.num_tokens

    @property
    def finished(self) -> bool:
        """Will no more come?"""
        return self._stream.finished

    async def __aiter__(self) -> AsyncIterator[int]:
        """The tokens as they come."""
        number = 0
        while some := await self._stream.news(number):
            for token in some:
                yield token
            number += len(some)


Answering = Callable[[Forgotten], AsyncIterator[int]]


@exercise
def answering(attempt: Attempt) -> Callable[[], str]:
    """(stream) -> an async generator of its tokens, which aborts if it is left."""
    model, tokenizer = load("pocket", device="cpu")
    prompt = tokenizer("Once upon a time").input_ids
    with Engine(PagedModel(model, num_blocks=128, block_size=16)) as engine:

        def ask(length: int) -> Stream:
            config = GenerationConfig(
                max_new_tokens=length, eos_token_id=model.config.vocab_size
            )
            return engine.add(prompt, config)

        engine.serve()
        right = ask(LENGTH).result().sequences[0]
        found = _in_a_loop(_whole, attempt, ask(LENGTH))
        if found != right:
            raise Rejected(
                f"the stream has {len(right)} tokens, and {len(found)} came: "
                f"{short(found)}, expected {short(right)}"
            )
        for how, leave in LEAVING.items():
            stream = ask(LONG)
            _in_a_loop(leave, attempt, stream)
            deadline = time.monotonic() + 2
            while not stream.finished and time.monotonic() < deadline:
                time.sleep(0.01)
            if stream.output is None or stream.output.finish_reason != "aborted":
                held = engine.paged.pool.num_blocks - engine.paged.pool.num_free
                raise Rejected(
                    f"a client that {how} has left, and its request goes on: "
                    f"{held} blocks are held for nobody"
                )
    return lambda: "as `Job.leave` does it: abort, and wait for nothing"


async def _whole(answer: Answering, stream: Forgotten) -> list[int]:
    return [token async for token in answer(stream)]


async def _leaves(answer: Answering, stream: Forgotten) -> None:
    """Closed, as a loop that is left by `break`."""
    async with aclosing(answer(stream)) as tokens:
        async for _ in tokens:
            if stream.num_tokens >= 3:
                break


async def _is_cancelled(answer: Answering, stream: Forgotten) -> None:
    """Cancelled again at each await, as Starlette does it after a disconnect."""
    with anyio.CancelScope() as scope:
        async with aclosing(answer(stream)) as tokens:
            async for _ in tokens:
                if stream.num_tokens >= 3:
                    scope.cancel()
                    await asyncio.sleep(0)


async def _is_late(answer: Answering, stream: Forgotten) -> None:
    """Cancelled while it waits for a token."""

    async def read() -> None:
        async with aclosing(answer(stream)) as tokens:
            async for _ in tokens:
                pass

    task = asyncio.create_task(read())
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


LEAVING = {
    "breaks out of its loop": _leaves,
    "is disconnected (each await is cancelled from then on)": _is_cancelled,
    "is cancelled at any moment": _is_late,
}


def _in_a_loop(run: Callable[..., Any], attempt: Attempt, stream: Stream) -> Any:
    """What the coroutine returns, in a thread: a notebook's own loop is busy."""
    attempt.num_cases += 1
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(asyncio.run(run(attempt.function, Forgotten(stream))))
        except BaseException as error:
            found.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join(60)
    if not found:
        raise Rejected("nothing came within a minute")
    if isinstance(found[0], NotImplementedError):
        raise found[0]
    if isinstance(found[0], BaseException):
        error = found[0]
        raise Rejected(f"{attempt.name} raised {type(error).__name__}: {error}")
    return found[0]


# --- stop strings ---------------------------------------------------------------------


@exercise
def cut(attempt: Attempt) -> Callable[[], str]:
    """(pieces, stop) -> a generator of what may be sent, as soon as it is certain."""
    draw = Random(0)
    cases = [(["Hello", " wor", "ld. The", " end", "ing"], "The end")]
    cases += [(["a", "b", "a", "b", "c", "d"], "abc"), (["no", "thing"], "stop")]
    cases += [(["the", " end"], "the end"), (["ends in th", "e"], "the end")]
    for _ in range(200):
        text = "".join(draw.choices("ab", k=draw.randint(1, 12)))
        stop = "".join(draw.choices("ab", k=draw.randint(1, 4)))
        ends = sorted(draw.sample(range(len(text)), draw.randint(0, len(text) - 1)))
        bounds = zip([0, *ends], [*ends, len(text)], strict=True)
        cases.append(([text[a:b] for a, b in bounds if b > a], stop))
    for pieces, stop in cases:
        _check_cut(attempt, pieces, stop)
    return lambda: "the same as `AnswerText`, for a single stop string"


def _check_cut(attempt: Attempt, pieces: Sequence[str], stop: str) -> None:
    """What was said before each piece is asked for must be what is certain by then."""
    call = attempt.call(pieces, stop)
    said: list[str] = []
    read = ""

    def feed() -> Iterator[str]:
        nonlocal read
        for piece in pieces:
            expected = _certain(read, stop)
            if read and "".join(said) != expected:
                raise Rejected(
                    f"{call}: after {read!r} it had said {''.join(said)!r}, and "
                    f"{expected!r} is certain"
                )
            read += piece
            yield piece

    found = attempt.shared(feed(), stop)
    want("a generator of texts", found, hasattr(found, "__iter__"))
    for piece in found:
        want("a text", piece, isinstance(piece, str))
        said.append(piece)
    whole = "".join(pieces)
    right = whole.split(stop)[0]
    if "".join(said) != right:
        raise Rejected(f"{call} said {''.join(said)!r}, expected {right!r}")


def _certain(text: str, stop: str) -> str:
    """Of this much text: all before the stop string, or before what may begin it."""
    if stop in text:
        return text.split(stop)[0]
    doubtful = max(n for n in range(len(stop)) if text.endswith(stop[:n]))
    return text[: len(text) - doubtful]


# --- incidents ------------------------------------------------------------------------


@exercise
def incident_1(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(system, question, now), guard(queries, hits)."""
    answer = parts_of(
        attempt,
        "C",
        {
            "A": "no more than 5 of 128 blocks were ever used",
            "B": "the questions stand at the end, after the long system prompt",
            "D": "blocks are found one by one, each by all that comes before its end",
        },
    )
    texts = []
    for question, now in ((QUESTIONS[0], "09:00:07"), (QUESTIONS[1], "21:34:58")):
        attempt.num_cases += 1
        texts.append(answer.repair(SYSTEM, question, now))
        _check_prompt(texts[-1], question, now)
    found = morning_1(answer.repair)
    share = found["prefix_cache_hits"] / found["prefix_cache_queries"]
    if share < 0.5:
        raise Rejected(
            f"repair: of the same morning's prompt tokens, {share:.0%} are found"
        )
    ends = [text.index(SYSTEM) + len(SYSTEM) for text in texts]
    begun = [text[:end] for text, end in zip(texts, ends, strict=True)]
    if begun[0] != begun[1]:
        raise Rejected(
            "repair: two prompts differ before the system prompt ends: "
            f"{short(begun[0])} and {short(begun[1])}"
        )
    counts = found["prefix_cache_queries"], found["prefix_cache_hits"]
    cases = [
        ("this morning", [counts[0], 0], True),
        ("a repaired morning", counts, False),
        ("a quiet night of 90 tokens, none found", [90, 0], False),
        ("499 tokens, none found", [499, 0], False),
        ("500 tokens, none found", [500, 0], True),
        ("1,000 tokens, 240 of them found", [1000, 240], True),
        ("1,000 tokens, 250 of them found", [1000, 250], False),
        ("nobody has asked", [0, 0], False),
    ]
    check_guard(attempt, answer.guard, cases)
    return lambda: f"repaired, {share:.0%} of the prompt tokens are found"


def _check_prompt(text: Any, question: str, now: str) -> None:
    """Turns between their markers: the system prompt first, the question last."""
    want("a prompt, as a text", text, isinstance(text, str))
    turns = re.findall(r"<\|(system|user)\|>([^|]*)<\|end\|>", text)
    whole = "".join(f"<|{who}|>{said}<|end|>" for who, said in turns)
    speakers = [who for who, _ in turns]
    is_chat = speakers[:1] == ["system"] and speakers[-1] == "user"
    if not is_chat or text != f"{whole}<|assistant|>":
        raise Rejected(
            "repair: a prompt is <|system|>...<|end|><|user|>...<|end|><|assistant|>, "
            f"and this is {text!r}"
        )
    for what, part, said in (
        ("system prompt", SYSTEM, turns[0][1]),
        ("question", question, turns[-1][1]),
    ):
        if part not in said:
            raise Rejected(f"repair: the {what} is not in its place: {text!r}")
    if now not in text:
        raise Rejected(f"repair: the model is not told this time, {now}: {text!r}")


@exercise
def incident_2(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(tokenizer), guard(ask)."""
    answer = parts_of(
        attempt,
        "D",
        {
            "A": "the log has the right tokens, so the model said the right ones",
            "B": "the log has the right tokens, so K and V were nobody else's",
            "C": "the tokens are all there, and in order: see the log",
        },
    )
    for texts in (
        [*ANSWERS.values()],
        ["Привет", "naïve", "Привет"],
        ["é" * 9, "x" * 5, "жж"],
        ["so \ufffd it is", "naïve"],  # the model itself says U+FFFD
    ):
        attempt.num_cases += 1
        found = morning_2(texts, answer.repair)
        if found != texts:
            raise Rejected(f"repair: users receive {found}, expected {texts}")

    def swaps(texts: Sequence[str]) -> list[str]:
        return [*reversed(texts)] if len(texts) > 1 else [*texts]

    cases = [
        ("the server of this morning", [morning_2], True),
        ("a repaired server", [lambda texts: morning_2(texts, answer.repair)], False),
        ("a server that exchanges answers", [swaps], True),
        ("a server that is right", [lambda texts: [*texts]], False),
    ]
    check_guard(attempt, answer.guard, cases)
    return lambda: (
        f"repaired: {', '.join(morning_2([*ANSWERS.values()], answer.repair))}"
    )


@exercise
def incident_3(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(stream), guard(connections, running, waiting)."""
    answer = parts_of(
        attempt,
        "B",
        {
            "A": "no request was ever preempted, so blocks did not run out",
            "C": "each answer ends after 40 tokens",
            "D": "two run all the time, as many as may",
        },
    )
    broken, sent_before = morning_3()
    rows, sent = morning_3(answer.repair)
    attempt.num_cases += 1
    for row in rows:
        inside = row["running"] + row["waiting"]
        if inside > row["connections"]:
            raise Rejected(
                f"repair: after step {row['step']}, {row['connections']} clients are "
                f"connected, and {inside} requests run or wait"
            )
    for client in (0, 3, 7):
        if len(sent[client]) != 40:
            raise Rejected(
                f"repair: client {client} stays to the end, and receives "
                f"{len(sent[client])} of 40 tokens"
            )
    if sent[0] != sent_before[0] or sent[8:] != sent_before[8:]:
        raise Rejected("repair: a client receives other tokens than before")
    cases = []
    for which, some in (("this morning", broken), ("a repaired one", rows)):
        for row in some:
            figures = [row[name] for name in ("connections", "running", "waiting")]
            what = f"after step {row['step']} of {which}: {figures}"
            cases.append((what, figures, sum(figures[1:]) > figures[0]))
    cases += [
        ("a rush: 90 clients, of whom 88 wait", [90, 2, 88], False),
        ("5 clients, of whom 3 have no request now: [5, 2, 0]", [5, 2, 0], False),
        ("40 clients and 47 requests: [40, 2, 45]", [40, 2, 45], True),
    ]
    check_guard(attempt, answer.guard, cases)
    last = [
        max(row["step"] for row in some if row["running"]) for some in (broken, rows)
    ]
    return lambda: (
        f"repaired, requests run until step {last[1]} of the table, not {last[0]}"
    )
