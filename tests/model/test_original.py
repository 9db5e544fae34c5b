"""A model that is altered after it was wrapped: refused in words, before any token.

What changes no text is let through. On a machine with a GPU the model lies there.
"""

import copy
import types

import pytest
import torch
from peft import IA3Config, LoraConfig, TrainableTokensConfig, get_peft_model
from torch import distributed, nn
from torch.distributed.tensor import distribute_tensor
from torch.nn.utils import parametrize
from transformers import GenerationConfig

from helpers.thorough import all_or
from helpers.tiny_models import ARCHITECTURES, UNLIKE, tiny_model
from minipaged.engine.engine import Engine
from minipaged.engine.generate import generate
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.original import Original
from minipaged.model.paged_model import PagedModel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GREEDY = GenerationConfig(max_new_tokens=6, pad_token_id=0)
PROMPTS = [[5, 6, 7], [9] * 11]
LORA = LoraConfig(r=2, target_modules=["q_proj", "v_proj"])


def fresh(name="llama"):
    return copy.deepcopy(tiny_model(name)).to(DEVICE)


def adapted(config):
    """A model with an adapter, whose weights matter."""
    adapter = get_peft_model(fresh(), config).eval()
    torch.manual_seed(0)
    for name, weight in adapter.named_parameters():
        if any(part in name for part in ("lora_", "ia3_", "delta")):
            weight.data.normal_()
    return adapter


def disabled(adapter):
    adapter.base_model.disable_adapter_layers()


def switched(adapter):
    adapter.set_adapter("other")


def merged(adapter):
    adapter.merge_adapter()


def scaled(adapter):
    adapter.get_base_model().model.layers[0].self_attn.q_proj.scale_layer(3.0)


def with_two():
    adapter = adapted(LORA)
    adapter.add_adapter("other", copy.deepcopy(LORA))
    return adapter


TOKENS = TrainableTokensConfig(token_indices=[5, 6, 9])
IA3 = IA3Config(target_modules=["k_proj"], feedforward_modules=[])
SWITCHES = {
    "disabled": (lambda: adapted(LORA), disabled),
    "disabled ia3": (lambda: adapted(IA3), disabled),
    "disabled tokens": (lambda: adapted(TOKENS), disabled),
    "switched": (with_two, switched),
    "merged": (lambda: adapted(LORA), merged),
    "scaled": (lambda: adapted(LORA), scaled),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_an_adapter_that_is_switched_is_noticed(name):
    make, switch = SWITCHES[name]
    adapter = make()
    model = adapter.get_base_model()
    paged = PagedModel(model, num_blocks=32, block_size=4)
    before = huggingface_generate(model, PROMPTS, GREEDY)
    assert [out.sequences for out in generate(paged, PROMPTS, GREEDY)] == before
    switch(adapter)
    refused(paged)
    again = generate(PagedModel(model, 32, 4), PROMPTS, GREEDY)
    after = huggingface_generate(model, PROMPTS, GREEDY)
    assert [out.sequences for out in again] == after
    assert name == "merged" or after != before  # else nothing is proved


def test_an_adapter_that_is_on_again_is_served_again():
    adapter = adapted(LORA)
    model = adapter.get_base_model()
    paged = PagedModel(model, num_blocks=32, block_size=4)
    before = generate(paged, PROMPTS, GREEDY)
    with adapter.disable_adapter():
        refused(paged)
    adapter.generate(torch.tensor(PROMPTS[:1], device=DEVICE), max_new_tokens=2)
    assert generate(paged, PROMPTS, GREEDY) == before


def refused(paged):
    """Is every way to ask refused, and no token served?"""
    engine = Engine(paged)
    stream = engine.add(PROMPTS[0], GREEDY)
    ways = engine.run, engine.step, stream.result, lambda: next(iter(stream))
    for ask in (lambda: generate(paged, PROMPTS, GREEDY), *ways):
        with pytest.raises(ValueError, match=r"wrap it again: mp.PagedModel\(model\)"):
            ask()
    assert not stream.tokens and paged.pool.num_free == paged.pool.num_blocks


def layer(model):
    return model.model.layers[1]


def doubled(module, *inputs_and_output):
    return 2 * inputs_and_output[-1]


def hook(model):
    layer(model).register_forward_hook(doubled)


def hook_before(model):
    layer(model).mlp.register_forward_pre_hook(lambda _, inputs: (2 * inputs[0],))


def hook_that_is_an_object(model):
    class Doubles:
        def __call__(self, _module, _inputs, output):
            return 2 * output

    layer(model).register_forward_hook(Doubles())


def forward_of_an_instance(model):
    mlp = layer(model).mlp
    forward = mlp.forward
    mlp.forward = lambda x: 2 * forward(x)


def method_of_an_instance(model):
    mlp = layer(model).mlp
    mlp.forward = types.MethodType(lambda self, x: 2 * x, mlp)


def generate_of_an_instance(model):
    model.generate = lambda *_arguments, **_options: None


def another_class(model):
    mlp = layer(model).mlp

    class Doubled(type(mlp)):
        def forward(self, x):
            return 2 * super().forward(x)

    mlp.__class__ = Doubled


def training(model):
    model.train()


def dropout(model):
    layer(model).self_attn.attention_dropout = 0.5


def scale(model):
    layer(model).self_attn.scaling *= 2


def fewer_layers(model):
    model.config.num_hidden_layers = 2


def rotated_otherwise(model):
    rotary = model.model.rotary_emb
    rotary.inv_freq = 2 * rotary.inv_freq


def parametrized(model):
    class Doubled(nn.Module):
        def forward(self, weight):
            return 2 * weight

    parametrize.register_parametrization(layer(model).mlp.up_proj, "weight", Doubled())


def one_number(model):
    layer(model).mlp.up_proj.weight.data[7, 13] += 1


def last_row(model):
    """As trained tokens are written: no sample of a few rows would find it."""
    model.lm_head.weight.data[126] *= 2


def numbers_through_numpy(model):
    weight = layer(model).mlp.up_proj.weight.detach()
    if weight.is_cuda:
        weight.data[11] *= -5  # no numpy there
    else:
        weight.numpy()[11] *= -5


def two_rows_exchanged(model):
    weight = model.model.embed_tokens.weight
    weight.data[[5, 6]] = weight.data[[6, 5]]


def sign_of_a_row(model):
    layer(model).mlp.down_proj.weight.data[5].neg_()


CHANGES = [
    hook, hook_before, hook_that_is_an_object, forward_of_an_instance,
    method_of_an_instance, generate_of_an_instance, another_class, training, dropout,
    scale, fewer_layers, rotated_otherwise, parametrized, one_number, last_row,
    numbers_through_numpy, two_rows_exchanged, sign_of_a_row,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_may_change_the_text_is_noticed(change):
    model = fresh()
    paged = PagedModel(model, num_blocks=32, block_size=4)
    generate(paged, PROMPTS, GREEDY)
    change(model)
    refused(paged)


def test_the_message_names_what_was_altered():
    model = fresh()
    paged = PagedModel(model, num_blocks=8)
    layer(model).self_attn.scaling = 1.0
    with pytest.raises(ValueError, match=r"\(model.layers.1.self_attn.scaling\): undo"):
        paged.refuse_altered_modules()


def test_a_hook_that_was_there_is_missed():
    model = fresh()
    handle = layer(model).register_forward_hook(doubled)
    expected = huggingface_generate(model, PROMPTS, GREEDY)
    paged = PagedModel(model, num_blocks=32, block_size=4)
    ours = generate(paged, PROMPTS, GREEDY)
    assert [out.sequences for out in ours] == expected
    handle.remove()
    refused(paged)


def ids(count=8):
    return torch.arange(3, 3 + count, device=DEVICE)[None]


def caches(model):
    for kind in ("static", "dynamic"):
        model.generate(
            ids(), max_new_tokens=3, cache_implementation=kind, disable_compile=True
        )


def beams_and_outputs(model):
    model.generate(
        ids(), max_new_tokens=3, num_beams=2, return_dict_in_generate=True,
        output_scores=True, output_hidden_states=True,
    )  # fmt: skip


def forwards(model):
    """To its last position, and with what HuggingFace's hooks collect."""
    model(ids(), output_hidden_states=True, use_cache=False)
    model(torch.full((1, 250), 5, device=DEVICE))


def eager(model):
    model.set_attn_implementation("eager")
    model(ids(), output_attentions=True)


def settings_of_no_concern(model):
    model.config.use_cache = False
    model.config.pad_token_id = model.generation_config.pad_token_id = 3
    model.my_note = model.config.my_note = "x"


def a_step_of_training_without_an_optimizer(model):
    model.gradient_checkpointing_enable()
    model.train()
    model(ids(), labels=ids()).loss.backward()
    model.eval()


def hook_for_a_while(model):
    handle = model.register_forward_hook(doubled)
    handle.remove()


def saved(model):
    model.state_dict()
    copy.deepcopy(model)
    model.to(DEVICE, torch.float32)


def compiled(model):
    model.compile(backend="eager")
    model.forward = torch.compile(model.forward, backend="eager")


ORDINARY = [
    caches, beams_and_outputs, forwards, eager, settings_of_no_concern,
    a_step_of_training_without_an_optimizer, hook_for_a_while, saved,
]  # fmt: skip


@pytest.mark.parametrize("name", all_or(ARCHITECTURES, UNLIKE))
def test_ordinary_use_is_no_change(name):
    model = fresh(name)
    paged = PagedModel(model, num_blocks=32, block_size=4)
    before = generate(paged, PROMPTS, GREEDY)
    for use in ORDINARY:
        use(model)
        paged.refuse_changes()
        paged.refuse_changes()
    assert generate(paged, PROMPTS, GREEDY) == before


def test_a_model_may_be_compiled_once_it_is_wrapped():
    model = fresh()
    paged = PagedModel(model, num_blocks=32, block_size=4)
    before = generate(paged, PROMPTS, GREEDY)
    compiled(model)
    assert generate(paged, PROMPTS, GREEDY) == before


def test_what_a_module_counts_for_itself_is_no_change():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.lengths = 0, []

        def forward(self, x):
            self.calls += 1
            self.lengths.append(x.shape[1])
            return torch.relu(x)

    model = fresh()
    layer(model).mlp.act_fn = Counts()
    paged = PagedModel(model, num_blocks=32, block_size=4)
    expected = huggingface_generate(model, PROMPTS, GREEDY)
    ours = generate(paged, PROMPTS, GREEDY)
    assert [out.sequences for out in ours] == expected


def test_a_hook_of_huggingface_does_not_hide_another_one():
    model = fresh()
    paged = PagedModel(model, num_blocks=8)
    forwards(model)
    paged.refuse_altered_modules()
    hook(model)
    with pytest.raises(ValueError, match=r"model.layers.1._forward_hooks"):
        paged.refuse_altered_modules()


@pytest.mark.parametrize("added", [nn.Linear(2, 2), nn.Parameter(torch.ones(2))])
def test_what_is_added_where_nothing_was_is_noticed(added):
    """A norm has no modules, and a layer no weights beside those of its modules."""
    model = fresh()
    paged = PagedModel(model, num_blocks=8)
    paged.refuse_replaced_weights()
    is_weight = isinstance(added, nn.Parameter)
    (layer(model) if is_weight else layer(model).input_layernorm).extra = added
    with pytest.raises(ValueError, match="replaced, moved or changed"):
        paged.refuse_replaced_weights()


def test_the_shards_of_a_model_are_looked_at_in_their_place():
    """A DTensor's own address and counter are not those of its numbers."""
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = distributed.init_device_mesh("cpu", (1,))
        model = copy.deepcopy(tiny_model("llama"))
        up = layer(model).mlp.up_proj
        up.weight = nn.Parameter(distribute_tensor(up.weight.data, mesh))
        original = Original(model)
        original.refuse_if_changed()
        original.refuse_if_written_to()
        local = up.weight.to_local()
        local.data.mul_(2)  # which nobody counts
        original.refuse_if_changed()
        with pytest.raises(ValueError, match="numbers of the model's weights"):
            original.refuse_if_written_to()
        with torch.no_grad():
            local.mul_(2)
        with pytest.raises(ValueError, match="replaced, moved or changed"):
            original.refuse_if_changed()
    finally:
        distributed.destroy_process_group()
