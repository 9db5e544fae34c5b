"""What engines are asked on a GPU: four workloads, drawn from a seed."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from transformers import GenerationConfig

from minipaged.lab.measure.traces import sharegpt_like

VOCABULARY = 10_000  # of the prompts' tokens
OPTIONS = {"top_k": 20, "top_p": 0.95}  # what Qwen3's own config asks for


class Asked(NamedTuple):
    """A prompt, how many tokens its answer has, and when it comes, in seconds."""

    prompt: list[int]
    num_new: int
    arrival: float = 0.0


def uniform(count: int = 256) -> list[Asked]:
    """All at once; prompts and answers of 100 to 1,024 tokens."""
    draw = random.Random(0)
    return [
        Asked(_tokens(draw, draw.randint(100, 1024)), draw.randint(100, 1024))
        for _ in range(count)
    ]


def lone_prompt(count: int = 1000) -> list[int]:
    """So many tokens, for a user who is there alone; at most 10,000."""
    return (uniform(1)[0].prompt * 100)[:count]


def chats(count: int = 600, rate: float = 30.0) -> list[Asked]:
    """ShareGPT-like lengths; so many come in a second on average, by chance."""
    draw, arrival, asked = random.Random(1), 0.0, []
    for lengths in sharegpt_like(count):
        arrival += draw.expovariate(rate)
        prompt = _tokens(draw, lengths.prompt)
        asked.append(Asked(prompt, lengths.output, arrival))
    return asked


def shared(count: int = 256, num_systems: int = 8) -> list[Asked]:
    """Chats below one of eight system prompts of 2,048 tokens; answers of 128."""
    draw = random.Random(2)
    systems = [_tokens(draw, 2048) for _ in range(num_systems)]
    return [
        Asked(systems[n % num_systems] + _tokens(draw, draw.randint(32, 256)), 128)
        for n in range(count)
    ]


def long(count: int = 32) -> list[Asked]:
    """Prompts of 8,192 tokens, answers of 128."""
    draw = random.Random(3)
    return [Asked(_tokens(draw, 8192), 128) for _ in range(count)]


def _tokens(draw: random.Random, count: int) -> list[int]:
    return [draw.randrange(VOCABULARY) for _ in range(count)]


def sampled(num_new: int, **options: Any) -> GenerationConfig:
    """So many tokens, drawn at temperature 0.6; from the whole vocabulary.

    options: others of the GenerationConfig, such as a top_k that leaves less of it.
    """
    return GenerationConfig(
        max_new_tokens=num_new,
        do_sample=True,
        temperature=0.6,
        pad_token_id=0,
        **({"top_k": 0} | options),
    )


def num_answered(trace: Sequence[Asked]) -> int:
    """How many tokens all answers have together."""
    return sum(asked.num_new for asked in trace)
