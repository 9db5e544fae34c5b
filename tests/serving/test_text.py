"""An answer's text: held before a stop string, and never taken back."""

import random

import pytest

from helpers.http_serving import FRANCE, huggingface_texts, pocket
from minipaged.serving.text import AnswerText, NamingDecoder

STORY = "Once upon a time"
ANSWER = " there was a hat. The hat was red: é, 日本, and 🐧. The end"


def decoder():
    return NamingDecoder(pocket()[1])


def said(text, tokens):
    """The pieces, and the rest."""
    pieces = [text.add(token) for token in tokens]
    return [*pieces, text.rest()]


@pytest.mark.parametrize(
    ("stops", "keeps", "expected", "stopped_by"),
    [
        ([], False, ANSWER, None),
        (["hat"], False, " there was a ", "hat"),
        (["hat"], True, " there was a hat", "hat"),
        (["red", "hat"], False, " there was a ", "hat"),
        (["a hat", "hat."], False, " there was ", "a hat"),
        (["hat. The hat w"], False, " there was a ", "hat. The hat w"),
        (["hats"], False, ANSWER, None),
        (["The end!"], False, ANSWER, None),
        (["本"], False, ANSWER[: ANSWER.index("本")], "本"),
        (["🐧"], True, ANSWER[: ANSWER.index("🐧") + 1], "🐧"),
        ([" "], False, "", " "),
    ],
)
def test_the_text_ends_before_the_first_stop_string(stops, keeps, expected, stopped_by):
    shared, tokenizer = decoder(), pocket()[1]
    prompt = tokenizer(STORY).input_ids
    tokens = tokenizer(ANSWER).input_ids
    text = AnswerText(shared, prompt, stops, keeps)
    assert "".join(said(text, tokens)) == expected
    assert text.stopped_by == stopped_by
    text = AnswerText(shared, prompt, stops, keeps)
    assert text.whole(tokens) == expected and text.stopped_by == stopped_by


def test_only_what_may_begin_a_stop_string_is_held():
    shared, tokenizer = decoder(), pocket()[1]
    text = AnswerText(shared, [5], ["a red hat!"])
    pieces = said(text, tokenizer(" a red car, a red hat.").input_ids)
    assert "".join(pieces) == " a red car, a red hat."
    for number in range(len(pieces)):
        told = "".join(pieces[: number + 1])
        if told != " a red car, a red hat.":
            assert not told.endswith(("a red hat", "a red "))


def test_pieces_and_the_whole_agree_whatever_the_tokens_are():
    shared = decoder()
    draw = random.Random(3)
    for _ in range(300):
        prompt = [draw.randrange(1024) for _ in range(draw.randrange(1, 9))]
        tokens = [draw.randrange(1024) for _ in range(draw.randrange(12))]
        letters = ["e", " t", "th", "\n", "�"]
        stops = draw.sample(letters, draw.randrange(3))
        keeps = draw.random() < 0.5
        one, other = (AnswerText(shared, prompt, stops, keeps) for _ in range(2))
        assert "".join(said(one, tokens)) == other.whole(tokens)
        assert one.stopped_by == other.stopped_by


def test_a_word_after_the_prompt_keeps_its_space():
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    words = {"▁The": 0, "▁capital": 1, "▁Paris": 2, "s": 3}
    bare = Tokenizer(models.WordLevel(words, unk_token="s"))
    bare.decoder = decoders.Metaspace()
    shared = NamingDecoder(PreTrainedTokenizerFast(tokenizer_object=bare))
    assert shared.decode([2]) == "Paris"
    assert "".join(said(AnswerText(shared, [0, 1]), [2, 3])) == " Pariss"
    assert AnswerText(shared, [0, 1]).whole([2, 3]) == " Pariss"


@pytest.mark.parametrize("keeps", [False, True])
def test_stop_strings_of_requests(server, keeps):
    prompt = STORY
    full = huggingface_texts(prompt, max_new_tokens=60)[0]
    stop = full[25:29]
    end = full.index(stop) + len(stop) * keeps
    fields = {
        "temperature": 0,
        "max_tokens": 60,
        "stop": [stop, "never this"],
        "include_stop_str_in_output": keeps,
    }
    (choice,) = server.complete(prompt, **fields)["choices"]
    assert choice["text"] == full[:end]
    assert choice["finish_reason"] == "stop" and choice["stop_reason"] == stop
    parts = server.events("/v1/completions", prompt=prompt, **fields)
    choices = [part["choices"][0] for part in parts]
    assert "".join(one["text"] for one in choices) == full[:end]
    assert choices[-1]["finish_reason"] == "stop"
    assert choices[-1]["stop_reason"] == stop


@pytest.mark.parametrize("stop", ["time a f", "e a", "time a"])
def test_a_stop_string_may_not_begin_in_the_prompt(server, stop):
    """As with vLLM. HuggingFace would end there, in the middle of a word."""
    full = huggingface_texts(STORY, max_new_tokens=20)[0]
    assert stop not in full and stop in STORY + full
    fields = {"temperature": 0, "max_tokens": 20, "stop": [stop]}
    (choice,) = server.complete(STORY, **fields)["choices"]
    assert choice["text"] == full and choice["finish_reason"] == "length"
    parts = server.events("/v1/completions", prompt=STORY, **fields)
    assert "".join(part["choices"][0]["text"] for part in parts) == full


def test_a_stop_token_is_named_and_an_end_is_not(server):
    token = pocket()[1](" Paris.").input_ids[1]
    fields = {"temperature": 0, "max_tokens": 9}
    (choice,) = server.complete(FRANCE, stop_token_ids=[token], **fields)["choices"]
    assert choice["finish_reason"] == "stop" and choice["stop_reason"] == token
    (choice,) = server.complete(FRANCE, **fields)["choices"]
    assert choice["finish_reason"] == "stop" and choice["stop_reason"] is None
