"""Configs that were seen before mean the same again, for every prompt."""

import pickle
from copy import copy
from dataclasses import fields

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.serving import CONFIGS
from helpers.tiny_models import tiny_model
from minipaged.decoding import known_configs
from minipaged.decoding.known_configs import KnownConfigs
from minipaged.decoding.options import resolve_options

PROMPTS = [[5], [6, 7, 8], list(range(5, 40))]
ASKED = [
    *CONFIGS,
    GenerationConfig(max_new_tokens=7),
    GenerationConfig(max_length=50),
    GenerationConfig(),
    None,
    GenerationConfig(max_new_tokens=9, min_new_tokens=4),
    GenerationConfig(max_new_tokens=9, no_repeat_ngram_size=2),
    GenerationConfig(max_new_tokens=9, do_sample=True, top_k=5, temperature=0.5),
    GenerationConfig(max_new_tokens=9, begin_suppress_tokens=[5, 6]),
    GenerationConfig(max_new_tokens=5, num_beams=3, length_penalty=0.5),
]


def told(options):
    """All that options say; processors by their settings."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    values["processors"] = [
        (type(one).__name__, {k: str(v) for k, v in vars(one).items()})
        for one in options.processors
    ]
    return values


def test_known_or_not_the_options_are_those_of_the_prompt():
    model = tiny_model("qwen3")
    known = KnownConfigs(model)
    for _ in range(2):
        for config in ASKED:
            for prompt in PROMPTS:
                right = resolve_options(model, config, prompt)
                assert told(known.resolve(config, prompt)) == told(right)


def test_it_prepares_a_config_once(monkeypatch):
    prepared = []
    prepare = known_configs.prepare_config
    monkeypatch.setattr(
        known_configs,
        "prepare_config",
        lambda model, config: prepared.append(config) or prepare(model, config),
    )
    known = KnownConfigs(tiny_model("qwen3"))
    for prompt in PROMPTS:
        known.resolve(GenerationConfig(max_new_tokens=7), prompt)  # a new object
    assert len(prepared) == 1
    for number in range(known_configs.MOST + 3):
        config = GenerationConfig(max_new_tokens=7, repetition_penalty=2.0 + number)
        known.resolve(config, PROMPTS[0])
    assert len(prepared) == known_configs.MOST + 4


def test_answers_of_many_lengths_need_one_preparation(monkeypatch):
    prepared = []
    prepare = known_configs.prepare_config
    monkeypatch.setattr(
        known_configs,
        "prepare_config",
        lambda model, config: prepared.append(config) or prepare(model, config),
    )
    model = tiny_model("qwen3")
    known = KnownConfigs(model)
    for sampled in ({}, {"do_sample": True, "top_k": 5}, {"min_new_tokens": 2}):
        prepared.clear()
        for count in (7, 3, 500, 10**6):
            config = GenerationConfig(max_new_tokens=count, **sampled)
            for prompt in PROMPTS:
                right = resolve_options(model, config, prompt)
                assert told(known.resolve(config, prompt)) == told(right)
        assert len(prepared) == 1
    for wrong in (0, -1, True, 2.5, "7"):
        config = GenerationConfig(max_new_tokens=7)
        config.max_new_tokens = wrong
        with pytest.raises((ValueError, TypeError)) as refused:
            resolve_options(model, config, PROMPTS[0])
        with pytest.raises(refused.type):
            known.resolve(config, PROMPTS[0])


def changes_config(config, model):
    config.repetition_penalty = 3.0


def changes_the_model_s(config, model):
    model.generation_config.repetition_penalty = 1.5


@pytest.mark.parametrize("change", [changes_config, changes_the_model_s])
@pytest.mark.parametrize("wrong", [False, True])
def test_what_is_changed_between_two_requests_is_seen(change, wrong, monkeypatch):
    if wrong:  # an object is known by its address

        def address(config, of_model):
            return str(id(config)).encode()

        monkeypatch.setattr(known_configs, "key_of", address)
    model = tiny_model("qwen3")
    monkeypatch.setattr(model, "generation_config", copy(model.generation_config))
    known, config = KnownConfigs(model), GenerationConfig(max_new_tokens=7)
    known.resolve(config, PROMPTS[1])
    change(config, model)
    right = resolve_options(model, config, PROMPTS[1])
    assert (told(known.resolve(config, PROMPTS[1])) == told(right)) != wrong


def test_errors_come_each_time_and_for_each_prompt():
    model = tiny_model("qwen3")
    known = KnownConfigs(model)
    for _ in range(2):
        with pytest.raises(mp.UnsupportedOption):
            known.resolve(GenerationConfig(penalty_alpha=0.5, top_k=4), PROMPTS[0])
        with pytest.raises(ValueError, match="tokenizer"):
            known.resolve(GenerationConfig(stop_strings=["a"]), PROMPTS[0])
    config = GenerationConfig(max_length=20)
    assert known.resolve(config, PROMPTS[0]).max_new_tokens == 19
    with pytest.raises(mp.PromptTooLong):
        known.resolve(config, PROMPTS[2])


def test_a_config_that_cannot_be_pickled_is_prepared_each_time():
    config = GenerationConfig(max_new_tokens=4)
    config.transformers_version = lambda: None
    with pytest.raises(Exception, match="pickle"):
        pickle.dumps(vars(config))
    assert KnownConfigs(tiny_model("qwen3")).resolve(config, [5]).max_new_tokens == 4
