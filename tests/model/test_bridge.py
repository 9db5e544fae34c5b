"""The bridge: what HuggingFace's layers call, and one operator for the compiler."""

import copy

import pytest
import torch
from torch._dynamo.utils import counters
from transformers import GenerationConfig

from helpers.thorough import all_or
from helpers.tiny_models import ARCHITECTURES, tiny_model
from minipaged.attention.backend import Masking
from minipaged.engine.generate import generate
from minipaged.errors import UnsupportedModel
from minipaged.model import bridge
from minipaged.model.paged_model import PagedModel


def module_with_number(number=0):
    module = torch.nn.Module()
    module.minipaged_number = number
    return module


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ({"attention_mask": torch.ones(1, 1, 2, 2)}, "attention_mask"),
        ({"dropout": 0.1}, "dropout"),
        ({"is_causal": False}, "is_causal=False"),
        ({"position_bias": torch.zeros(1)}, "position_bias"),
        ({"head_mask": torch.ones(4)}, "head_mask"),
    ],
)
def test_what_attention_does_not_know_is_refused(option, named):
    option = {"attention_mask": None, **option}
    q = torch.zeros(1, 4, 2, 8)
    with pytest.raises(UnsupportedModel, match=named):
        bridge._call(module_with_number(), q, q, q, **option)


def test_the_default_scale_follows_from_the_width_of_k():
    seen = []

    def attend(number, q, k, v, masking):
        seen.append((number, masking))
        return v

    q, v = torch.zeros(1, 4, 2, 16), torch.zeros(1, 4, 2, 9)
    with bridge.attending(attend):
        out, _ = bridge._call(module_with_number(7), q, q, v, None)
    assert seen == [(7, Masking(0.25))]
    assert out.shape == (1, 2, 4, 9)


def test_what_a_layer_asks_for_arrives():
    seen, sinks = [], torch.randn(4)

    def attend(number, q, k, v, masking):
        seen.append(masking)
        return q

    q = torch.zeros(1, 4, 2, 16)
    with bridge.attending(attend):
        options = {"scaling": 0.5, "sliding_window": 3, "softcap": 9.0, "s_aux": sinks}
        bridge._call(module_with_number(), q, q, q, None, **options)
    assert seen[0][:3] == (0.5, 3, 9.0) and torch.equal(seen[0].sinks, sinks)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_a_cache_that_is_handed_along_changes_nothing(name):
    """Under the name of any release of transformers."""
    q = torch.zeros(1, 4, 2, 16)
    with bridge.attending(lambda number, q, k, v, masking: q):
        out, _ = bridge._call(module_with_number(), q, q, q, None, **{name: object()})
    assert out.shape == (1, 2, 4, 16)


def test_torchs_own_checks_of_the_operator():
    def attend(number, q, k, v, masking):
        return q * masking.scale

    q, sinks = torch.randn(5, 4, 8), torch.randn(4)
    for options in ((3, 2.0, None, None, None), (0, 1.0, 7, 5.0, sinks)):
        with bridge.attending(attend):
            arguments = (q, q[:, :2], q[:, :2], *options)
            torch.library.opcheck(bridge.paged_attention, arguments)


# A smaller set, each with something of its own in its layers.
COMPILED = ["llama", "gemma2", "deepseek_v3", "gpt2", "opt", "qwen3_moe", "gpt_oss"]


@pytest.mark.parametrize("name", all_or(COMPILED, ["gpt_oss"]))
def test_a_compiler_takes_the_twin_whole(name):
    """No break, and at most two recompilations over many batch sizes, 1 included.

    Two layers: whatever is asked of a layer's number has two answers by then.
    """
    assert name in ARCHITECTURES
    torch.compiler.reset()
    counters.clear()
    layers = {"n_layer" if name == "gpt2" else "num_hidden_layers": 2}
    model = copy.deepcopy(tiny_model(name, **layers))
    paged = PagedModel(model, num_blocks=96, block_size=4)
    prompts = [list(range(3, 3 + n)) for n in (1, 4, 9, 17, 3)]
    configs = [
        GenerationConfig(max_new_tokens=n, min_new_tokens=n, pad_token_id=0)
        for n in (3, 4, 6, 5, 7)
    ]
    before = generate(paged, prompts, configs)
    paged.twin.compile(backend="eager", fullgraph=True, dynamic=True)
    assert generate(paged, prompts, configs) == before
    assert generate(paged, prompts[:1], configs[:1]) == before[:1]
    # With steps of which nobody wants logits, too.
    assert generate(paged, prompts, configs, max_prompt_tokens=3) == before
    assert not counters["graph_break"]
    assert 1 <= counters["stats"]["unique_graphs"] <= 3
