"""Logprobs in both forms, echo, and OpenAI's penalties: beside HuggingFace's logits."""

import pytest
import torch
from transformers import GenerationConfig, LogitsProcessorList

from helpers.http_serving import FRANCE, chat_tokens, pocket
from minipaged.serving.penalties import SaidPenalty

CLOSE = {"abs": 1e-4}  # float32, of other shapes


def raw_logprobs(prompt, tokens):
    """[tokens, vocabulary]: HuggingFace's, of each token of an answer."""
    model, _ = pocket()
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0]
    return torch.log_softmax(logits, dim=-1)[len(prompt) - 1 : -1]


def first_of(row, token, count):
    """The token itself, then the likeliest others: {name: logprob}."""
    tokenizer = pocket()[1]
    ids = [token, *(i for i in row.topk(count).indices.tolist() if i != token)]
    return {tokenizer.decode([i]): row[i].item() for i in ids[:count]}


def check(found, row, token, count):
    wanted = first_of(row, token, count)
    assert list(found) == list(wanted)
    for name, logprob in wanted.items():
        assert found[name] == pytest.approx(logprob, **CLOSE)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("stream", [False, True])
def test_of_completions(server, count, stream):
    prompt = pocket()[1](FRANCE).input_ids
    fields = {"temperature": 1.5, "seed": 4, "max_tokens": 8, "logprobs": count}
    if stream:
        parts = server.events("/v1/completions", prompt=FRANCE, **fields)
        found = {}
        for part in parts:
            for name, values in part["choices"][0]["logprobs"].items():
                found.setdefault(name, []).extend(values)
        text = "".join(part["choices"][0]["text"] for part in parts)
    else:
        (choice,) = server.complete(FRANCE, **fields)["choices"]
        found, text = choice["logprobs"], choice["text"]
    assert "".join(found["tokens"]).replace("<|end|>", "") == text
    tokens = pocket()[1].convert_tokens_to_ids(
        [pocket()[1].tokenize(t)[0] for t in found["tokens"]]
    )
    rows = raw_logprobs(prompt, tokens)
    for place, (row, token) in enumerate(zip(rows, tokens, strict=True)):
        assert found["token_logprobs"][place] == pytest.approx(
            row[token].item(), **CLOSE
        )
        # The token itself, and `count` more, if it is not among them.
        names = first_of(row, token, count + 1)
        if token in row.topk(count).indices.tolist():
            names = first_of(row, token, count)
        assert found["top_logprobs"][place].keys() == names.keys()
        start = found["text_offset"][place]
        assert start == sum(map(len, found["tokens"][:place]))


@pytest.mark.parametrize("stream", [False, True])
def test_of_chats(server, stream):
    messages = [{"role": "user", "content": FRANCE}]
    fields = {"temperature": 0, "max_tokens": 5, "logprobs": True, "top_logprobs": 2}
    if stream:
        parts = server.events("/v1/chat/completions", messages=messages, **fields)
        rows = [r for p in parts for r in p["choices"][0]["logprobs"]["content"]]
    else:
        (choice,) = server.chat(FRANCE, **fields)["choices"]
        rows = choice["logprobs"]["content"]
    tokens = [pocket()[1](row["token"]).input_ids[0] for row in rows]
    for row, token, theirs in zip(
        rows, tokens, raw_logprobs(chat_tokens(FRANCE), tokens), strict=True
    ):
        assert row["bytes"] == list(row["token"].encode())
        check({r["token"]: r["logprob"] for r in row["top_logprobs"]}, theirs, token, 2)
        assert row["logprob"] == row["top_logprobs"][0]["logprob"]
    plain = server.chat(FRANCE, temperature=0, max_tokens=2, logprobs=True)
    content = plain["choices"][0]["logprobs"]["content"]
    assert [row["top_logprobs"] for row in content] == [[], []]
    assert server.chat(FRANCE, max_tokens=1)["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("max_tokens", [0, 3])
def test_echo_shows_the_prompt_and_how_likely_it_was(server, stream, max_tokens):
    prompt = pocket()[1](FRANCE).input_ids
    fields = {"temperature": 0, "max_tokens": max_tokens, "echo": True, "logprobs": 1}
    answer = server.complete(FRANCE, **fields)
    choice = answer["choices"][0]
    if stream:
        parts = server.events("/v1/completions", prompt=FRANCE, **fields)
        choices = [part["choices"][0] for part in parts]
        assert "".join(one["text"] for one in choices) == choice["text"]
        columns = [one["logprobs"] for one in choices]
        joined = {k: [each for c in columns for each in c[k]] for k in columns[0]}
        assert joined.keys() == choice["logprobs"].keys()
        assert joined["tokens"] == choice["logprobs"]["tokens"]
        assert joined["text_offset"] == choice["logprobs"]["text_offset"]
        return
    found = choice["logprobs"]
    assert (
        choice["text"].startswith(FRANCE)
        and answer["usage"]["completion_tokens"] == max_tokens
    )
    assert len(found["tokens"]) == len(prompt) + max_tokens
    assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
    rows = raw_logprobs(prompt[:1], prompt[1:])
    for place, (row, token) in enumerate(zip(rows, prompt[1:], strict=True), 1):
        assert found["token_logprobs"][place] == pytest.approx(
            row[token].item(), **CLOSE
        )
        text = "".join(found["tokens"])
        start = found["text_offset"][place]
        assert text[start:].startswith(found["tokens"][place])
    if not max_tokens:
        assert choice["text"] == FRANCE


def test_echo_without_logprobs_of_texts_and_token_ids(server):
    ids = pocket()[1](FRANCE).input_ids
    fields = {"temperature": 0, "max_tokens": 2, "echo": True}
    one, other = (server.complete(prompt, **fields) for prompt in (FRANCE, ids))
    assert one["choices"][0]["text"] == other["choices"][0]["text"]
    assert one["choices"][0]["text"].startswith(FRANCE)
    parts = server.events("/v1/completions", prompt=[FRANCE, "A"], **fields, n=2)
    texts = [""] * 4
    for part in parts:
        texts[part["choices"][0]["index"]] += part["choices"][0]["text"]
    assert texts[0] == texts[1] == one["choices"][0]["text"]
    assert texts[2] == texts[3] and texts[2].startswith("A")


@pytest.mark.parametrize("count", [0, 3])
def test_a_prompt_s_logprobs_are_vllm_s(server, count):
    prompt = pocket()[1](FRANCE).input_ids
    fields = {"max_tokens": 1, "prompt_logprobs": count}
    (choice,) = server.complete(FRANCE, **fields)["choices"]
    of_chat = server.chat(FRANCE, **fields)
    assert "prompt_logprobs" not in of_chat["choices"][0]
    for ids, found in [
        (prompt, choice["prompt_logprobs"]),
        (chat_tokens(FRANCE), of_chat["prompt_logprobs"]),
    ]:
        first, *entries = found
        assert first is None and len(entries) == len(ids) - 1
        rows = raw_logprobs(ids[:1], ids[1:])
        for entry, token, row in zip(entries, ids[1:], rows, strict=True):
            likeliest = row.topk(count).indices.tolist()
            assert {int(name) for name in entry} == {token, *likeliest}
            own = entry[str(token)]
            assert own["logprob"] == pytest.approx(row[token].item(), **CLOSE)
            assert own["decoded_token"] == pocket()[1].decode([token])
            ranks = [entry[str(each)]["rank"] for each in likeliest]
            assert ranks == [*range(1, count + 1)]
            assert token in likeliest or own["rank"] is None


def test_a_prompt_s_logprobs_beside_echo_and_in_streams(server):
    fields = {"max_tokens": 1, "echo": True, "logprobs": 1, "temperature": 0}
    plain = server.complete(FRANCE, **fields)["choices"][0]
    both = server.complete(FRANCE, **fields, prompt_logprobs=4)["choices"][0]
    assert len(both.pop("prompt_logprobs")[1]) >= 4
    assert both == plain
    body = {"prompt": FRANCE, "prompt_logprobs": 1, "stream": True}
    status, error = server.error("/v1/completions", body)
    assert status == 400 and error["param"] == "prompt_logprobs"


def test_tokens_by_their_ids(server):
    answer = server.complete(
        [5], logprobs=1, max_tokens=1, temperature=0, return_tokens_as_token_ids=True
    )
    found = answer["choices"][0]["logprobs"]
    assert found["tokens"][0].startswith("token_id:")
    assert found["tokens"][0] in found["top_logprobs"][0]


def test_beams_with_logprobs(server):
    fields = {"use_beam_search": True, "n": 2, "max_tokens": 5, "logprobs": 1}
    for choice in server.complete(FRANCE, **fields)["choices"]:
        joined = "".join(choice["logprobs"]["tokens"]).replace("<|end|>", "")
        assert joined == choice["text"]


def naive_penalties(prompt, presence, frequency, count):
    """Greedy, by HuggingFace's model: logits - frequency x count - presence."""
    model, _ = pocket()
    said = []
    for _ in range(count):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + said])).logits[0, -1]
        for token in set(said):
            logits[token] -= presence + frequency * said.count(token)
        said.append(int(logits.argmax()))
        if said[-1] == 1:
            break
    return pocket()[1].decode(said, skip_special_tokens=True)


@pytest.mark.parametrize(("presence", "frequency"), [(2, 0), (0, 2), (1.5, -0.5)])
def test_penalties_of_what_was_said(server, presence, frequency):
    text = "Once upon a time"
    prompt = pocket()[1](text).input_ids
    theirs = naive_penalties(prompt, presence, frequency, 40)
    fields = {"presence_penalty": presence, "frequency_penalty": frequency}
    answer = server.complete(text, temperature=0, max_tokens=40, **fields)
    assert answer["choices"][0]["text"] == theirs
    assert theirs != naive_penalties(prompt, 0, 0, 40)


def test_penalties_are_a_processor_that_huggingface_takes(server):
    model, tokenizer = pocket()
    ids = tokenizer("Once upon a time", return_tensors="pt").input_ids
    penalty = SaidPenalty(ids.shape[1], 1.0, 0.5)
    torch.manual_seed(3)
    config = GenerationConfig(
        do_sample=True, temperature=1.3, top_k=0, max_new_tokens=20, pad_token_id=0
    )
    with torch.no_grad():
        out = model.generate(
            ids,
            generation_config=config,
            logits_processor=LogitsProcessorList([penalty]),
        )
    theirs = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
    fields = {"presence_penalty": 1.0, "frequency_penalty": 0.5, "temperature": 1.3}
    answer = server.complete("Once upon a time", seed=3, max_tokens=20, **fields)
    assert answer["choices"][0]["text"] == theirs
