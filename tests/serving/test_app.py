"""The endpoints: answers are those of HuggingFace's `generate`."""

import itertools

import httpx
import pytest

from helpers.http_serving import (
    FRANCE,
    chat_tokens,
    huggingface_texts,
    pocket,
    served,
)
from minipaged.serving.limits import Limits

STORY = "Once upon a time"
COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"

# Fields of a request, and the same in HuggingFace's words.
KINDS = [
    ({"temperature": 0}, {"do_sample": False}),
    ({"temperature": 1e-9}, {"do_sample": False}),
    ({}, {"do_sample": True}),
    ({"temperature": 1.5}, {"do_sample": True, "temperature": 1.5}),
    ({"top_p": 0.7}, {"do_sample": True, "top_p": 0.7}),
    ({"top_k": 3}, {"do_sample": True, "top_k": 3}),
    ({"top_k": -1, "min_p": 0.2}, {"do_sample": True, "min_p": 0.2}),
    (
        {"repetition_penalty": 1.3, "temperature": 0},
        {"repetition_penalty": 1.3, "do_sample": False},
    ),
    (
        {"logit_bias": {"30": 100, "31": -5.5}, "temperature": 0},
        {"sequence_bias": [[[30], 100.0], [[31], -5.5]], "do_sample": False},
    ),
    (
        {"ignore_eos": True, "temperature": 0, "max_tokens": 25},
        {"eos_token_id": 1024, "do_sample": False, "max_new_tokens": 25},
    ),
    (
        {"stop_token_ids": [15], "temperature": 0},
        {"eos_token_id": [1, 15], "do_sample": False},
    ),
    (
        {"min_tokens": 20, "temperature": 0, "max_tokens": 30},
        {"min_new_tokens": 20, "do_sample": False, "max_new_tokens": 30},
    ),
]


def seed_of(options):
    return 5 if options.get("do_sample") else None


@pytest.mark.parametrize(("fields", "options"), KINDS)
def test_completions_say_what_generate_says(server, fields, options):
    options = {"max_new_tokens": 16} | options  # OpenAI's default
    theirs = huggingface_texts(STORY, seed_of(options), **options)
    answer = server.complete(STORY, seed=5, **fields)
    assert [choice["text"] for choice in answer["choices"]] == theirs
    assert answer["object"] == "text_completion" and answer["model"] == "pocket"
    parts = server.events(COMPLETIONS, prompt=STORY, seed=5, **fields)
    assert "".join(part["choices"][0]["text"] for part in parts) == theirs[0]
    reasons = [part["choices"][0]["finish_reason"] for part in parts]
    assert reasons == [None] * (len(parts) - 1) + [
        answer["choices"][0]["finish_reason"]
    ]


@pytest.mark.parametrize(("fields", "options"), KINDS)
def test_chats_say_what_generate_says(server, fields, options):
    limit = options.get("max_new_tokens", 40)
    options = options | {"max_new_tokens": limit}
    theirs = huggingface_texts(chat_tokens(FRANCE), seed_of(options), **options)
    fields = {"seed": 5, "max_completion_tokens": limit} | fields
    answer = server.chat(FRANCE, **fields)
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": theirs[0]}
    messages = [{"role": "user", "content": FRANCE}]
    parts = server.events(CHATS, messages=messages, **fields)
    deltas = [part["choices"][0]["delta"] for part in parts]
    assert "".join(delta["content"] for delta in deltas) == theirs[0]
    # With the first token, not before it.
    assert [delta.get("role") for delta in deltas] == ["assistant"] + [None] * (
        len(deltas) - 1
    )
    assert deltas[0]["content"] or len(deltas) == 1


def test_an_event_may_wait_for_several_tokens_but_the_first_does_not():
    options = {"stream_options": {"continuous_usage_stats": True}}
    with served(limits=Limits(stream_interval=12)) as server:
        parts = server.events(
            COMPLETIONS, prompt=STORY, max_tokens=40, ignore_eos=True, temperature=0,
            **options,
        )  # fmt: skip
    texts = [part["choices"][0]["text"] for part in parts]
    right = huggingface_texts(STORY, max_new_tokens=40, eos_token_id=1024)[0]
    assert "".join(texts) == right
    counts = [part["usage"]["completion_tokens"] for part in parts]
    # Nearly always 1; more, if the engine was quicker than whoever sends.
    assert counts[0] < 12 and counts[-1] == 40
    steps = [b - a for a, b in itertools.pairwise(counts[:-1])]
    assert steps and min(steps) >= 12


def test_several_samples_have_seeds_that_follow_each_other(server):
    options = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 12}
    theirs = [huggingface_texts(STORY, seed, **options)[0] for seed in (7, 8, 9)]
    assert len(set(theirs)) == 3
    fields = {"n": 3, "seed": 7, "temperature": 1.5, "max_tokens": 12}
    choices = server.complete(STORY, **fields)["choices"]
    assert [choice["text"] for choice in choices] == theirs
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    texts = ["", "", ""]
    for part in server.events(COMPLETIONS, prompt=STORY, **fields):
        (choice,) = part["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == theirs


def test_samples_share_the_blocks_of_their_prompt(server):
    prompt = "The fox and the penguin. " * 20
    before = server.engine.stats.prefix_cache_hits
    tokens = server.complete(prompt, n=4, max_tokens=2)["usage"]["prompt_tokens"]
    shared = server.engine.stats.prefix_cache_hits - before
    assert shared == 3 * ((tokens - 1) // 16 * 16)


def test_many_prompts_of_texts_or_token_ids(server):
    prompts = [FRANCE, STORY]
    theirs = [huggingface_texts(p, max_new_tokens=16)[0] for p in prompts]
    ids = pocket()[1](prompts).input_ids
    for asked in (prompts, ids):
        answer = server.complete(asked, temperature=0)
        assert [choice["text"] for choice in answer["choices"]] == theirs
        assert answer["usage"]["prompt_tokens"] == sum(map(len, ids))
    assert server.complete(ids[0], temperature=0)["choices"][0]["text"] == theirs[0]
    answer = server.complete(prompts, n=2, temperature=0)
    found = [(choice["index"], choice["text"]) for choice in answer["choices"]]
    assert found == [*enumerate([theirs[0]] * 2 + [theirs[1]] * 2)]


@pytest.mark.parametrize("penalty", [None, 0.5, 2.0])
def test_the_best_of_beams(server, penalty):
    options = {"num_beams": 4, "num_return_sequences": 2, "max_new_tokens": 10}
    extra = {} if penalty is None else {"length_penalty": penalty}
    theirs = huggingface_texts(STORY, **options, **extra)
    fields = {"use_beam_search": True, "best_of": 4, "n": 2, "max_tokens": 10}
    choices = server.complete(STORY, **fields, **extra)["choices"]
    assert [choice["text"] for choice in choices] == theirs
    assert [choice["index"] for choice in choices] == [0, 1]


def test_usage_counts_and_chunks_of_it(server):
    fields = {"prompt": FRANCE, "temperature": 0, "max_tokens": 3}
    usage = server.complete(FRANCE, temperature=0, max_tokens=3)["usage"]
    num_prompt = len(pocket()[1](FRANCE).input_ids)
    assert usage["prompt_tokens"] == num_prompt and usage["completion_tokens"] == 3
    assert usage["total_tokens"] == num_prompt + 3
    options = {"include_usage": True}
    *parts, last = server.events(COMPLETIONS, **fields, stream_options=options)
    assert last["choices"] == [] and last["usage"]["total_tokens"] == num_prompt + 3
    assert all(part["usage"] is None for part in parts)
    options = {"include_usage": True, "continuous_usage_stats": True}
    # A slow client finds several tokens in a piece: of 48 the first has at most a half.
    longer = fields | {"max_tokens": 24, "ignore_eos": True, "n": 2}
    parts = server.events(COMPLETIONS, **longer, stream_options=options)
    counts = [part["usage"]["completion_tokens"] for part in parts]
    assert counts == sorted(counts) and counts[-1] == 48 and 1 <= counts[0] <= 24
    assert sum(not part["choices"] for part in parts) == 1
    assert "usage" not in server.events(COMPLETIONS, **fields)[0]


def test_cached_tokens_are_told(server):
    prompt = "A hat for the penguin, a hat for the fox, and a hat for you. " * 3
    tokens = server.complete(prompt, max_tokens=1)["usage"]["prompt_tokens"]
    usage = server.complete(prompt, max_tokens=1)["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert cached == (tokens - 1) // 16 * 16 > 0
    usage = server.complete(prompt, max_tokens=1, cache_salt="mine")["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0


def test_a_prompt_leaves_the_answer_what_room_there_is():
    with served(max_model_len=32) as server:
        prompt = [5] * 30
        fields = {"temperature": 0, "ignore_eos": True}
        answer = server.complete(prompt, max_tokens=20, **fields)
        assert answer["usage"]["completion_tokens"] == 2  # as vLLM: in silence
        status, error = server.error(COMPLETIONS, {"prompt": [5] * 32})
        assert status == 400 and error["param"] == "prompt"
        assert "32 tokens" in error["message"] and error["code"] == 400
        status, error = server.error(COMPLETIONS, {"prompt": [5], "max_tokens": 33})
        assert status == 400 and error["param"] == "max_tokens"
        chat = server.chat("a", **fields)  # without a limit: all that is left
        assert chat["usage"]["total_tokens"] == 32


def test_models_health_and_names(server):
    found = httpx.get(server.url + "/v1/models").json()
    assert [model["id"] for model in found["data"]] == ["pocket", "other"]
    assert {model["max_model_len"] for model in found["data"]} == {2048}
    one = httpx.get(server.url + "/v1/models/other").json()
    assert one["id"] == "other" and one["root"] == "pocket"
    assert server.complete(model="other")["model"] == "other"
    status, error = server.error(COMPLETIONS, {"prompt": "a", "model": "gpt"})
    assert status == 404 and error["type"] == "NotFoundError" and "gpt" in str(error)
    assert httpx.get(server.url + "/v1/models/gpt").status_code == 404
    assert httpx.get(server.url + "/health").status_code == 200
    missing = httpx.get(server.url + "/v1/nothing")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == 404


def test_tokens_of_texts_and_texts_of_tokens(server):
    tokenizer = pocket()[1]
    ids = tokenizer(FRANCE).input_ids
    told = server.post(
        "/tokenize", {"prompt": FRANCE, "return_token_strs": True}
    ).json()
    assert told["tokens"] == ids and told["count"] == len(ids)
    assert told["token_strs"] == tokenizer.convert_ids_to_tokens(ids)
    assert server.post("/detokenize", {"tokens": ids}).json() == {"prompt": FRANCE}
    messages = [{"role": "user", "content": FRANCE}]
    told = server.post("/tokenize", {"messages": messages}).json()
    assert told["tokens"] == chat_tokens(FRANCE)
    status, error = server.error("/detokenize", {"tokens": [5000]})
    assert status == 400 and "1023" in error["message"]


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"prompt": 5}, "prompt", "prompt: Input should be a valid string"),
        ({"prompt": "a", "x": 1}, "x", "x is no field that this server knows"),
        ({"prompt": "a", "tools": [1]}, "tools", "tools is not supported"),
        ({"messages": []}, "messages", "messages: List should have at least 1 item"),
        (
            {"messages": [{"role": "user", "content": 3}]},
            "messages",
            "messages.0.content must be text or text parts",
        ),
        ({}, "prompt", "prompt: Field required"),
        ([], None, "the body must be a JSON object"),
    ],
)
def test_tokenize_names_the_field_at_fault(server, body, param, said):
    status, error = server.error("/tokenize", body)
    assert (status, error["param"]) == (400, param)
    assert error["message"].startswith(said)


def test_messages_in_parts_and_an_answer_that_goes_on(server):
    parts = [{"type": "text", "text": "The capital"}, {"type": "text", "text": "of"}]
    asked = {"messages": [{"role": "user", "content": parts}]}
    told = server.post("/tokenize", asked).json()["tokens"]
    assert told == chat_tokens("The capital\nof")
    messages = [
        {"role": "user", "content": FRANCE},
        {"role": "assistant", "content": "The capital of"},
    ]
    asked = {"messages": messages, "continue_final_message": True}
    told = server.post("/tokenize", asked).json()["tokens"]
    assert pocket()[1].decode(told).endswith("<|assistant|>The capital of")
