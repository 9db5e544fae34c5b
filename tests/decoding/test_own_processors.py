"""Logits processors of the user's: HuggingFace's text, whatever they do."""

import re

import pytest
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList
from transformers.generation import logits_process

import minipaged as mp
from helpers.logprobs import check_answers, of_answers
from helpers.serving import CONFIGS, KINDS, PROMPTS, check, config, expected, make
from helpers.tiny_models import VOCABULARY, tiny_model

GREEDY = config(10)


class Weighed(torch.nn.Module):
    """Scores from weights that could learn: gradients are nobody's wish."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.of_token = torch.nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, tokens, scores):
        assert not torch.is_grad_enabled()
        return scores + self.of_token(tokens[:, -1])


class Sharper(logits_process.TemperatureLogitsWarper):
    """Of a kind that HuggingFace has, but it looks at the tokens so far."""

    def __init__(self):
        super().__init__(0.5)

    def __call__(self, input_ids, scores):
        return scores / (1 + input_ids.shape[1] % 3) + 3 * (input_ids[:, -1:] % 2)


class Even(LogitsProcessor):
    """Tokens of the other parity than the last one's."""

    def __call__(self, input_ids, scores):
        is_odd = torch.arange(scores.shape[1]) % 2
        return scores.masked_fill(is_odd == input_ids[:, -1:] % 2, -torch.inf)


def in_place(tokens, scores):
    """It writes into what it is given."""
    scores[:, 5:40] = -torch.inf
    scores.div_(2)
    return scores


EVEN = Even()
PROCESSORS = {
    "in place": [in_place],
    "of a class": LogitsProcessorList([EVEN]),
    "a lambda": [lambda tokens, scores: scores.roll(tokens.shape[1], 1)],
    "a module": (Weighed(),),
    "in the place of the config's own": [logits_process.TopKLogitsWarper(3)],
    "a subclass": [Sharper()],
    "two, one of them twice": [EVEN, Sharper(), EVEN],
    "of other numbers": [lambda tokens, scores: scores.double() * 0.5],
    "none": [],
}


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("name", PROCESSORS)
def test_text_and_raw_logprobs_are_huggingfaces(name, kind):
    model, processors = tiny_model("qwen3"), PROCESSORS[name]
    outputs = mp.generate(
        mp.PagedModel(model, 256, 4), PROMPTS[:4], KINDS[kind], seed=[0, 1, 2, 3],
        logprobs=2, logits_processor=processors,
    )  # fmt: skip
    if "in place" in name:  # it would write into the raw logits that HuggingFace keeps
        processors = [lambda tokens, scores: in_place(tokens, scores.clone())]
    for seed, output in enumerate(outputs):
        own = LogitsProcessorList(processors)
        check_answers(
            output, of_answers(model, PROMPTS[seed], KINDS[kind], seed, own), 2
        )


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_logits_are_not_written_into(kind):
    """Alone, a request's scores would be the model's logits themselves."""
    model, (prompt, *_) = tiny_model("qwen3"), PROMPTS
    (output,) = mp.generate(
        mp.PagedModel(model, 64, 4), [prompt], KINDS[kind], seed=0, logprobs=2,
        logits_processor=[in_place],
    )  # fmt: skip
    own = [lambda tokens, scores: in_place(tokens, scores.clone())]
    check_answers(output, of_answers(model, prompt, KINDS[kind], 0, own), 2)


def test_each_request_has_its_own():
    model, ways = tiny_model("qwen3"), list(PROCESSORS.values())
    for_each = [ways[number % len(ways)] for number in range(len(PROMPTS))]
    paged, seeds = mp.PagedModel(model, 256, 4), list(range(len(PROMPTS)))
    outputs = mp.generate(
        paged, PROMPTS, CONFIGS, seed=seeds, logits_processor=for_each
    )
    engine = make(40, cache=True)
    for prompt, own, seed, processors in zip(
        PROMPTS, CONFIGS, seeds, for_each, strict=True
    ):
        engine.add(prompt, own, seed=seed, logits_processor=processors)
    assert [one.sequences for one in engine.run()] == [one.sequences for one in outputs]
    for output, prompt, own, seed, processors in zip(
        outputs, PROMPTS, CONFIGS, seeds, for_each, strict=True
    ):
        right = of_answers(model, prompt, own, seed, LogitsProcessorList(processors))
        for ours, (theirs, _) in zip(output.sequences, right, strict=True):
            assert ours == theirs[: len(ours)]


def test_others_are_not_touched():
    """One that writes into its scores stands beside requests of all kinds."""
    engine = make()
    for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True)):
        engine.add(prompt, own, seed=seed)
        engine.add(prompt, own, seed=seed, logits_processor=[in_place])
    check(engine.run()[::2])


def test_the_list_is_copied():
    engine, processors = make(), []
    stream = engine.add(PROMPTS[0], CONFIGS[0], seed=0, logits_processor=processors)
    processors.append(in_place)
    assert stream.result().sequences == expected()[0].sequences


def raising(tokens, scores):
    raise RuntimeError("no such thing")


@pytest.mark.parametrize(
    ("processor", "words"),
    [
        (raising, "no such thing"),
        (lambda tokens, scores: None, "scores of shape .1, 128. on cpu, got None"),
        (lambda tokens, scores: scores[:, 1:], r"got shape \(1, 127\)"),
        (lambda tokens, scores: scores[0], r"got shape \(128,\)"),
        (lambda tokens, scores: scores.to("meta"), "on cpu, got .* on meta"),
    ],
)
def test_one_that_fails_fails_alone(processor, words):
    engine = make()
    failed = engine.add(PROMPTS[0], GREEDY, logits_processor=[processor])
    others = [
        engine.add(prompt, own, seed=seed)
        for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True))
    ]
    engine.run()
    assert failed.output.finish_reason == "error"
    assert re.search(words, failed.output.error)
    check([stream.output for stream in others])


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (in_place, TypeError, "must be a list of callables"),
        ([3], TypeError, "3 cannot be called"),
        ([[in_place], [in_place], []], ValueError, "2 prompts, but 3 lists"),
        ([lambda tokens, scores: scores, None], TypeError, "None cannot be called"),
        (
            [logits_process.UnbatchedClassifierFreeGuidanceLogitsProcessor],
            TypeError,
            "takes other arguments",
        ),
    ],
)
def test_what_is_wrong_is_said_at_the_call(value, error, words):
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    with pytest.raises(error, match=words):
        mp.generate(paged, PROMPTS[:2], GenerationConfig(), logits_processor=value)
