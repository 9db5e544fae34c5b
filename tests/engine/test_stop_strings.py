"""Texts that end with words of the user's choice, as HuggingFace ends them."""

import copy
import gc
import weakref
from functools import cache

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from minipaged.decoding import options
from minipaged.decoding.stop_strings import StopStrings
from minipaged.errors import UnsupportedOption

PROMPTS = ["Once upon a time", "Once there was a", "The capital of France is"]
STOPS = [
    ".",
    ["uin c"],  # over several tokens; it begins and ends inside of them
    ["time a f", "Paris"],  # it begins in the prompt
    ["never said"],
    ["en", " the"],
    ["ime a funny", "a funny", "ny pen", "pen", "pen"],  # overlapping
    ["<|user|>a", "é", "漢"],  # special tokens, bytes, and what no token makes
    "",  # it ends every text at once
]

SAMPLED = {"do_sample": True, "temperature": 1.2, "top_k": 0, "pad_token_id": 0}
KINDS = {
    "greedy": {},
    "sampled": SAMPLED,
    "samples": SAMPLED | {"num_return_sequences": 3},
}


@cache
def pocket():
    return mp.load("pocket", device="cpu")


def config(stop_strings, **options):
    return GenerationConfig(max_new_tokens=24, stop_strings=stop_strings, **options)


@cache
def huggingface(text, kind, stop, seed=None):
    """Its sequences of new tokens; behind a row's end it writes pads."""
    model, tokenizer = pocket()
    generation_config = config(STOPS[stop], **KINDS[kind])
    ids = torch.tensor([tokenizer(text).input_ids])
    with torch.random.fork_rng():
        torch.manual_seed(seed or 0)
        rows = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=generation_config,
            tokenizer=tokenizer,
        )
    pad = generation_config.pad_token_id or tokenizer.pad_token_id
    rows = rows[:, ids.shape[1] :].tolist()
    return [row[: row.index(pad) if pad in row else None] for row in rows]


def ours(texts, configs, seeds=None, **arguments):
    model, tokenizer = pocket()
    prompts = [tokenizer(text).input_ids for text in texts]
    arguments = {"tokenizer": tokenizer} | arguments
    paged = mp.PagedModel(model, 64)
    return mp.generate(paged, prompts, configs, seed=seeds, **arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_huggingface(kind):
    texts = [text for text in PROMPTS for _ in STOPS]
    stops = list(range(len(STOPS))) * len(PROMPTS)
    seeds = list(range(len(texts)))
    outputs = ours(texts, [config(STOPS[i], **KINDS[kind]) for i in stops], seeds)
    for text, stop, seed, out in zip(texts, stops, seeds, outputs, strict=True):
        theirs = huggingface(text, kind, stop, seed if kind != "greedy" else None)
        assert out.sequences == theirs, (text, STOPS[stop])
        if all(len(row) < 24 for row in theirs):
            assert out.finish_reason == "stop"


def test_an_engine_ends_a_text_there_too():
    model, tokenizer = pocket()
    engine = mp.Engine(mp.PagedModel(model, 16, 8), tokenizer=tokenizer)
    streams = [
        engine.add(tokenizer(text).input_ids, config(stop))
        for text in PROMPTS
        for stop in STOPS
    ]
    stops = range(len(STOPS))
    right = [huggingface(text, "greedy", stop) for text in PROMPTS for stop in stops]
    assert [out.sequences for out in engine.run()] == right
    assert [[stream.tokens] for stream in streams] == right


def test_it_may_look_at_the_answer_alone():
    """As OpenAI's API and vLLM do: "time a f" is not in " a funny penguin"."""
    model, tokenizer = pocket()
    prompt = tokenizer("Once upon a time").input_ids
    for speculation in (None, mp.PromptLookup()):
        engine = mp.Engine(
            mp.PagedModel(model, 16, 8), tokenizer=tokenizer, speculation=speculation
        )
        free = engine.add(prompt, config(None))
        for stop in ("time a f", "ime a", "e", " a f", "a fun", "never said"):
            here = engine.add(prompt, config(stop), stops_in_prompt=False)
            (tokens,) = here.result().sequences
            lengths = range(1, len(free.result().sequences[0]) + 1)
            (full,) = free.result().sequences
            texts = [tokenizer.decode(full[:length]) for length in lengths]
            right = next((n for n, text in enumerate(texts, 1) if stop in text), None)
            assert tokens == full[:right], stop
        theirs = engine.add(prompt, config("time a f")).result()
        assert theirs.sequences[0] == full[:2]


def test_the_stop_string_ends_the_text():
    (out,) = ours(["Once upon a time"], config("penguin"))
    _, tokenizer = pocket()
    (tokens,) = out.sequences
    assert out.finish_reason == "stop"
    assert "penguin" in tokenizer.decode(tokens)
    assert "penguin" not in tokenizer.decode(tokens[:-1])


def test_without_a_tokenizer_it_says_what_to_pass():
    with pytest.raises(ValueError, match=r"stop_strings=\['.'\].*tokenizer=\.\.\."):
        ours(["Once"], config(["."]), tokenizer=None)
    engine = mp.Engine(mp.PagedModel(pocket()[0], 16))
    with pytest.raises(ValueError, match="to the Engine"):
        engine.add([5], config("."))
    assert not engine.streams


def test_beams_are_refused_in_words():
    with pytest.raises(UnsupportedOption, match=r"num_beams=3 .* leave one of them"):
        ours(["Once"], config(".", num_beams=3))


def test_what_is_no_text_is_refused_in_words():
    for wrong in ([5], {"."}, 5, ["a", None]):
        with pytest.raises(TypeError, match="stop_strings must be a text or a list"):
            ours(["Once"], config(wrong))
    with pytest.raises(TypeError, match="tokenizer must be one of transformers"):
        ours(["Once"], config("."), tokenizer="pocket")


def test_only_the_last_tables_are_kept():
    """Each takes megabytes with a large vocabulary, and users choose the strings."""
    _, tokenizer = pocket()
    stop_strings = StopStrings(tokenizer)
    first = weakref.ref(stop_strings.for_strings("0."))
    assert stop_strings.for_strings("0.") is first()
    for number in range(1, 40):
        stop_strings.for_strings(f"{number}.")
    gc.collect()
    assert first() is None


def looks_at_the_last_token(test, tokens, _start):
    """Wrong: a string may lie over several tokens."""
    return bool(test(torch.tensor([tokens[-1:]]), None))


def test_a_wrong_test_is_noticed(monkeypatch):
    monkeypatch.setattr(options, "has_reached", looks_at_the_last_token)
    with pytest.raises(AssertionError):
        test_equal_to_huggingface("greedy")


def test_a_tokenizer_that_is_given_more_tokens():
    """The test of a stop string knows those that came later, too."""
    tokenizer = copy.deepcopy(pocket()[1])
    stop_strings = options.StopStrings(tokenizer)
    before = stop_strings.for_strings("STOPX")
    assert stop_strings.for_strings("STOPX") is before
    tokenizer.add_tokens(["STOPX"])
    after = stop_strings.for_strings("STOPX")
    new = tokenizer.convert_tokens_to_ids("STOPX")
    assert options.has_reached(after, [5, new]) and after is not before
