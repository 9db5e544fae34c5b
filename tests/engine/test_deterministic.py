"""With deterministic=True, a text and its logprobs are the same in any company."""

import copy
import random
from functools import cache

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.serving import Simulated, check_idle
from helpers.tiny_models import VOCABULARY, tiny_model

TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
DRAW = random.Random(0)
COMMON = [DRAW.randrange(3, VOCABULARY) for _ in range(9)]
PROMPTS = [
    COMMON * (number % 3 == 0) + [DRAW.randrange(3, VOCABULARY) for _ in range(length)]
    for number, length in enumerate([1, 5, 16, 40, 3, 8, 21, 2, 33, 4, 12, 7])
]
# Greedy, and with a seed.
CONFIGS = [
    GenerationConfig(max_new_tokens=6 + number, do_sample=number % 4 == 3, top_k=0)
    for number in range(len(PROMPTS))
]


@cache
def model_of(dtype):
    return copy.deepcopy(tiny_model("qwen3")).to(dtype)


def answers(
    dtype, size, *, num_blocks=400, cache=False, spread=0.0, logprobs=2, **options
):
    """Each request's tokens and logprobs, computed so many at a time; and the engine.

    spread: on the simulated clock, between two arrivals.
    """
    paged = mp.PagedModel(model_of(dtype), num_blocks, 4, deterministic=True)
    prefix = mp.PrefixCache(paged.pool) if cache else None
    limits = {"max_tokens": 64, "max_sequences": 16, "clock": Simulated()} | options
    engine = mp.Engine(paged, prefix, **limits)
    found = []
    for first in range(0, len(PROMPTS), size):
        streams = [
            engine.add(
                PROMPTS[number],
                CONFIGS[number],
                seed=number,
                logprobs=logprobs,
                arrival=number * spread,
            )
            for number in range(first, min(first + size, len(PROMPTS)))
        ]
        engine.run()
        found += [(s.output.sequences, s.output.logprobs) for s in streams]
    if not cache:
        check_idle(engine)
    return found, engine


@cache
def alone(dtype):
    return answers(dtype, 1)[0]


@TYPES
@pytest.mark.parametrize("size", [2, 5, len(PROMPTS)])
def test_in_a_batch(dtype, size):
    found, _ = answers(dtype, size)
    assert found == alone(dtype)


@TYPES
def test_as_they_arrive_in_chunks(dtype):
    found, engine = answers(dtype, len(PROMPTS), spread=3.0, max_tokens=16)
    assert found == alone(dtype)
    assert engine.stats.num_steps > 30


@TYPES
@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_preempted(dtype, preemption):
    found, engine = answers(dtype, 12, num_blocks=30, preemption=preemption)
    assert found == alone(dtype)
    assert engine.stats.num_preemptions


@TYPES
def test_with_a_prefix_cache(dtype):
    found, engine = answers(dtype, 3, cache=True)
    assert found == alone(dtype)
    assert engine.stats.prefix_cache_hits


@TYPES
def test_with_guesses(dtype):
    guessing = {"speculation": mp.PromptLookup(8), "max_tokens": 200}
    found, engine = answers(dtype, 12, logprobs=None, **guessing)
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in alone(dtype)]
    assert engine.stats.num_draft_tokens


@pytest.mark.usefixtures("rows_alike")
def test_by_kernels_in_the_interpreter():
    model = copy.deepcopy(tiny_model("qwen3", num_hidden_layers=1))
    paged = mp.PagedModel(model, 64, 4, "triton", deterministic=True)
    config = GenerationConfig(max_new_tokens=2, pad_token_id=0)
    together = mp.generate(paged, PROMPTS[:3], config, logprobs=1)
    (lone,) = mp.generate(paged, PROMPTS[1:2], config, logprobs=1)
    assert lone.sequences == together[1].sequences
    assert lone.logprobs == together[1].logprobs


def test_the_default_depends_on_the_batch():
    """Else the tests above would show nothing."""
    paged = mp.PagedModel(model_of(torch.float32), 400, 4)
    config = GenerationConfig(max_new_tokens=12, pad_token_id=0)
    together = mp.generate(paged, PROMPTS, config, logprobs=2)
    lone = [mp.generate(paged, [one], config, logprobs=2)[0] for one in PROMPTS]
    assert [one.logprobs for one in together] != [one.logprobs for one in lone]
