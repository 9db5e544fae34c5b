"""Lab: checks of appendix G's exercises: leaving, stop strings, three incidents."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from itertools import starmap
from random import Random
from statistics import fmean
from threading import Thread
from typing import Any

import anyio
from transformers import GenerationConfig

from minipaged.engine.engine import Engine
from minipaged.engine.stream import Stream
from minipaged.lab.check.diagnose import want
from minipaged.lab.check.incidents import check_cause, check_guard, parts_of
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many, short
from minipaged.lab.tour.desk import BEFORE, TODAY, Add, Asked, Chat, Desk, Release
from minipaged.lab.tour.incidents import ANSWERS, Texts, receive
from minipaged.lab.tour.tunnels import LENGTH, Event, Server
from minipaged.model.load import load
from minipaged.model.paged_model import PagedModel

# --- whoever leaves -------------------------------------------------------------------

WHOLE = 12  # tokens of a whole answer
LONG = 700  # of an answer that somebody leaves
FAILED = "a step has failed"
PATIENCE = 6.0  # seconds in which a loop must run something else


class Forgotten:
    """A Stream whose iterator does not abort when it is left: the answer has to.

    Attributes: most, so many tokens are told of at most; fails, after three tokens;
    is_over: the check is, so who still asks is stopped.
    """

    def __init__(self, stream: Stream, most: int = LONG, fails: bool = False):
        """Tells what this stream tells."""
        self._stream, self.most, self.fails = stream, most, fails
        self.is_over = False
        self.abort = stream.abort

    @property
    def tokens(self) -> Sequence[int]:
        """All that have come."""
        return self._stream.tokens[: self.num_tokens]

    @property
    def num_tokens(self) -> int:
        """How many have come."""
        self._stop_if_over()
        count = min(self.most, self._stream.num_tokens)
        if self.fails and count >= 3:
            raise RuntimeError(FAILED)
        return count

    @property
    def finished(self) -> bool:
        """Will no more come?"""
        self._stop_if_over()
        return self._stream.finished and self.most >= self._stream.num_tokens

    def _stop_if_over(self) -> None:
        if self.is_over:
            raise RuntimeError("the check is over")

    async def __aiter__(self) -> AsyncIterator[int]:
        """The tokens as they come."""
        sent = 0
        while not self.finished or sent < self.num_tokens:
            if sent < self.num_tokens:
                yield self.tokens[sent]
                sent += 1
            else:
                await asyncio.sleep(0.001)


Two = Sequence[Forgotten]
Pair = tuple[int, int]  # (number of the stream, token)
Answering = Callable[[Two], AsyncIterator[Pair]]


@exercise
def answering(attempt: Attempt) -> Callable[[], str]:
    """(streams) -> an async generator of (number, token), which aborts if left."""
    model, tokenizer = load("pocket", device="cpu")
    with Engine(PagedModel(model, num_blocks=128, block_size=16)) as engine:

        def ask(length: int) -> list[Stream]:
            config = GenerationConfig(
                max_new_tokens=length, eos_token_id=model.config.vocab_size
            )
            texts = "Once upon a time", "The capital"
            return [engine.add(tokenizer(text).input_ids, config) for text in texts]

        engine.serve()
        right = [stream.result().sequences[0] for stream in ask(WHOLE)]
        for read in (_whole, _as_they_come):
            pairs = _in_a_loop(read, attempt, [Forgotten(one) for one in ask(WHOLE)])
            for number, tokens in enumerate(right):
                found = [token for which, token in pairs if which == number]
                if found != tokens:
                    raise Rejected(
                        f"stream {number} has {len(tokens)} tokens, and {len(found)} "
                        f"came: {short(found)}, expected {short(tokens)}"
                    )
        for how, leave in LEAVING.items():
            streams = ask(LONG)
            _in_a_loop(leave, attempt, [Forgotten(stream) for stream in streams])
            deadline = time.monotonic() + 1
            while engine.streams and time.monotonic() < deadline:
                time.sleep(0.01)
            for number, stream in enumerate(streams):
                if stream.output is None or stream.output.finish_reason != "aborted":
                    held = engine.paged.pool.num_blocks - engine.paged.pool.num_free
                    raise Rejected(
                        f"{how}, and stream {number} goes on: {held} blocks are held "
                        "for nobody"
                    )
    return lambda: "as `Job.leave` does it: abort all, and wait for nothing"


async def _whole(answer: Answering, streams: Two) -> list[Pair]:
    return [pair async for pair in answer(streams)]


async def _as_they_come(answer: Answering, streams: Two) -> list[Pair]:
    """The first stream stops after a token, until the second one was read."""
    streams[0].most, pairs = 1, []

    async def read() -> None:
        async with aclosing(answer(streams)) as found:
            async for pair in found:
                pairs.append(pair)
                if [number for number, _ in pairs].count(1) == WHOLE:
                    streams[0].most = LONG

    try:
        await asyncio.wait_for(read(), 3)
    except TimeoutError:
        raise Rejected(
            f"stream 0 has told 1 token so far, and stream 1 all {WHOLE}; "
            f"{short(pairs)} came: does stream 1 wait for stream 0?"
        ) from None
    return pairs


async def _leaves(answer: Answering, streams: Two) -> None:
    """Closed, as a loop that is left by `break`."""
    async with aclosing(answer(streams)) as pairs:
        async for _ in pairs:
            if streams[0].num_tokens >= 3:
                break


async def _is_cancelled(answer: Answering, streams: Two) -> None:
    """Cancelled again at each await, as by anyio's scopes."""
    with anyio.CancelScope() as scope:
        async with aclosing(answer(streams)) as pairs:
            async for _ in pairs:
                if streams[0].num_tokens >= 3:
                    scope.cancel()
                    await asyncio.sleep(0)


async def _is_late(answer: Answering, streams: Two) -> None:
    """Cancelled at any moment, also while it waits for a token."""

    async def read() -> None:
        async with aclosing(answer(streams)) as pairs:
            async for _ in pairs:
                pass

    task = asyncio.create_task(read())
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _fails(answer: Answering, streams: Two) -> None:
    """Stream 0 raises, as it does if a step has failed."""
    streams[0].fails = True
    try:
        async with aclosing(answer(streams)) as pairs:
            async for _ in pairs:
                pass
    except RuntimeError as error:
        if FAILED not in str(error):
            raise


LEAVING = {
    "a client breaks out of its loop": _leaves,
    "a client is disconnected (each await is cancelled from then on)": _is_cancelled,
    "a client is cancelled at any moment": _is_late,
    f"stream 0 raises RuntimeError({FAILED!r})": _fails,
}


def _in_a_loop(run: Callable[..., Any], attempt: Attempt, streams: Two) -> Any:
    """What the coroutine returns, in a thread: a notebook's own loop is busy."""
    attempt.num_cases += 1
    found: list[Any] = []
    beat = start = time.monotonic()

    async def beats() -> None:
        nonlocal beat
        while True:
            beat = time.monotonic()
            await asyncio.sleep(0.05)

    async def runs() -> Any:
        heart = asyncio.create_task(beats())
        try:
            return await run(attempt.function, streams)
        finally:
            heart.cancel()

    def work() -> None:
        try:
            found.append(asyncio.run(runs()))
        except BaseException as error:
            found.append(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive() and time.monotonic() < min(beat + PATIENCE, start + 20):
        thread.join(0.1)
    if not found:
        for stream in streams:
            stream.is_over = True  # a loop that never waits ends here
        if time.monotonic() < start + 20:
            raise Rejected(
                "your coroutine never gives control back, so nobody else runs: "
                "await asyncio.sleep(0) where it looks again"
            )
        raise Rejected("nothing came within 20 seconds")
    if isinstance(found[0], NotImplementedError | Rejected):
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
    """A class with cause, repair(tokenizer), guard(ask)."""
    answer = parts_of(attempt)

    def make_texts(tokenizer: Any) -> Texts:
        text_of = answer.repair(tokenizer)
        want(
            "from `repair` a function of (number of the answer, token)",
            text_of,
            callable(text_of),
        )

        def checked(number: int, token: int) -> str:
            text = text_of(number, token)
            what = "a text from the function that `repair` returns"
            want(what, text, isinstance(text, str))
            return text

        return checked

    for texts in (
        [*ANSWERS.values()],
        ["Привет", "naïve", "Привет"],
        ["é" * 9, "x" * 5, "жж"],
        ["so \ufffd it is", "naïve"],  # the model itself says U+FFFD
        ["naïve café", "тюлень", "é"] * 100,
    ):
        attempt.num_cases += 1
        for got, right in zip(receive(texts, make_texts), texts, strict=True):
            if got != right:
                raise Rejected(
                    f"repair: of {many(len(texts), 'user')} at one time, one receives "
                    f"{short(got)}, expected {short(right)}"
                )

    def swaps(texts: Sequence[str]) -> list[str]:
        return [*reversed(texts)] if len(texts) > 1 else [*texts]

    cases = [
        ("the server of this morning", [receive], True),
        ("a repaired server", [lambda texts: receive(texts, make_texts)], False),
        ("a server that exchanges answers", [swaps], True),
        ("a server that is right", [lambda texts: [*texts]], False),
    ]
    check_guard(attempt, answer.guard, cases)
    check_cause(
        answer,
        "D",
        {
            "A": "Compare the tokens of the log with what the users should read",
            "B": "Which tokens would the log have if K and V were another user's?",
            "C": "Ask alone: what does `incidents.receive(['naïve'])` put together?",
        },
    )
    return lambda: f"repaired: {', '.join(receive([*ANSWERS.values()], answer.repair))}"


@exercise
def incident_2(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(add, prompt, is_rated), guard(log)."""
    answer = parts_of(attempt)
    num_requests = 0

    def hand_in(add: Add, prompt: Sequence[int], is_rated: bool) -> Asked:
        def counted(*arguments: Any, **options: Any) -> Stream:
            nonlocal num_requests
            num_requests += 1
            return add(*arguments, **options)

        found = answer.repair(counted, prompt, is_rated)
        want(
            "from `repair` two things: the stream of the answer; and that of the "
            "rating, or a function that asks for it, or None",
            found,
            _is_asked(found),
        )
        stream, rating = found
        if not callable(rating):
            return stream, rating

        def rate() -> Stream:
            found = rating()
            what = "a stream from the function that asks for a rating"
            want(what, found, isinstance(found, Stream))
            return found

        return stream, rate

    today, desk = _morning(TODAY), Desk(hand_in=hand_in).morning()
    attempt.num_cases += 1
    for before, now in zip(today.chats, desk.chats, strict=True):
        _check_chat(now.number, today, before, desk, now)
    enough = len(desk.chats) + sum(chat.rating is not None for chat in desk.chats)
    if num_requests > enough:
        raise Rejected(
            f"repair: it adds {many(num_requests, 'request')}; {enough} are enough: "
            "one for each chat, and one more for each rating"
        )
    found = sum(row["found"] for row in desk.log)
    asked = sum(row["prompt"] for row in desk.log)
    wait = fmean(row["first_token_after"] for row in desk.log)
    if found < 0.6 * asked:
        share = found / asked
        raise Rejected(f"repair: of the prompts' tokens, {share:.0%} are found")
    if wait > 2:
        raise Rejected(
            f"repair: the first token comes after {wait:.1f} steps in the mean; does a "
            "chat wait for the rating of another one?"
        )
    cases = [("the log of today", [today.log], True)]
    cases += [("a repaired day's log", [desk.log], False)]
    cases += [("Saturday's log", [_morning(BEFORE).log], False)]
    cases += [
        (f"chats (key, found): {chats}", [[*starmap(_row, enumerate(chats))]], expected)
        for chats, expected in GUARDED
    ]
    check_guard(attempt, answer.guard, cases)
    check_cause(
        answer,
        "D",
        {
            "A": "Take it back: `desk.TODAY._replace(num_blocks=96)`. How long is the "
            "wait?",
            "B": "Take it back: `desk.TODAY._replace(num_keys=1)`. Who finds nothing "
            "then?",
            "C": "Take it back: `desk.TODAY._replace(together=1)`. How long is the "
            "wait?",
            "E": "Take it back: `desk.TODAY._replace(says_date=False)`. How long is "
            "the wait?",
        },
    )
    return lambda: f"repaired, the first token comes after {wait:.1f} steps, not 3.1"


@cache
def _morning(release: Release) -> Desk:
    return Desk(release).morning()


def _is_asked(found: Any) -> bool:
    """Is it what `hand_in` returns?"""
    if not (isinstance(found, tuple | list) and len(found) == 2):
        return False
    answer, rating = found
    is_rating = rating is None or isinstance(rating, Stream) or callable(rating)
    return isinstance(answer, Stream) and is_rating


def _check_chat(number: int, today: Desk, before: Chat, desk: Desk, now: Chat) -> None:
    """The repaired desk must give it the answer and the rating of today."""
    if now.answer.output.sequences != before.answer.output.sequences:
        raise Rejected(f"repair: chat {number} has another answer")
    if now.rating is not None and now.rating.output.prompt_logprobs is None:
        raise Rejected(
            f"repair: the rating of chat {number} has no logprobs; add its request "
            "with prompt_logprobs=0"
        )
    right, found = today.rating(before), desk.rating(now)
    both = right is not None and found is not None
    if not (abs(found - right) < 1e-3 if both else found is right):
        raise Rejected(
            f"repair: the rating of chat {number} is {short(found)}, expected "
            f"{short(right)}"
        )


# (key, found) of the chats of an hour; and must somebody be woken up?
GUARDED = (
    ([], False),
    ([(0, 0), (1, 0), (2, 0)], False),  # a quiet night
    ([(0, 0), (1, 0), (2, 0), (0, 48), (1, 48), (2, 48)], False),  # after a restart
    ([(0, 0), (0, 48), (0, 0), (0, 48), (0, 48), (0, 48)], False),  # one of five
    ([(0, 0), (0, 48), (0, 0), (0, 48), (0, 48)], True),  # one of four
    ([(0, 0), (0, 48), (1, 0), (1, 0), (0, 48), (1, 0)], True),
    ([(5, 0), (5, 0)], True),
)


def _row(number: int, chat: tuple[int, int]) -> dict[str, int]:
    key, found = chat
    row = {"chat": number, "key": key, "arrival": 12 * (number // 2), "prompt": 66}
    return row | {"found": found, "first_token_after": 1 if found else 3}


@exercise
def incident_3(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(events), guard(log)."""
    answer = parts_of(attempt)
    draw = Random(3)
    for _ in range(100):
        _check_gone(attempt, answer.repair, draw)
    made_up = [
        (f"a log: {what}", [[Event(*line) for line in lines]], must_alarm)
        for what, lines, must_alarm in LOGS
    ]
    check_guard(attempt, answer.guard, [*made_up, ("no log", [[]], False)])
    broken, repaired = _today(), Server(gone_since=answer.repair).day()
    for user, tokens in repaired.received.items():
        if user != "Eve" and len(tokens) != LENGTH:
            raise Rejected(f"repair: {user} receives {len(tokens)} of {LENGTH} tokens")
    if not any(event[1:3] == ("aborted", "Eve") for event in repaired.log):
        raise Rejected("repair: Eve is away for 200 steps, and is not aborted")
    cases = [("the log of today", [broken.log], True)]
    cases.append(("a repaired day's log", [repaired.log], False))
    check_guard(attempt, answer.guard, cases)
    check_cause(
        answer,
        "C",
        {
            "A": "Who is preempted, says the log, and who of them is cut? And who is "
            "cut with `tunnels.Setup(num_blocks=64)`?",
            "B": "How long was Ben away, and how long Cleo? Who of them is cut?",
            "D": "Compare `tunnels.Server().day().received['Ben']` with that of a day "
            "with `tunnels.Setup(patience=100)`",
            "E": "Run a day with `tunnels.Setup(may_end_early=False)`: who is cut?",
        },
    )
    return lambda: "repaired: all but Eve have their 60 tokens"


@cache
def _today() -> Server:
    return Server().day()


_HERE, _GONE, _ABORTED = "arrives", "departs", "aborted"
# An answer is aborted: of a user who has left; of one who is here; of one who has left.
_RIGHTLY = ((0, _HERE, "A", 0), (9, _GONE, "A", 0), (34, _ABORTED, "A", -1))
_WRONGLY = ((40, _HERE, "B", 1), (46, _HERE, "B", 2), (49, _GONE, "B", 1),
            (74, _ABORTED, "B", -1), (80, _GONE, "B", 2))  # fmt: skip
_AGAIN = ((90, _HERE, "C", 3), (93, _GONE, "C", 3), (118, _ABORTED, "C", -1))
# (what they are, what happens, and must somebody be woken up?)
LOGS = (
    ("A has left, and is aborted", _RIGHTLY, False),
    ("B has two lines, one ends, and B is aborted", _WRONGLY, True),
    ("A has left, B is here, and A is aborted",
     [(0, _HERE, "A", 0), (3, _HERE, "B", 1), *_RIGHTLY[1:]], False),
    ("A has left, is aborted, and comes back", [*_RIGHTLY, (40, _HERE, "A", 1)], False),
    ("A has left, is aborted, and comes back in the same step",
     [*_RIGHTLY, (34, _HERE, "A", 1)], False),
    ("A is aborted, and then leaves",
     [(0, _HERE, "A", 0), (9, _ABORTED, "A", -1), (12, _GONE, "A", 0)], True),
    ("A is aborted, and then leaves in the same step",
     [(0, _HERE, "A", 0), (9, _ABORTED, "A", -1), (9, _GONE, "A", 0)], True),
    ("A leaves, and is then aborted in the same step",
     [(0, _HERE, "A", 0), (9, _GONE, "A", 0), (9, _ABORTED, "A", -1)], False),
    ("A has two lines, the newer one ends, and A is aborted",
     [(0, _HERE, "A", 0), (3, _HERE, "A", 1), (6, _GONE, "A", 1),
      (31, _ABORTED, "A", -1)], True),
    ("both lines of A have ended, and A is aborted",
     [(0, _HERE, "A", 0), (3, _HERE, "A", 1), (6, _GONE, "A", 1), (9, _GONE, "A", 0),
      (34, _ABORTED, "A", -1)], False),
    ("A is here, and is preempted",
     [(0, _HERE, "A", 0), (9, "preempted", "A", -1)], False),
    ("A is aborted rightly, and then B wrongly", _RIGHTLY + _WRONGLY, True),
    ("B is aborted wrongly, and then C rightly", _WRONGLY + _AGAIN, True),
)  # fmt: skip


def _check_gone(attempt: Attempt, gone_since: Callable[..., Any], draw: Random) -> None:
    """Lines come and go in any order; after each step, who is gone, and since when."""
    log: list[Event] = []
    lines: dict[str, set[int]] = {}
    since: dict[str, int] = {}
    ends: dict[str, str] = {}  # how the answer of a user has ended
    for number in range(draw.randint(1, 12)):
        user = draw.choice("AB")
        own = lines.setdefault(user, set())
        step = 2 * number + draw.randint(0, 1)
        if own and draw.random() < 0.5:
            connection = draw.choice(sorted(own))
            own.remove(connection)
            if draw.random() < 0.3 and ends.setdefault(user, "finished") == "finished":
                log.append(Event(step, "finished", user, connection))
            log.append(Event(step, "departs", user, connection))
            since[user] = step
        else:
            own.add(number)
            log.append(Event(step, "arrives", user, number))
        if draw.random() < 0.2 and user not in ends:
            ends[user] = "aborted"
            log.append(Event(step + 1, "aborted", user, -1))
        right = {user: since[user] for user, own in lines.items() if not own}
        attempt.num_cases += 1
        found = gone_since([*log])
        if not isinstance(found, Mapping):
            raise Rejected(
                f"repair: returns {short(found)}, expected a dict from user to step"
            )
        if dict(found) != right:
            said = ", ".join(f"step {one.step}: {one.user} {_told(one)}" for one in log)
            raise Rejected(f"repair: {said}. Gone are {found}, expected {right}")


def _told(event: Event) -> str:
    """For example "arrives (line 0)"."""
    line = f" (line {event.connection})" if event.connection >= 0 else ""
    return event.what + line
