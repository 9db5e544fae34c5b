"""An engine on a tiny model, requests of all kinds, and what HuggingFace answers."""

import random
from functools import cache

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.tiny_models import VOCABULARY, tiny_model
from minipaged.scheduling.clock import Clock

NEVER = VOCABULARY - 1  # an eos that is hardly ever drawn, so that sequences get long


def config(n=12, **options):
    return GenerationConfig(
        max_new_tokens=n, pad_token_id=0, eos_token_id=NEVER, **options
    )


KINDS = [
    config(14),
    config(9, do_sample=True, temperature=1.4, top_k=0),
    config(8, do_sample=True, num_return_sequences=3, temperature=1.2),
    config(7, num_beams=3, num_return_sequences=2),
    config(11, do_sample=True, repetition_penalty=1.3),
]
# However a row is drawn, these take the likeliest: the last two by their processors.
ALWAYS_THE_LIKELIEST = [
    {"top_k": 1, "temperature": 9.0},
    {"top_k": 0, "top_p": 1e-6, "temperature": 3.0},
    {"top_k": 0, "min_p": 1.0, "temperature": 5.0},
    {"top_k": 0, "epsilon_cutoff": 0.9},
    {"top_k": 1, "typical_p": 0.9},
]
PROMPTS = [
    [random.Random(number).randrange(3, VOCABULARY) for _ in range(length)]
    for number, length in enumerate((5, 17, 4, 9, 1, 16, 8, 23, 3, 12))
]
PROMPTS += [[*PROMPTS[1][:12], 9, 9]]  # its first blocks are another's
CONFIGS = [KINDS[number % len(KINDS)] for number in range(len(PROMPTS))]


@cache
def expected():
    """What HuggingFace answers each of them, alone."""
    seeds = list(range(len(PROMPTS)))
    return huggingface_outputs(tiny_model("qwen3"), PROMPTS, CONFIGS, seed=seeds)


class Simulated(Clock):
    """A clock that moves when somebody sleeps, and by 1 at every look."""

    def __init__(self):
        self.moment = 0.0

    def start(self):
        pass

    def now(self):
        self.moment += 1.0
        return self.moment

    def sleep_until(self, moment, wait=None):
        self.moment = max(self.moment, moment)


def make(num_blocks=96, block_size=4, cache=False, attention="gathered", **options):
    """An engine over a pool whose blocks hold NaN until they are written."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks, block_size, attention)
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(torch.nan)
    prefix = mp.PrefixCache(paged.pool) if cache else None
    options = {"max_tokens": 32, "max_sequences": 16} | options
    return mp.Engine(paged, prefix, **options)


def add_all(engine, **options):
    """All prompts with their configs; their Streams."""
    return [
        engine.add(prompt, own, seed=seed, **options)
        for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True))
    ]


def check(outputs, right=None):
    """They are what HuggingFace answers, scores of beams included."""
    for ours, theirs in zip(outputs, right or expected(), strict=True):
        assert ours.sequences == theirs.sequences
        if theirs.scores is not None:
            assert ours.scores == pytest.approx(theirs.scores, abs=1e-4)  # float32


def check_idle(engine):
    """Nobody is left, and all blocks are back."""
    pool, scheduler = engine.paged.pool, engine.scheduler
    assert pool.num_free == pool.num_blocks and pool.reserved_for is None
    assert not (scheduler.waiting or scheduler.running or scheduler.in_flight)
    assert not engine.streams
    if scheduler.swap_space:
        scheduler._tidy_swap_space()
        assert (
            scheduler.swap_space.pool.num_free == scheduler.swap_space.pool.num_blocks
        )
