"""The link between a front and an engine: nothing is lost, and errors are told."""

import json
import socket
import threading

import pytest

import minipaged as mp
from helpers.apart import run_in_a_thread
from helpers.http_serving import FRANCE, pocket, served
from minipaged.decoding.strategy import Output
from minipaged.serving.errors import ApiError
from minipaged.serving.link import Link
from minipaged.serving.messages import About, Add, Begun, News, Unpacker, pack
from minipaged.serving.metrics import Metrics

BEGUN = Begun(0.0, 0, None)


class Script:
    """In the place of an engine: it says what was written, as soon as it is asked."""

    def __init__(self, *lines):
        """lines: bytes, one after the other; None hangs up."""
        paged = mp.PagedModel(pocket()[0], 8)
        with mp.Engine(paged) as engine:
            self.about = About.of(engine)
        self.lines = lines

    def start(self):
        ours, self.theirs = socket.socketpair()
        self.thread = threading.Thread(target=self.speak)
        self.thread.start()
        return ours

    def speak(self):
        unpacker, lines = Unpacker(), iter(self.lines)
        while data := self.theirs.recv(1 << 16):
            for message in unpacker.feed(data):
                if isinstance(message, Add):
                    for line in lines:
                        if line is None:
                            self.theirs.shutdown(socket.SHUT_RDWR)
                        else:
                            self.theirs.sendall(line)
        self.theirs.close()

    def stop(self):
        self.thread.join(10)


def over(host, ask):
    """What `ask(link)` returns."""

    async def asked():
        link = Link(host, Metrics("a model"))
        await link.open()
        try:
            return await ask(link)
        finally:
            await link.close()

    return run_in_a_thread(asked)


def test_messages_that_come_in_parts_and_together_are_whole():
    messages = [Add(number, [*range(number)], {}) for number in (1, 500, 2)]
    data = b"".join(map(pack, messages))
    for size in (1, 3, 100, len(data)):
        unpacker, found = Unpacker(), []
        for start in range(0, len(data), size):
            found += unpacker.feed(data[start : start + size])
        assert found == messages


def test_a_front_that_is_behind_gets_the_tokens_of_several_steps():
    news = [
        News(accepted=[0], begun={0: BEGUN}, tokens={0: [1]}),
        News(tokens={0: [2, 3]}),
        News(tokens={0: [4]}, ended={0: Output([[1, 2, 3, 4]], "length")}),
    ]

    async def ask(link):
        reply = link.add([5])
        await reply.accepted()
        assert await reply.news(0) == [1, 2, 3, 4] and await reply.news(4) == []
        return await reply.result()

    host = Script(b"".join(map(pack, news)))
    assert over(host, ask) == Output([[1, 2, 3, 4]], "length")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (pack(News(failed={0: (400, "no room")})), 400),
        (pack(News(failed={0: (500, "a step")})), 500),
        (None, 500),
    ],
)
def test_a_request_that_is_refused_or_lost_raises(line, status):
    async def ask(link):
        reply = link.add([5])
        with pytest.raises(ApiError) as refused:
            await reply.accepted()
        assert not link.replies
        return refused.value.status

    assert over(Script(line), ask) == status


def test_without_an_engine_nothing_is_taken():
    async def ask(link):
        with pytest.raises(ApiError):
            await link.add([5]).accepted()
        with pytest.raises(ApiError) as refused:
            link.add([5])
        return refused.value.status

    assert over(Script(None), ask) == 503


def test_tokens_that_come_with_an_error_do_not_hide_it():
    news = [
        News(accepted=[0], begun={0: BEGUN}, tokens={0: [300, 301]}),
        News(ended={0: Output([], "error", error="no token can be drawn")}),
    ]
    with served(Script(b"".join(map(pack, news))), pool_page=False) as server:
        (event,) = server.events("/v1/completions", prompt=FRANCE)
    assert event["error"]["code"] == 400, json.dumps(event)
    assert event["error"]["message"] == "no token can be drawn"
