"""What a request's processors ask of a row, as numbers; and whose are no numbers."""

import numpy as np
import pytest
from transformers import GenerationConfig, LogitsProcessorList
from transformers.generation import logits_process as processors

from helpers.tiny_models import tiny_model
from minipaged.decoding.options import resolve_options
from minipaged.decoding.row_options import GREEDY, RowOptions, row_options

TEMPERATURE = processors.TemperatureLogitsWarper(0.5)
TOP_K, TOP_P = processors.TopKLogitsWarper(20), processors.TopPLogitsWarper(0.95)
MIN_P = processors.MinPLogitsWarper(0.1)


def of_rows(**own):
    config = GenerationConfig(max_new_tokens=3, **own)
    return resolve_options(tiny_model("qwen3"), config, [5]).of_rows


@pytest.mark.parametrize(
    "own, right",
    [
        ({}, GREEDY),
        ({"do_sample": True, "top_k": 0}, RowOptions()),
        ({"do_sample": True}, RowOptions(top_k=50)),  # HuggingFace's default
        ({"do_sample": True, "temperature": 0.25, "top_k": 0}, RowOptions(4.0)),
        (
            {"do_sample": True, "temperature": 0.5, "top_k": 20, "top_p": 0.95},
            RowOptions(2.0, 20, 0.95),
        ),
        (
            {"do_sample": True, "top_k": 9, "top_p": 0.5, "min_p": 0.1},
            RowOptions(1.0, 9, 0.5, 0.1),
        ),
        ({"do_sample": True, "top_k": 0, "top_p": 1.0}, RowOptions()),
        ({"do_sample": True, "top_k": 0, "min_p": 0.0}, RowOptions()),
    ],
)
def test_a_config_as_numbers(own, right):
    """With whatever transformers is installed: the order of its chain is ours."""
    found = of_rows(**own)
    assert found == right
    assert found.is_greedy == (not own)
    asks = {"top_k", "top_p", "min_p"} & {k for k, v in own.items() if v not in (0, 1)}
    assert found.has_cutoff == bool(asks or own == {"do_sample": True})


@pytest.mark.parametrize(
    "own",
    [
        {"suppress_tokens": [7]},
        {"do_sample": True, "suppress_tokens": [7]},
        {"do_sample": True, "epsilon_cutoff": 0.01},
        {"do_sample": True, "eta_cutoff": 0.01},
        {"do_sample": True, "typical_p": 0.9},
        {"do_sample": True, "top_h": 0.4},
        {"do_sample": True, "renormalize_logits": True},
        {"do_sample": True, "repetition_penalty": 1.3},
        {"remove_invalid_values": True},
    ],
)
def test_others_need_their_processors(own):
    assert of_rows(**own) is None


@pytest.mark.parametrize(
    "chain",
    [
        [TOP_P, TOP_K],
        [TOP_K, TEMPERATURE],
        [MIN_P, TOP_P],
        [TOP_K, TOP_K],
        [TEMPERATURE, TEMPERATURE],
        [processors.TopPLogitsWarper(0.9, min_tokens_to_keep=2)],
        [processors.TopKLogitsWarper(1, min_tokens_to_keep=2)],
        [processors.MinPLogitsWarper(0.9, min_tokens_to_keep=2)],
        [processors.TopKLogitsWarper(1, filter_value=-1.0)],
        [processors.TopPLogitsWarper(0.9, filter_value=-1.0)],
        [type("Mine", (processors.TopKLogitsWarper,), {})(3)],
    ],
)
def test_another_order_or_other_settings_need_them_too(chain):
    assert row_options(LogitsProcessorList(chain), True) is None


def test_all_four_in_order_and_none_without_a_draw():
    chain = LogitsProcessorList([TEMPERATURE, TOP_K, TOP_P, MIN_P])
    assert row_options(chain, True) == RowOptions(2.0, 20, 0.95, 0.1)
    assert row_options(chain, False) is None


def test_packed():
    found = np.frombuffer(RowOptions(2.0, 20, 0.5, 0.25).packed, np.float32)
    assert found.tolist() == [2.0, 20.0, 0.5, 0.25]
    huge = row_options(
        LogitsProcessorList(
            [
                processors.TemperatureLogitsWarper(1e-300),
                processors.TopKLogitsWarper(2**80),
            ]
        ),
        True,
    )
    sharpness, top_k, _, _ = np.frombuffer(huge.packed, np.float32)
    assert 1e38 < sharpness < float("inf") and top_k == 2**24 and not huge.is_greedy
