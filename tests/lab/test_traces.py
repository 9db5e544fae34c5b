"""Request-length traces: their means, their limits, and reading a ShareGPT file."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from minipaged.lab.measure.traces import (
    MAX_LENGTH,
    alpaca_like,
    sharegpt_file,
    sharegpt_like,
)
from minipaged.memory.contiguous import RequestLengths

MEANS = {sharegpt_like: (161.31, 337.99), alpaca_like: (19.31, 58.45)}  # figure 11


@pytest.mark.parametrize("make", MEANS)
@pytest.mark.parametrize("seed", range(6))
def test_sample_means_are_the_papers(make, seed):
    lengths = np.array(make(2000, seed))
    assert lengths.mean(axis=0) == pytest.approx(MEANS[make], rel=0.02)


@pytest.mark.parametrize("make", MEANS)
@pytest.mark.parametrize("seed", range(3))
def test_lengths_are_plain_integers_that_a_model_of_2048_can_hold(make, seed):
    requests = make(2000, seed)
    assert len(requests) == 2000
    assert all(isinstance(request, RequestLengths) for request in requests)
    assert {type(length) for request in requests for length in request} == {int}
    assert min(min(request) for request in requests) >= 1
    assert max(sum(request) for request in requests) <= MAX_LENGTH


@pytest.mark.parametrize("make", MEANS)
def test_tails_are_heavy_and_prompts_independent_of_outputs(make):
    lengths = np.array(make(2000, seed=0), dtype=float)
    assert (np.median(lengths, axis=0) < 0.9 * lengths.mean(axis=0)).all()
    assert abs(np.corrcoef(np.log(lengths.T))[0, 1]) < 0.1


def test_sharegpt_varies_more_than_alpaca():
    chats, instructions = (np.array(make(2000, 0)) for make in MEANS)
    assert (chats.std(axis=0) > instructions.std(axis=0)).all()


def test_the_spread_of_sharegpt_outputs_is_the_one_read_from_figure_2():
    outputs = np.array(sharegpt_like(2000, 0))[:, 1]
    per_request = 0.133 * 15_728 / 7  # reserved slots of each of Orca (Max)'s requests
    ratio = (outputs**2).mean() / outputs.mean()
    assert ratio == pytest.approx(2 * per_request, rel=0.03)


@pytest.mark.parametrize("make", MEANS)
def test_the_seed_decides(make):
    assert make(50, seed=3) == make(50, seed=3) != make(50, seed=4)


@pytest.mark.parametrize("make", MEANS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_small_traces(make, n):
    assert len(make(n)) == n


def test_a_single_draw_still_varies():
    outputs = [sharegpt_like(1, seed)[0].output for seed in range(60)]
    assert np.std(np.log(outputs)) == pytest.approx(0.8, rel=0.3)


# --- the real format ------------------------------------------------------------------


def words(text: str) -> SimpleNamespace:
    """A tokenizer of whole words, with HuggingFace's way to be called."""
    return SimpleNamespace(input_ids=text.split())


def turn(speaker: str, text: object) -> dict:
    return {"from": speaker, "value": text}


def write(tmp_path, conversations) -> str:
    path = tmp_path / "sharegpt.json"
    path.write_text(json.dumps(conversations), encoding="utf-8")
    return path


GOOD = [
    {"id": "a", "conversations": [turn("human", "one two"), turn("gpt", "three")]},
    {
        "id": "b",
        "conversations": [
            turn("system", "be brief"),
            turn("human", "what is käse ?"),
            turn("gpt", "cheese , I think"),
            turn("human", "are you sure"),
            turn("gpt", "yes"),
        ],
    },
]
MALFORMED = [
    {},
    {"conversations": None},
    {"conversations": []},
    {"conversations": ["human", "gpt"]},
    {"conversations": [{"from": "human"}, turn("gpt", "hi")]},
    {"conversations": [turn("human", "alone")]},
    {"conversations": [turn("gpt", "hi"), turn("human", "bye")]},
    {"conversations": [turn("human", None), turn("gpt", "hi")]},
    {"conversations": [turn("human", "hello"), turn("gpt", "")]},
    "text",
    None,
]


def test_the_first_question_and_answer_are_counted(tmp_path):
    path = write(tmp_path, GOOD)
    assert sharegpt_file(path, words) == [RequestLengths(2, 1), RequestLengths(4, 4)]
    assert sharegpt_file(str(path), words) == sharegpt_file(path, words)


@pytest.mark.parametrize("position", range(3))
def test_malformed_conversations_are_skipped(tmp_path, position):
    mixed = GOOD[:position] + MALFORMED + GOOD[position:]
    requests = sharegpt_file(write(tmp_path, mixed), words)
    assert requests == [RequestLengths(2, 1), RequestLengths(4, 4)]


def test_conversations_that_no_model_of_2048_could_serve_are_skipped(tmp_path):
    fits = {"conversations": [turn("human", "q " * 1000), turn("gpt", "a " * 1048)]}
    longer = {"conversations": [turn("human", "q " * 1000), turn("gpt", "a " * 1049)]}
    requests = sharegpt_file(write(tmp_path, [longer, fits]), words)
    assert requests == [RequestLengths(1000, 1048)]


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_limit_stops_early(tmp_path, limit):
    path = write(tmp_path, MALFORMED + GOOD)
    assert len(sharegpt_file(path, words, limit=limit)) == min(limit, 2)


def test_limit_tokenizes_no_more_than_needed(tmp_path):
    seen = []
    path = write(tmp_path, GOOD)
    sharegpt_file(path, lambda text: seen.append(text) or words(text), limit=1)
    assert seen == ["one two", "three"]


def test_an_unusable_file_says_how_much_was_skipped(tmp_path):
    longer = {"conversations": [turn("human", "q " * 2048), turn("gpt", "a")]}
    with pytest.raises(ValueError, match="11 malformed, 1 longer than 2048"):
        sharegpt_file(write(tmp_path, [*MALFORMED, longer]), words)


@pytest.mark.parametrize("content", [{"conversations": []}, "text", None])
def test_a_file_that_is_no_list_is_refused(tmp_path, content):
    with pytest.raises(ValueError, match="no JSON list"):
        sharegpt_file(write(tmp_path, content), words)


def test_a_huggingface_tokenizer_will_do(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    model = tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    path = write(tmp_path, GOOD)
    assert sharegpt_file(path, tokenizer) == sharegpt_file(path, words)


def test_the_ratios_of_the_means_are_the_papers():
    (chat_in, chat_out), (short_in, short_out) = MEANS.values()
    assert math.isclose(chat_in / short_in, 8.4, rel_tol=0.01)
    assert math.isclose(chat_out / short_out, 5.8, rel_tol=0.01)
