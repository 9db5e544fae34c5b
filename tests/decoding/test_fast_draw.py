"""Tokens drawn in two launches: the likeliest, or as often as their probabilities."""

import pytest
import torch
from transformers import GenerationConfig

from helpers.tiny_models import tiny_model
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.decoding import fast_draw
from minipaged.decoding.fast_draw import draw_rows, draw_unseeded
from minipaged.decoding.options import resolve_options

DEVICE = "cpu" if INTERPRETED else "cuda"


def random_logits(rows, vocabulary, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocabulary, generator=generator).to(DEVICE) * 4


@pytest.mark.parametrize("vocabulary", [1, 4095, 4097])
def test_the_likeliest(vocabulary):
    logits = random_logits(3, vocabulary)
    assert torch.equal(draw_rows(logits, 1.0, None), logits.argmax(-1))


def test_of_several_that_are_as_likely_the_first():
    logits = torch.zeros(2, 9000, device=DEVICE)
    logits[0, [8500, 4100]] = 1.0
    assert draw_rows(logits, 1.0, None).tolist() == [4100, 0]


def test_what_is_loaded_is_what_draws_call(monkeypatch):
    """Each kernel for each type of logits, for the likeliest and for a draw."""
    calls = []

    def draw(logits, temperature, uniform):
        calls.append((logits.dtype, tuple(logits.shape), uniform is None))
        return rows(logits, temperature, uniform)

    rows = fast_draw.draw_rows
    monkeypatch.setattr(fast_draw, "draw_rows", draw)
    fast_draw.load_kernels(50, {torch.float32, torch.float16}, torch.device(DEVICE))
    kinds = {(t, (1, 50), g) for t in (torch.float32, torch.float16) for g in (0, 1)}
    assert set(calls) == kinds and len(calls) == 4


@pytest.mark.parametrize("chunk, temperature", [(16, 2.0), (64, 0.5)])
def test_drawn_as_often_as_the_probabilities_say(monkeypatch, chunk, temperature):
    """At random numbers that lie evenly, each token has its share of them."""
    monkeypatch.setattr(fast_draw, "_CHUNK", chunk)
    (logits,) = random_logits(1, 50)
    logits[[3, 30]] = float("-inf")
    logits[48:] = float("-inf")
    steps = (torch.arange(12, device=DEVICE) + 0.5) / 12
    uniform = torch.cartesian_prod(steps, steps)
    tokens = draw_rows(logits.expand(144, 50).contiguous(), temperature, uniform)
    share = torch.bincount(tokens, minlength=50).cpu() / 144
    right = torch.softmax(logits / temperature, 0).cpu()
    # A chunk's share is met to 1/12, and a token's within it.
    assert (share - right).abs().max() < 2 / 12
    assert not share[[3, 30, 48, 49]].any()
    for start in range(0, 50, chunk):
        gap = (share - right)[start : start + chunk].sum()
        assert abs(gap) <= 1 / 12


@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_the_first_and_the_last_random_number(number):
    """What is impossible is never drawn, whatever the rounding."""
    logits = torch.full((1, 9000), float("-inf"), device=DEVICE)
    logits[0, 5000:6000] = random_logits(1, 1000)[0]
    uniform = torch.full((1, 2), number, device=DEVICE)
    (token,) = draw_rows(logits, 0.7, uniform).tolist()
    # The last ones are less likely than float32 can tell from nothing.
    assert token == 5000 if number == 0.0 else 5990 < token < 6000


def test_rows_with_gaps_and_no_rows():
    logits = random_logits(4, 300)[::2, :200]
    assert torch.equal(draw_rows(logits, 1.0, None), logits.argmax(-1))
    assert draw_rows(logits[:0], 1.0, None).tolist() == []


@pytest.mark.parametrize(
    "own, allowed",
    [
        ({}, 1),
        ({"do_sample": True, "temperature": 0.01}, 1),
        ({"do_sample": True, "top_k": 3, "temperature": 5.0}, 3),
        ({"do_sample": True, "top_k": 0, "suppress_tokens": [*range(90)]}, 38),
    ],
)
def test_options(own, allowed):
    config = GenerationConfig(max_new_tokens=3, **own)
    options = resolve_options(tiny_model("qwen3"), config, [5])
    logits = random_logits(1, 128).expand(16, 128).contiguous()
    if "suppress_tokens" in own:
        best = {*range(90, 128)}
    else:
        best = set(logits[0].topk(allowed).indices.tolist())
    drawn = set(draw_unseeded(options, logits).tolist())
    assert drawn <= best and (len(drawn) > 1 or allowed == 1)
