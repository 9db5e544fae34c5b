"""Events of a stream: what is kept from one to the next changes none of them."""

import asyncio
import json

import pytest

from helpers.apart import run_in_a_thread
from helpers.http_serving import pocket
from minipaged.serving.events import Events
from minipaged.serving.forms import ChatForm, CompletionForm, Piece
from minipaged.serving.protocol import ChatRequest, CompletionRequest, StreamOptions
from minipaged.serving.requests import Question
from minipaged.serving.text import NamingDecoder

TEXTS = ["a", ' "quoted" ', "\n\t\\", "ä中😀", "\x7f\u2028", '"text":""', "\0text\0"]
USAGE = {"completion_tokens": 3}


class Spoken:
    """In the place of a job: it says what was written."""

    def __init__(self, pieces):
        self.written, self.usage = pieces, USAGE

    async def pieces(self):
        for piece in self.written:
            yield piece

    def leave(self):
        pass


def told(form, pieces, options):
    """The events, as a client reads them."""
    sent = []

    async def send(message):
        sent.append(message.get("body", b""))

    async def receive():
        await asyncio.Event().wait()

    run_in_a_thread(Events(Spoken(pieces), form, options), {}, receive, send)
    *lines, last, nothing = b"".join(sent).decode().split("\n\n")
    assert (last, nothing) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize("each_time", [False, True])
@pytest.mark.parametrize("name", ["a model", "\0text\0"])
@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (CompletionForm, CompletionRequest(prompt="a")),
        (ChatForm, ChatRequest(messages=[{"role": "user", "content": "a"}])),
    ],
)
def test_each_event_is_what_its_form_makes(kind, asked, name, each_time):
    form = kind(asked, name, NamingDecoder(pocket()[1]))
    question = Question([1], "", {"logprobs": None, "prompt_logprobs": None}, 9)
    pieces = [
        Piece(index, question, text, 1, None, is_first=not number)
        for number, text in enumerate(TEXTS)
        for index in (0, 1)
    ]
    pieces.append(Piece(0, question, "end", 1, None, False, "stop", "\n"))
    options = StreamOptions(include_usage=True, continuous_usage_stats=each_time)
    *events, last = told(form, pieces, options)
    usage = USAGE if each_time else None
    assert events == [form.chunk(piece) | {"usage": usage} for piece in pieces]
    assert last == form.chunk(None) | {"usage": USAGE}
