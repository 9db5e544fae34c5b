"""What goes wrong for one request is its own: the others get their text, in time."""

import copy

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.replaying import replayable, replaying, steps_ahead
from helpers.serving import (
    CONFIGS,
    KINDS,
    PROMPTS,
    check,
    check_idle,
    config,
    expected,
    make,
)
from helpers.tiny_models import VOCABULARY, tiny_model
from minipaged.decoding import draw, sampling
from minipaged.decoding.strategy import Failed, or_failed
from minipaged.engine import loop

SAMPLED = {"max_new_tokens": 6, "do_sample": True, "top_k": 0, "pad_token_id": 0}
# HuggingFace raises for each of these, alone.
FAILING = {
    "probabilities are NaN": SAMPLED | {"temperature": 1e-44},
    "of all samples": SAMPLED | {"temperature": 1e-44, "num_return_sequences": 3},
    "all tokens are forbidden": SAMPLED | {"suppress_tokens": list(range(VOCABULARY))},
    "no such token": {"sequence_bias": [[[10**6], 5.0]], "max_new_tokens": 6},
    "no such bad word": {"bad_words_ids": [[10**6]], "max_new_tokens": 6},
    "in beams": {"bad_words_ids": [[10**6]], "num_beams": 3, "max_new_tokens": 6},
}


def failing(name):
    return GenerationConfig(**FAILING[name])


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("name", FAILING)
def test_it_gets_the_error_and_the_others_get_their_text(name, seed):
    model, prompt = tiny_model("qwen3"), torch.tensor([PROMPTS[0]])
    with pytest.raises((RuntimeError, ValueError)):
        model.generate(prompt, generation_config=failing(name))
    engine = make(cache=True)
    streams = []
    for number, own in enumerate(PROMPTS):
        if number % 3 == 0:
            streams.append(engine.add(PROMPTS[0], failing(name), seed=seed))
        streams.append(engine.add(own, CONFIGS[number], seed=number))
    outputs = engine.run()
    errors = [out for out in outputs if out.finish_reason == "error"]
    assert len(errors) == 4 and all(out.sequences == [] for out in errors)
    assert all(out.error.startswith("no token can be ") for out in errors)
    check([out for out in outputs if out.finish_reason != "error"])
    assert engine.stats.request_success == {"error": 4, "length": len(PROMPTS)}
    check_idle(engine)


def test_it_is_so_in_generate_too():
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    configs = [KINDS[0], failing("probabilities are NaN"), KINDS[3]]
    outputs = mp.generate(paged, PROMPTS[:3], configs, seed=[0, 1, 2])
    assert [out.finish_reason for out in outputs] == ["length", "error", "length"]
    right = huggingface_outputs(paged.model, [PROMPTS[0], PROMPTS[2]], configs[::2])
    check(outputs[::2], right)
    assert paged.pool.num_free == 64


def test_unseeded_ones_are_drawn_beside_it():
    """Those that draw from torch's generator, as it does, get tokens all the same."""
    engine = make()
    fine = GenerationConfig(**SAMPLED | {"top_k": 1})
    bad = failing("probabilities are NaN")
    streams = [engine.add(PROMPTS[0], one) for one in (fine, bad, fine, bad, fine)]
    outputs = engine.run()
    assert [out.finish_reason for out in outputs] == [
        "length", "error", "length", "error", "length",
    ]  # fmt: skip
    greedy = huggingface_outputs(
        engine.paged.model, PROMPTS[:1], GenerationConfig(max_new_tokens=6)
    )
    check(outputs[::2], greedy * 3)
    assert streams[1].tokens == []


def test_in_the_middle_of_an_answer():
    """Its first tokens were told; then its logits are NaN, and nobody else's."""
    model = tiny_model("qwen3")
    ruined = []

    def attend(q, cache, batch, masking):
        out = mp.gathered_attention(q, cache, batch, masking)
        if batch.max_query_length == 1 and len(batch.context_lengths) == 3:
            at = int(batch.query_starts[1])
            out[at] = torch.nan
            ruined.append(at)
        return out

    engine = mp.Engine(mp.PagedModel(model, 64, 4, attend))
    sampled = GenerationConfig(**SAMPLED)
    streams = [engine.add(PROMPTS[n], sampled, seed=n) for n in range(3)]
    outputs = engine.run()
    assert ruined and outputs[1].finish_reason == "error"
    assert len(streams[1].tokens) == 1
    right = huggingface_outputs(model, PROMPTS[:3], sampled, seed=range(3))
    check(outputs[::2], right[::2])
    check_idle(engine)


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_an_error_of_memory_is_everybodys(error):
    def choose():
        raise error("no room")

    with pytest.raises(error):
        or_failed(choose)
    assert isinstance(or_failed(lambda: [].pop()), Failed)


def test_an_undone_step_undoes_the_error(monkeypatch):
    """It failed in a step that was taken back: it is asked again, and may succeed."""
    engine = make()
    stream = engine.add(PROMPTS[1], CONFIGS[1], seed=1)
    first = []

    def fail_once(*arguments):
        first.append(arguments)
        if len(first) == 1:
            raise ValueError("for once")
        return draw.next_tokens(*arguments)

    class Undoes(mp.Observer):
        def chosen(self, plan):
            if len(first) == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr("minipaged.decoding.sampling.next_tokens", fail_once)
    engine.paged.observers.append(Undoes())
    with pytest.raises(KeyboardInterrupt):
        engine.run()
    assert stream.output is None and stream.request.error is None
    check(engine.run(), expected()[1:2])


def raises_for_all(group, rows, logits):
    """Wrong: as torch does it."""
    probabilities = torch.softmax(logits, dim=-1)
    generators = [turn.request.strategy.generator for turn in group]
    parts = probabilities.split([len(own) for own in rows])
    return draw.draw_each(generators, parts)[:, 0]


def applies_what_failed(turns, choices):
    """Wrong: takes a failure for a choice."""
    for turn, choice in zip(turns, choices, strict=True):
        turn.request.strategy.apply(turn, choice)


WRONG = {
    "raises for all": (sampling, "next_tokens", raises_for_all),
    "applies what failed": (loop, "apply_all", applies_what_failed),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_versions_are_noticed(monkeypatch, name):
    monkeypatch.setattr(*WRONG[name])
    with pytest.raises((AssertionError, AttributeError, TypeError)):
        if "raises" in name:
            test_in_the_middle_of_an_answer()
        else:
            test_it_gets_the_error_and_the_others_get_their_text("in beams", None)


@pytest.mark.parametrize("way", [None, steps_ahead, replaying])
def test_a_test_or_a_processor_that_raises_is_its_own_requests(way, monkeypatch):
    """Also where a step is computed before the last one is read."""
    options = type(make().add([5], KINDS[0]).request.strategy.options)
    ends, engine = options.ends, make()
    if way is not None:
        engine = way(make(attention=replayable))

    def ends_or_raises(self, tokens):
        if tokens[0] == PROMPTS[1][0] and len(tokens) > len(PROMPTS[1]) + 3:
            raise RuntimeError("no such vocabulary")
        return ends(self, tokens)

    monkeypatch.setattr(options, "ends", ends_or_raises)
    theirs = huggingface_outputs(engine.paged.model, PROMPTS[:4], KINDS[0])
    for prompt in PROMPTS[:4]:
        engine.add(prompt, KINDS[0])
    outputs = engine.run()
    assert [out.finish_reason for out in outputs].count("error") == 1
    assert "no such vocabulary" in outputs[1].error
    check([outputs[0], *outputs[2:]], [theirs[0], *theirs[2:]])
    check_idle(engine)


def test_processors_that_raise_one_step_ahead():
    engine = steps_ahead(make(attention=replayable))
    odd = GenerationConfig(**SAMPLED | {"suppress_tokens": [1], "temperature": 0.5})
    streams = [engine.add(PROMPTS[0], KINDS[0]), engine.add(PROMPTS[1], odd)]
    for processor in streams[1].request.strategy.options.processors:
        if hasattr(processor, "suppress_tokens"):
            processor.suppress_tokens = "nonsense"
    outputs = engine.run()
    assert [out.finish_reason for out in outputs] == ["length", "error"]
    check(outputs[:1], expected()[:1])
    check_idle(engine)


@pytest.mark.parametrize("penalty", [2000.0, 10**11, "x", [1.0]])
def test_a_length_penalty_that_cannot_be_computed_is_refused_at_the_door(penalty):
    engine = make()
    bad = config(8, num_beams=2)
    bad.length_penalty = penalty
    with pytest.raises((TypeError, ValueError), match="length_penalty"):
        engine.add(PROMPTS[0], bad)
    assert not engine.streams


def test_a_billion_samples_of_one_token_take_nothing():
    """The prompt fills whole blocks, so they would take no block of their own."""
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    many = config(1, do_sample=True, num_return_sequences=10**9)
    out, other = mp.generate(paged, [[5, 6, 7, 8], PROMPTS[0]], [many, KINDS[0]])
    assert "1,000,000,000 samples" in out.error
    check([other], expected()[:1])


def test_a_processor_that_looks_at_all_rows_fails_for_its_own_row_alone():
    """Requests with equal processors go through them together; then one by one."""
    model = copy.deepcopy(tiny_model("qwen3"))
    with torch.no_grad():
        model.model.embed_tokens.weight[77] = torch.nan
    own = GenerationConfig(**SAMPLED | {"top_h": 0.5})
    prompts = [[9, 10], [77, 8], [9, 10]]  # and none draws the damaged token
    outputs = mp.generate(mp.PagedModel(model, 64, 4), prompts, own, seed=[3, 2, 3])
    assert [out.finish_reason for out in outputs] == ["length", "error", "length"]
    right = huggingface_outputs(model, prompts[::2], own, seed=[3, 3])
    check(outputs[::2], right)
