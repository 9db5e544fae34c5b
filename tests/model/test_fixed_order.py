"""A twin computes each token as if it were alone, or the model is refused."""

import copy
from unittest.mock import patch

import pytest
import torch
from torch.nn.functional import linear

import minipaged as mp
from helpers.thorough import all_or
from helpers.tiny_models import ARCHITECTURES, UNLIKE, tiny_model
from minipaged.model import fixed_linear, fixed_order
from minipaged.model.bridge import attending, connect
from minipaged.model.compiled import layers_of
from minipaged.model.fixed_order import fix_order, refuse_dependence
from minipaged.model.merged_linears import (
    MergedLinear,
    attends_to_nothing,
    merge_linears,
)
from minipaged.model.twin import make_twin

EXPERTS = {"deepseek_v3", "qwen3_moe", "gpt_oss"}
TAKEN = [name for name in ARCHITECTURES if name not in EXPERTS]


def wrapped(model, **options):
    return mp.PagedModel(model, 64, 4, deterministic=True, **options)


def tiny(name="qwen3", **smaller):
    return copy.deepcopy(tiny_model(name, **smaller))


@pytest.mark.parametrize(
    "name", all_or(TAKEN, [*[n for n in UNLIKE if n in TAKEN], "gpt2"])
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_the_same_in_any_batch(name, dtype):
    """`refuse_dependence` compares the bits; the probe, the logits with HuggingFace."""
    wrapped(tiny(name).to(dtype))


@pytest.mark.parametrize("name", sorted(EXPERTS))
def test_mixtures_of_experts_are_refused(name):
    with pytest.raises(mp.UnsupportedModel, match="outside of linear layers"):
        wrapped(tiny_model(name))


def test_the_users_model_stays_as_it_is():
    model = tiny()
    classes = [type(module) for module in model.modules()]
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    plain = mp.PagedModel(model, 64, 4)
    paged = wrapped(model)
    assert [type(module) for module in model.modules()] == classes
    assert all(torch.equal(model.state_dict()[key], weights[key]) for key in weights)
    twin = [type(module).__name__ for module in plain.twin.modules()]
    assert twin == [kind.__name__ for kind in classes] and not plain.deterministic
    assert paged.twin.lm_head.weight is model.lm_head.weight


def by_rows(x, weight, bias):
    """As libraries do: few rows are added in two parts."""
    if x.shape[:-1].numel() > 40:
        return linear(x, weight, bias)
    halves = zip(x.chunk(2, -1), weight.chunk(2, -1), strict=True)
    return sum(linear(*half) for half in halves) + (0 if bias is None else bias)


def test_linear_layers_that_add_by_the_number_of_rows_are_refused():
    with (
        patch.object(fixed_linear, "_compute", by_rows),
        pytest.raises(mp.UnsupportedModel, match="depend on what else is computed"),
    ):
        wrapped(tiny())


def test_attention_that_depends_on_the_batch_is_refused():
    paged = wrapped(tiny())
    paged._attention = mp.gathered_attention
    twin = make_twin(paged.model)  # which fills no step up
    connect(twin)
    with pytest.raises(mp.UnsupportedModel, match="depend on what else is computed"):
        refuse_dependence(paged, 4, twin)


def test_a_step_that_is_not_filled_up_is_refused():
    """Where a tensor's length is no multiple of 32, torch's silu rounds otherwise."""
    model = tiny(intermediate_size=50)
    wrapped(model)
    with (
        patch.object(fixed_order, "TOKENS", 1),
        pytest.raises(mp.UnsupportedModel, match="depend on what else is computed"),
    ):
        wrapped(model)


@pytest.mark.parametrize("keep", [0, 1, 2, torch.tensor([4, 1])])
def test_logits_are_those_of_the_tokens_that_were_given(keep):
    model = tiny()
    ids = torch.arange(5, 10)[None]
    found = []
    for fixed in (False, True):
        twin = make_twin(model)
        connect(twin)
        if fixed:
            fix_order(twin)
        with torch.inference_mode(), attending(attends_to_nothing):
            out = twin(
                input_ids=ids,
                position_ids=ids - 5,
                use_cache=False,
                logits_to_keep=keep,
            )
        found.append(out.logits)
    assert found[0].shape == found[1].shape
    assert torch.allclose(*found, atol=1e-4)


def test_merged_and_compiled_layers_are_fixed_too():
    paged = wrapped(tiny())
    twin = make_twin(paged.model)
    connect(twin)
    assert merge_linears(twin)
    paged.note_weights()
    fix_order(twin)
    wholes = [one for one in twin.modules() if isinstance(one, MergedLinear)]
    assert wholes and not any(type(one) is MergedLinear for one in wholes)
    refuse_dependence(paged, 4, twin)
    for layer in layers_of(twin):
        layer.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    refuse_dependence(paged, 4, twin)


@pytest.mark.usefixtures("rows_alike")
def test_kernels_are_chosen_by_their_name():
    paged = wrapped(tiny(num_hidden_layers=1), attention="triton")
    assert "fixed_order" in paged.attention.attend.__module__


@pytest.mark.parametrize("attention", ["streamed", mp.gathered_attention])
def test_other_attention_is_refused(attention):
    with pytest.raises(ValueError, match="'gathered' or 'triton'"):
        wrapped(tiny_model("qwen3"), attention=attention)
    paged = wrapped(tiny_model("qwen3"))
    with pytest.raises(ValueError, match="'gathered' or 'triton'"):
        paged.attention = attention
    paged.attention = "gathered"
