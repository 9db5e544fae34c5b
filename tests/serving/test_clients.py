"""OpenAI's own client, sync and async, and curl."""

import asyncio
import json
import shutil
import subprocess

import openai
import pytest

from helpers.apart import run_in_a_thread
from helpers.http_serving import (
    FRANCE,
    chat_tokens,
    huggingface_texts,
    make_engine,
    served,
    wait_until,
)
from serving.test_leaving import LONG, Steps

MESSAGES = [{"role": "user", "content": FRANCE}]


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none") as one:
        yield one


def theirs(count=20):
    return huggingface_texts(chat_tokens(FRANCE), max_new_tokens=count)[0]


def test_a_chat_whole_and_streamed(client):
    fields = {"model": "pocket", "messages": MESSAGES, "temperature": 0}
    fields["max_completion_tokens"] = 20
    answer = client.chat.completions.create(**fields)
    assert answer.choices[0].message.content == theirs()
    text, usage = "", None
    options = {"include_usage": True}
    for part in client.chat.completions.create(
        **fields, stream=True, stream_options=options
    ):
        text += part.choices[0].delta.content if part.choices else ""
        usage = part.usage or usage
    assert (
        text == theirs() and usage.completion_tokens == answer.usage.completion_tokens
    )


def test_completions_with_vllm_s_fields(client):
    answer = client.completions.create(
        model="pocket",
        prompt=[FRANCE, "A"],
        max_tokens=6,
        temperature=0,
        logprobs=2,
        extra_body={"ignore_eos": True, "top_k": 5, "min_p": 0.1},
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert len(answer.choices[0].logprobs.tokens) == 6
    theirs = huggingface_texts(FRANCE, max_new_tokens=6, eos_token_id=1024)[0]
    assert answer.choices[0].text == theirs


def test_models_and_errors_are_the_client_s_own(client):
    assert [model.id for model in client.models.list()] == ["pocket", "other"]
    assert client.models.retrieve("pocket").id == "pocket"
    with pytest.raises(openai.NotFoundError, match="gpt-9"):
        client.completions.create(model="gpt-9", prompt="a")
    with pytest.raises(openai.BadRequestError, match="tools") as refused:
        client.chat.completions.create(
            model="pocket", messages=MESSAGES, tools=[{"type": "function"}]
        )
    assert refused.value.param == "tools" and refused.value.code == "400"


def test_other_errors_are_the_client_s_own_too():
    with served(api_keys=("right",)) as server:
        url = server.url + "/v1"
        wrong = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
        with wrong, pytest.raises(openai.AuthenticationError):
            wrong.models.list()
        with openai.OpenAI(base_url=url, api_key="right") as client:
            assert client.models.list().data


def test_an_error_in_mid_stream_is_raised():
    engine = make_engine(600, observers=[Steps()])
    with served(engine) as server:
        url = server.url + "/v1"
        client = openai.OpenAI(base_url=url, api_key="-", timeout=60, max_retries=0)
        stream = client.completions.create(
            model="pocket", prompt=FRANCE, max_tokens=1500, stream=True,
            extra_body={"ignore_eos": True},
        )  # fmt: skip
        with client, stream:
            next(stream)
            with engine.paged.alone():  # between two steps: the next one finds nothing
                for one in list(engine.streams.values()):
                    one.abort()  # as at the end of a drain
            with pytest.raises(openai.APIError, match="shutting down"):
                for _ in stream:
                    pass


def test_async_clients_at_once_some_of_which_leave():
    engine = make_engine(60, observers=[Steps(0.001)])
    with served(engine) as server:

        async def ask(client, number):
            stream = await client.chat.completions.create(
                model="pocket", messages=MESSAGES, temperature=0, stream=True,
                max_tokens=20, extra_body={"ignore_eos": number % 2 == 1},
            )  # fmt: skip
            text = ""
            async with stream:
                async for part in stream:
                    text += part.choices[0].delta.content
                    if number % 5 == 4:
                        return None
            return text

        async def all_of_them():
            url = server.url + "/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="-") as client:
                return await asyncio.gather(*[ask(client, n) for n in range(30)])

        told = run_in_a_thread(all_of_them)
        longer = huggingface_texts(
            chat_tokens(FRANCE), max_new_tokens=20, eos_token_id=1024
        )[0]
        for number, text in enumerate(told):
            if text is not None:
                assert text == (longer if number % 2 else theirs())
        assert told.count(None) == 6
        server.wait_idle()


def test_a_client_that_leaves_its_with_block_is_gone():
    engine = make_engine(600, observers=[Steps()])
    with served(engine) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="-")
        with client, client.completions.create(
            model="pocket", prompt=FRANCE, max_tokens=1500, stream=True,
            extra_body={"ignore_eos": True},
        ) as stream:  # fmt: skip
            next(stream)
        wait_until(lambda: not engine.streams)
        assert LONG["max_tokens"] == 1500  # the answer was far from its end
        server.wait_idle()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl(server):
    body = json.dumps({"messages": MESSAGES, "temperature": 0, "max_tokens": 20})
    command = ["curl", "-sS", server.url + "/v1/chat/completions", "-d", body]
    command += ["-H", "Content-Type: application/json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = json.loads(result.stdout)
    assert answer["choices"][0]["message"]["content"] == theirs()
