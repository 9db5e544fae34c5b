"""A twin on a CPU is called directly, and computes the same numbers, to the bit."""

import copy

import pytest
import torch
from torch import nn
from transformers import GenerationConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import minipaged as mp
from helpers.thorough import all_or
from helpers.tiny_models import ARCHITECTURES, UNLIKE, tiny_model
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.bridge import attending, connect
from minipaged.model.direct_calls import call_directly
from minipaged.model.merged_linears import attends_to_nothing
from minipaged.model.twin import make_twin

TOKENS = torch.tensor([list(range(3, 20))])


def twin_of(model):
    twin = make_twin(model)
    connect(twin)
    return twin


def logits(twin):
    with torch.inference_mode(), attending(attends_to_nothing):
        positions = torch.arange(TOKENS.shape[1])[None]
        return twin(input_ids=TOKENS, position_ids=positions, use_cache=False).logits


def is_direct(module):
    """Has its class a call of its own? In transformers 5.17, some inherit one."""
    return "__call__" in vars(type(module))


@pytest.mark.parametrize("name", all_or(ARCHITECTURES, UNLIKE))
def test_the_same_numbers_to_the_bit(name):
    model = tiny_model(name)
    usual, twin = twin_of(model), twin_of(model)
    call_directly(twin)
    assert any(map(is_direct, twin.modules()))
    assert torch.equal(logits(twin), logits(usual))
    assert not any(map(is_direct, model.modules()))  # the user's model stays


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_take_few_calls(dtype):
    model = copy.deepcopy(tiny_model("qwen3")).to(dtype)
    twin = twin_of(model)
    call_directly(twin)
    with torch.profiler.profile() as profiled:
        logits(twin)
    counts = {event.key: event.count for event in profiled.key_averages()}
    norms = [m for m in model.modules() if "RMSNorm" in type(m).__name__]
    name = "rsqrt_" if dtype == torch.float32 else "rms_norm"
    assert counts[f"aten::{name}"] == len(norms) > 4


@pytest.mark.parametrize("size", [16, 192, 1000])
@pytest.mark.parametrize("num_tokens", [1, 3, 700])
def test_a_norm_is_right_to_the_bit_in_all_sizes(num_tokens, size):
    torch.manual_seed(size)
    model = copy.deepcopy(tiny_model("llama"))
    model.model.norm = norm = LlamaRMSNorm(size)
    nn.init.normal_(norm.weight)
    twin = twin_of(model)
    call_directly(twin)
    x = 9 * torch.randn(num_tokens, 2, size)
    before = x.clone()
    with torch.inference_mode():
        assert torch.equal(twin.model.norm(x), norm(x))
    assert torch.equal(x, before)


def test_settings_are_looked_up_at_once_where_names_are_plain():
    plain, renamed = tiny_model("qwen3"), tiny_model("gpt2")
    for model, is_plain in (plain, True), (renamed, False):
        twin = twin_of(model)
        call_directly(twin)
        kind = type(twin.config)
        assert (kind.__getattribute__ is object.__getattribute__) is is_plain
        assert isinstance(twin.config, type(model.config))
        assert twin.config.hidden_size == model.config.hidden_size
        assert type(model.config).__getattribute__ is not object.__getattribute__


class OtherNorm(LlamaRMSNorm):
    """As Gemma's: its weight is added to one."""

    __module__ = LlamaRMSNorm.__module__

    def forward(self, hidden_states):
        return super().forward(hidden_states) * (1 + self.weight)


class GatedNorm(LlamaRMSNorm):
    __module__ = LlamaRMSNorm.__module__

    def forward(self, hidden_states, gate=None):
        out = super().forward(hidden_states)
        return out if gate is None else out * gate


@pytest.mark.parametrize("kind", [OtherNorm, GatedNorm, LlamaRMSNorm])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_norms_are_left_to_their_own_code(kind, dtype):
    model = copy.deepcopy(tiny_model("llama"))
    torch.manual_seed(0)
    norm = kind(model.config.hidden_size)
    nn.init.normal_(norm.weight)
    model.model.norm = norm
    model.to(dtype)
    twin = twin_of(model)
    call_directly(twin)
    assert is_direct(twin.model.norm)
    x = torch.randn(3, model.config.hidden_size).to(dtype)
    assert torch.equal(twin.model.norm(x), norm(x))
    if kind is GatedNorm:
        assert torch.equal(twin.model.norm(x, 2 * x), norm(x, 2 * x))


def test_hooks_and_replaced_forwards_are_called():
    model = copy.deepcopy(tiny_model("llama"))
    called = []
    layer = model.model.layers[0].mlp.up_proj
    layer.register_forward_hook(lambda *_: called.append("hook"))
    own = model.model.layers[1].mlp.act_fn
    own.forward = lambda x: called.append("forward") or nn.functional.silu(x)
    twin = twin_of(model)
    call_directly(twin)
    logits(twin)
    assert called == ["hook", "forward"]


class OwnLinear(nn.Linear):
    """Of neither torch nor HuggingFace: who knows what it does as it runs?"""


def test_a_model_with_modules_of_others_is_left_alone():
    model = copy.deepcopy(tiny_model("llama"))
    model.model.layers[1].mlp.up_proj.__class__ = OwnLinear
    twin = twin_of(model)
    call_directly(twin)
    assert not any(map(is_direct, twin.modules()))
    assert all(vars(one).keys().isdisjoint(one._modules) for one in twin.modules())


def test_where_it_is_used():
    model = tiny_model("qwen3")
    usual = mp.PagedModel(model, 64, 4, deterministic=True)
    assert not any(map(is_direct, usual.twin.modules()))
    paged = mp.PagedModel(copy.deepcopy(model), 64, 4)
    linears = [m for m in paged.twin.modules() if isinstance(m, nn.Linear)]
    assert linears and all(map(is_direct, linears))
    config = GenerationConfig(max_new_tokens=8, pad_token_id=0)
    prompts = TOKENS.tolist()
    (ours,) = mp.generate(paged, prompts, config)
    assert [ours.sequences] == huggingface_generate(model, prompts, config)
    for module in paged.model.modules():  # what is trained afterwards is refused
        if isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.clone()
    with pytest.raises(ValueError, match="wrap it again"):
        mp.generate(paged, prompts, config)
