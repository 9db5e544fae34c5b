"""Every field is honoured, or refused by its name; so is what does not fit."""

import json
import re
from pathlib import Path

import pytest
from openai.types import completion_create_params as completions
from openai.types.chat import completion_create_params as chats

from minipaged import serving
from minipaged.serving.protocol import MUST_BE, REFUSED, ChatRequest, CompletionRequest

MODELS = {"/v1/completions": CompletionRequest, "/v1/chat/completions": ChatRequest}
LEAST = {
    "/v1/completions": {"prompt": "a", "max_tokens": 1},
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "a"}],
        "max_completion_tokens": 1,
    },
}
each_path = pytest.mark.parametrize("path", MODELS)


@pytest.mark.parametrize(
    ("path", "theirs"),
    [
        ("/v1/completions", completions.CompletionCreateParamsBase),
        ("/v1/chat/completions", chats.CompletionCreateParamsBase),
    ],
)
def test_what_openai_s_client_may_send_is_known(path, theirs):
    known = MODELS[path].model_fields.keys() | REFUSED.keys()
    assert theirs.__annotations__.keys() - {"stream"} <= known


@each_path
def test_no_field_is_both(path):
    assert not MODELS[path].model_fields.keys() & REFUSED.keys()


@each_path
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_honoured_is_refused_with_its_name_and_the_reason(
    server, path, name
):
    if name == "documents" and path == "/v1/completions":
        pytest.skip("of chats")
    status, error = server.error(path, LEAST[path] | {name: ["something"]})
    assert status == 400 and error["param"] == name
    assert REFUSED[name].why in error["message"] and error["message"].startswith(name)
    harmless = {name: None}, *({name: value} for value in REFUSED[name].harmless)
    for given in harmless:
        assert server.post(path, LEAST[path] | given).status_code == 200


@each_path
def test_what_nobody_knows_is_refused_by_its_name(server, path):
    for value in (None, 0, 1):
        status, error = server.error(path, LEAST[path] | {"warmth": value})
        assert status == 400 and error["param"] == "warmth"
        assert error["type"] == "BadRequestError" and "warmth" in error["message"]
    nested = {"stream": True, "stream_options": {"usage": True}}
    status, error = server.error(path, LEAST[path] | nested)
    assert status == 400 and "stream_options.usage" in error["message"]


@each_path
def test_null_means_not_given(server, path):
    names = MODELS[path].model_fields.keys() - {"prompt", "messages"}
    assert server.post(path, LEAST[path] | dict.fromkeys(names)).status_code == 200


BOTH = [
    ({"temperature": -1}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"temperature": float("inf")}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"n": 0}, "n"),
    ({"n": True}, "n"),
    ({"n": 10**9}, None),
    ({"max_tokens": -1}, "max_tokens"),
    ({"seed": 2**63}, "seed"),
    ({"seed": 10**4000}, "seed"),
    ({"presence_penalty": 2.5}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"logit_bias": {"1024": 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"a": 1}}, "logit_bias"),
    ({"logit_bias": {"\ud800": 1}}, "logit_bias"),
    ({"logit_bias": {"²": 1}}, "logit_bias"),
    ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
    ({"logit_bias": {"5": 1e30}}, "logit_bias"),
    ({"stop": [""]}, "stop"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stop": ["a" * 300]}, "stop"),
    ({"stop_token_ids": [1024]}, "stop_token_ids"),
    ({"stop_token_ids": [-1]}, "stop_token_ids"),
    ({"best_of": 2}, "best_of"),
    ({"length_penalty": 2.0}, "length_penalty"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"use_beam_search": True, "n": 2, "stream": True}, "stream"),
    ({"use_beam_search": True, "n": 2, "seed": 1}, "seed"),
    ({"use_beam_search": True, "n": 2, "temperature": 0.5}, "temperature"),
    ({"use_beam_search": True, "n": 2, "stop": "a"}, "stop"),
    ({"use_beam_search": True, "n": 3, "best_of": 2}, "best_of"),
    ({"use_beam_search": True, "n": 600}, None),
    ({"cache_salt": ""}, "cache_salt"),
    ({"cache_salt": "\ud800"}, "cache_salt"),
    ({"model": "\ud800"}, "model"),
    ({"stop": ["\ud800"]}, "stop"),
]
OWN = {
    "/v1/completions": [
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, None),
        ({"prompt": [[]]}, None),
        ({"prompt": [1.5]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [4000]}, None),
        ({"prompt": [-1]}, None),
        ({"prompt": [2**70]}, None),
        ({"prompt": ["a", 5]}, "prompt"),
        ({"prompt": {}}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"prompt": [0, 0, 5]}, None),  # pads
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
    ],
    "/v1/chat/completions": [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": [{"role": "user", "content": None}]}, "messages"),
        ({"messages": [{"role": "user", "content": "a", "x": 1}]}, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages",
        ),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": 2}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages"),
    ],
}


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [(path, *case) for path in MODELS for case in BOTH + OWN[path]],
)
def test_what_does_not_fit_is_refused(server, path, fields, param):
    body = json.dumps(LEAST[path] | fields).encode()  # NaN and Infinity, too
    answer = server.send(path, body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == param and error["code"] == 400
    assert error["message"] and len(error["message"]) < 600


BODIES = [
    b"",
    b"null",
    b"[]",
    b'"prompt"',
    b"{",
    b"\xff\xfe",
    b'{"prompt": "\xff"}',
    b'{"prompt": ' + b"[" * 100_000,
    b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b'{"prompt": ' + b"9" * 100_000 + b"}",
    b"\x00" * 1000,
    b'{"\\ud800": 1}',
    b'{"' + b"a" * 100_000 + b'": 1}',
]


@each_path
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_no_body_is_worse_than_refused(server, path, body):
    answer = server.send(path, body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "BadRequestError"


@each_path
def test_what_is_no_json_is_called_so(server, path):
    for body in (b"{", b"\xff\xfe", b"{'prompt': 'a'}", b"prompt=a"):
        error = server.send(path, body).json()["error"]
        assert error["message"] == "the body is not valid JSON"
        assert error["param"] is None
    for body in (b"", b"null", b"[]", b'"prompt"', b"5"):
        error = server.send(path, body).json()["error"]
        assert error["message"] == "the body must be a JSON object"
        assert error["param"] is None


IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}}
PART = {"type": "text", "text": "what is this?"}


@pytest.mark.parametrize("content", [[IMAGE], [PART, IMAGE], None, 5, {"text": "a"}])
def test_a_message_that_is_no_text_is_refused_in_words(server, content):
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": content}]
    status, error = server.error("/v1/chat/completions", {"messages": messages})
    assert (status, error["param"]) == (400, "messages")
    said = "messages.1.content must be text or text parts; images are not taken"
    assert error["message"] == said


@pytest.mark.parametrize("name", ["prompt", "stop"])
def test_a_field_of_several_types_says_what_it_may_be(server, name):
    for wrong in (5, {}, [1.5], [[1.5]], ["a", 5]):
        body = LEAST["/v1/completions"] | {name: wrong}
        _, error = server.error("/v1/completions", body)
        assert error["message"] == f"{name} {MUST_BE[name]}" and error["param"] == name
    for half in ("\\ud800", ["a", "\\ud800"]):
        body = json.dumps(LEAST["/v1/completions"] | {name: half}).replace("\\\\", "\\")
        error = server.send("/v1/completions", body.encode()).json()["error"]
        assert error["message"].startswith(f"{name}: ") and "surrogates" in str(error)


def test_a_body_of_another_kind_is_refused(server):
    body = json.dumps(LEAST["/v1/completions"]).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = server.send("/v1/completions", body, kind)
        error = answer.json()["error"]
        assert answer.status_code == 400 and error["param"] is None
        assert "with the header Content-Type: application/json" in error["message"]
    assert server.send("/v1/completions", body).status_code == 200


def test_the_page_lists_every_field():
    page = (Path(serving.__file__).parent / "README.md").read_text("utf-8")
    honoured, refused = page.split("## Fields: ")[1:]
    named = set(re.findall(r"`(\w+)`", honoured))
    fields = set().union(*(model.model_fields for model in MODELS.values()))
    assert fields <= named
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", refused, re.MULTILINE))
    assert rows == {name: refusal.why for name, refusal in REFUSED.items()}
