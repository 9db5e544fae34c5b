"""Request-length traces: their means, and their limits."""

import math

import numpy as np
import pytest

from minipaged.lab.measure.traces import (
    MAX_LENGTH,
    alpaca_like,
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


def test_the_ratios_of_the_means_are_the_papers():
    (chat_in, chat_out), (short_in, short_out) = MEANS.values()
    assert math.isclose(chat_in / short_in, 8.4, rel_tol=0.01)
    assert math.isclose(chat_out / short_out, 5.8, rel_tol=0.01)
