"""The link between a front and an engine: nothing is lost, and errors are told."""

import asyncio
import json
import socket
import threading
import time

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.apart import run_in_a_thread
from helpers.http_serving import FRANCE, make_engine, pocket, served
from minipaged.decoding.strategy import Output
from minipaged.serving.app import make_app
from minipaged.serving.engine_end import EngineEnd
from minipaged.serving.errors import ApiError
from minipaged.serving.link import Link
from minipaged.serving.messages import Abort, About, Add, Begun, News, Unpacker, pack
from minipaged.serving.metrics import Metrics

BEGUN = Begun(0.0, 0, None)


class Script:
    """In the place of an engine: it says what was written, as soon as it is asked."""

    def __init__(self, *lines, seconds=0.0):
        """lines: bytes, one after the other, with so long between; None hangs up."""
        paged = mp.PagedModel(pocket()[0], 8)
        with mp.Engine(paged) as engine:
            self.about = About.of(engine)
        self.lines, self.seconds = lines, seconds

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
                        time.sleep(self.seconds)
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


def test_a_first_token_is_told_before_those_of_answers_that_go_on():
    news = [
        News(accepted=[0, 1], begun={0: BEGUN}, tokens={0: [1]}),
        News(begun={1: BEGUN}, tokens={0: [2], 1: [3]}),
        News(ended={0: Output([[1, 2]], "length"), 1: Output([[3]], "length")}),
    ]

    async def ask(link):
        told = []

        async def read(reply):
            number = 0
            while new := await reply.news(number):
                told.extend(new)
                number += len(new)

        replies = [link.add([5]), link.add([6])]
        await asyncio.gather(*map(read, replies))
        return told

    # One after the other: a front that is behind would get all of it at once.
    lines = [pack(one) for one in news]
    assert over(Script(*lines, seconds=0.2), ask) == [1, 3, 2]


def test_a_request_is_handed_in_before_the_next_one_is_read():
    """Of many that come at once, the first must not wait until all are read."""
    host = Script()
    app = make_app(host, pocket()[1], ["a"], max_model_len=100, pool_page=False)
    body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 5}).encode()

    async def asked():
        messages = [{"type": "http.request", "body": body}]

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        scope = {
            "type": "http", "method": "POST", "path": "/v1/completions",
            "query_string": b"", "headers": [(b"content-type", b"application/json")],
        }  # fmt: skip
        await app(scope, receive, lambda message: None)

    async def ask():
        link = app.state.link
        await link.open()
        tasks = [asyncio.create_task(asked()) for _ in range(5)]
        await asyncio.sleep(0)  # each of them runs until it waits
        handed_in = len(link.replies)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await link.close()
        return handed_in

    assert run_in_a_thread(ask) == 5


def test_many_that_come_at_once_do_not_keep_the_first_waiting():
    engine = make_engine()
    add = engine.add

    def slow(*arguments, **options):
        time.sleep(2e-3)
        return add(*arguments, **options)

    engine.add = slow
    config = GenerationConfig(max_new_tokens=4, eos_token_id=1024)
    arguments = {"generation_config": config}
    ours, theirs = socket.socketpair()
    messages = [Add(number, [1, 2, 3], arguments) for number in range(40)]
    ours.sendall(b"".join(map(pack, [*messages, Abort(39)])))
    thread = threading.Thread(target=EngineEnd(engine, theirs).run)
    thread.start()
    unpacker, accepted, ended, first = Unpacker(), [], {}, None
    while len(ended) < 40:
        for news in unpacker.feed(ours.recv(1 << 16)):
            accepted += news.accepted
            ended |= news.ended
            if news.begun and first is None:
                first = len(accepted)
    ours.close()
    thread.join(10)
    assert first < 20  # 40 would take 80 ms
    assert sorted(accepted) == [*range(40)]
    assert ended.pop(39).finish_reason == "aborted"
    assert {output.finish_reason for output in ended.values()} == {"length"}
