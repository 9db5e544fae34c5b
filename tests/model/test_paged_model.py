"""Models over blocks: which are refused, what the probe catches, how they attend."""

import copy
from functools import partial, wraps

import peft
import pytest
import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    T5Config,
    T5ForConditionalGeneration,
)

from helpers.tiny_models import ARCHITECTURES, REFUSED, tiny_model
from minipaged.attention.backend import Backend, Masking
from minipaged.attention.gathered import attend_gathered
from minipaged.attention.rectangles import gathered_attention, gathered_in_turns
from minipaged.engine.generate import generate
from minipaged.errors import UnsupportedModel
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.kv_cache import KVCache
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.model.paged_model import PagedModel
from minipaged.model.probe import blocks_of_probe

GREEDY = GenerationConfig(max_new_tokens=6, pad_token_id=0)


WHY_REFUSED = {
    "llama4_text": "layers of type chunked_attention",
    "diffllama": "3 layers but called attention 6 times",
    "gpt_neo": "does not call its attention through",
    "bloom": "does not call its attention through",
    "mamba": "layers of type linear_attention",
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_would_be_silently_wrong_are_refused(name):
    with pytest.raises(UnsupportedModel, match=WHY_REFUSED[name]):
        PagedModel(tiny_model(name))


@pytest.mark.parametrize("per_layer_type", [False, True])
def test_longrope_is_refused(per_layer_type):
    """It rotates by the longest position of the forward: batch mates would change."""
    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 16, **factors}
    rope["rope_theta"] = 10000.0
    model = copy.deepcopy(tiny_model("llama"))
    model.config.rope_parameters = {"full_attention": rope} if per_layer_type else rope
    with pytest.raises(UnsupportedModel, match="longrope"):
        PagedModel(model)


def test_layers_that_share_a_module_are_refused():
    model = copy.deepcopy(tiny_model("llama"))
    model.model.layers[1] = model.model.layers[0]
    with pytest.raises(UnsupportedModel, match="from 2 modules"):
        PagedModel(model)


def test_a_forward_without_logits_to_keep_is_refused():
    model = copy.deepcopy(tiny_model("llama"))
    forward = type(model).forward

    class Plain(type(model)):
        def forward(self, input_ids=None, position_ids=None, use_cache=None):
            return forward(self, input_ids, position_ids=position_ids)

    model.__class__ = Plain
    with pytest.raises(UnsupportedModel, match="takes no logits_to_keep"):
        PagedModel(model)


def test_an_encoder_decoder_is_refused():
    config = T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(UnsupportedModel, match="has an encoder"):
        PagedModel(T5ForConditionalGeneration(config).eval())


def test_something_that_is_no_model_is_refused():
    with pytest.raises(UnsupportedModel, match="no causal language model"):
        PagedModel(torch.nn.Linear(2, 2))


ALL = {"target_modules": "all-linear", "task_type": "CAUSAL_LM"}
ADAPTERS = {
    "lora": peft.LoraConfig(r=2, lora_dropout=0.5, lora_bias=True, **ALL),
    "dora": peft.LoraConfig(r=2, use_dora=True, **ALL),
    "embeddings": peft.LoraConfig(r=2, target_modules=["q_proj", "embed_tokens"]),
    "tokens": peft.LoraConfig(
        r=2, target_modules=["q_proj"], trainable_token_indices=[5, 6, 9]
    ),
    "tokens alone": peft.TrainableTokensConfig(token_indices=[5, 6, 9]),
    "saved": peft.LoraConfig(
        r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"]
    ),
    "ia3": peft.IA3Config(
        target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]
    ),
    "norms": peft.LNTuningConfig(target_modules=["input_layernorm", "norm"]),
}


def serves_as_huggingface(model):
    prompts = [[5, 6, 7], [9] * 11]
    ours = generate(PagedModel(model, num_blocks=16, block_size=4), prompts, GREEDY)
    return [out.sequences for out in ours] == huggingface_generate(
        model, prompts, GREEDY
    )


@pytest.mark.parametrize("name", ADAPTERS)
def test_adapters(name):
    """Of every layer that one may be on, with weights that matter."""
    model = copy.deepcopy(tiny_model("llama"))
    adapter = peft.get_peft_model(model, ADAPTERS[name]).eval()
    torch.manual_seed(0)
    for weight in adapter.parameters():
        if weight.requires_grad:
            weight.data += 0.5 * torch.randn_like(weight)
    with pytest.raises(UnsupportedModel, match=r"model.get_base_model\(\)"):
        PagedModel(adapter)
    assert serves_as_huggingface(adapter.get_base_model())


@pytest.mark.parametrize("kind", ["PromptTuning", "PrefixTuning", "PromptEncoder"])
def test_a_soft_prompt_is_refused_without_advice_that_would_lose_it(kind):
    config = getattr(peft, f"{kind}Config")
    config = config(num_virtual_tokens=4, task_type="CAUSAL_LM")
    adapter = peft.get_peft_model(copy.deepcopy(tiny_model("llama")), config).eval()
    with pytest.raises(UnsupportedModel, match="puts a soft prompt before") as caught:
        PagedModel(adapter)
    assert "get_base_model" not in str(caught.value)


def test_an_adapter_that_rewrites_weights_in_each_forward_is_refused():
    config = peft.LoraConfig(
        r=2, target_modules=["q_proj"], target_parameters=["mlp.up_proj.weight"]
    )
    adapter = peft.get_peft_model(copy.deepcopy(tiny_model("llama")), config).eval()
    with pytest.raises(UnsupportedModel, match=r"peft_model.merge_and_unload\(\)"):
        PagedModel(adapter.get_base_model())
    assert serves_as_huggingface(adapter.merge_and_unload())


@pytest.mark.parametrize(
    ("around", "inside"), [(torch.compile, "_orig_mod"), (nn.DataParallel, "module")]
)
def test_a_wrapper_is_refused_with_the_way_to_the_model_inside(around, inside):
    model = around(tiny_model("llama"))
    with pytest.raises(UnsupportedModel, match=rf"mp.PagedModel\(model.{inside}\)"):
        PagedModel(model)
    assert serves_as_huggingface(getattr(model, inside))


def compiled_forward(model):
    model.forward = torch.compile(model.forward, backend="eager")


def compiled_layers(model):
    for layer in model.model.layers:
        layer.compile(backend="eager")


def hook_before_all(model):
    def other_tokens(_module, inputs, keywords):
        return inputs, keywords | {"input_ids": (keywords["input_ids"] + 1) % 128}

    model.register_forward_pre_hook(other_tokens, with_kwargs=True)


def hook_behind_all(model):
    def other_logits(_module, _inputs, output):
        output.logits = output.logits.roll(1, -1)

    model.register_forward_hook(other_logits)


def hook_on_a_layer(model):
    model.model.layers[1].register_forward_hook(lambda _, __, out: -2 * out)


def hook_on_attention(model):
    model.model.layers[1].self_attn.register_forward_hook(
        lambda _, __, out: (-2 * out[0], *out[1:])
    )


def forward_of_an_mlp(model):
    mlp = model.model.layers[1].mlp
    forward = mlp.forward
    mlp.forward = lambda x: -2 * forward(x)


def weight_norm(model):
    nn.utils.parametrizations.weight_norm(model.model.layers[1].mlp.up_proj)


def more_tokens(model):
    model.resize_token_embeddings(150)


@pytest.mark.parametrize(
    "alter",
    [
        compiled_forward, compiled_layers, hook_before_all, hook_behind_all,
        hook_on_a_layer, hook_on_attention, forward_of_an_mlp, weight_norm, more_tokens,
    ],
)  # fmt: skip
def test_what_was_altered_before_is_served_as_it_is(alter):
    model = copy.deepcopy(tiny_model("llama"))
    before = huggingface_generate(model, [[5, 6, 7]], GREEDY)
    alter(model)
    after = huggingface_generate(model, [[5, 6, 7]], GREEDY)
    assert ("hook" in alter.__name__) <= (before != after)
    assert serves_as_huggingface(model)


class Steering:
    """Adds to what passes; how much may be changed at any time."""

    strength = 0.0

    def __call__(self, _module, _inputs, output):
        return output - self.strength * output

    def method(self, module, inputs, output):
        return self(module, inputs, output)


@pytest.mark.parametrize("kind", ["object", "method", "partial"])
def test_a_hook_looks_at_what_the_user_sets_later(kind):
    steering, model = Steering(), copy.deepcopy(tiny_model("llama"))
    hooks = {
        "object": steering,
        "method": steering.method,
        "partial": partial(Steering.__call__, steering),
    }
    model.model.layers[1].register_forward_hook(hooks[kind])
    paged, found = PagedModel(model, num_blocks=16), []
    for steering.strength in (0.0, 3.0):
        (out,) = generate(paged, [[5, 6, 7]], GREEDY)
        assert [out.sequences] == huggingface_generate(model, [[5, 6, 7]], GREEDY)
        found.append(out.sequences)
    assert found[0] != found[1]


@pytest.mark.parametrize("path", ["", "model.layers.1", "model.layers.1.self_attn"])
def test_a_forward_that_leads_back_to_the_users_modules_is_refused_by_name(path):
    model = copy.deepcopy(tiny_model("llama"))
    module = model.get_submodule(path)
    forward = module.forward
    module.forward = wraps(forward)(lambda *inputs, **more: forward(*inputs, **more))
    name = f"{path or 'model'}.forward was replaced in this object"
    with pytest.raises(UnsupportedModel, match=name):
        PagedModel(model)
    del module.forward
    PagedModel(model, num_blocks=8)


@pytest.mark.parametrize("where", ["object", "class"])
def test_a_generate_of_the_models_own_is_refused(where):
    model = copy.deepcopy(tiny_model("llama"))
    if where == "object":
        model.generate = lambda *_inputs, **_options: None
    else:

        class Own(type(model)):
            def generate(self, *inputs, **options):
                return super().generate(*inputs, **options)

        model.__class__ = Own
    with pytest.raises(UnsupportedModel, match="has a generate of its own"):
        PagedModel(model)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_hold_no_numbers_are_named(number):
    model = copy.deepcopy(tiny_model("llama"))
    model.model.layers[1].mlp.up_proj.weight.data[3, 5] = number
    with pytest.raises(UnsupportedModel, match=r"infinity: model.layers.1.mlp.up_proj"):
        PagedModel(model)


def test_a_head_for_more_tokens_than_there_are_is_refused():
    model = copy.deepcopy(tiny_model("llama"))
    model.lm_head = nn.Linear(64, 150, bias=False)
    with pytest.raises(UnsupportedModel, match="among 150 tokens, but knows only 128"):
        PagedModel(model)


def test_weights_of_whole_numbers_are_refused():
    model = copy.deepcopy(tiny_model("llama")).requires_grad_(False)
    for weight in model.parameters():
        weight.data = weight.data.to(torch.int32)
    with pytest.raises(UnsupportedModel, match=r"of type torch.int32; load it with"):
        PagedModel(model)


def test_a_layer_that_looks_at_all_tokens_of_a_batch_is_refused():
    """As one that quantises activations does, by the largest of all of them."""

    class Rounded(torch.nn.Linear):
        def forward(self, x):
            step = x.abs().max() / 127
            return super().forward((x / step).round() * step)

    model = copy.deepcopy(tiny_model("llama"))
    for layer in model.model.layers:
        layer.mlp.up_proj.__class__ = Rounded
    with pytest.raises(UnsupportedModel, match="as a layer that quantises"):
        PagedModel(model)


def test_a_model_in_training_mode_is_refused():
    model = tiny_model("llama")
    try:
        with pytest.raises(UnsupportedModel, match=r"call model.eval\(\) first"):
            PagedModel(model.train())
    finally:
        model.eval()


def test_a_model_that_is_trained_on_after_wrapping_is_refused_until_it_is_in_eval():
    """HuggingFace's own text would have dropout in it."""
    model = copy.deepcopy(tiny_model("llama"))
    paged = PagedModel(model, num_blocks=8)
    before = generate(paged, [[5, 6]], GREEDY)
    model.train()
    with pytest.raises(ValueError, match=r"altered .*\(model.training, .*undo"):
        generate(paged, [[5, 6]], GREEDY)
    model.eval()
    assert generate(paged, [[5, 6]], GREEDY) == before


def test_an_unknown_attention_is_refused_with_the_names_that_exist():
    with pytest.raises(ValueError, match="no attention named 'flash'; choose from"):
        PagedModel(tiny_model("llama"), attention="flash")


def test_shapes_are_read_from_the_model_and_not_from_its_config():
    unequal = PagedModel(tiny_model("gemma4_text"), num_blocks=3, block_size=4)
    assert [k.shape[2:] for k in unequal.cache.keys] == [(2, 16), (2, 32), (2, 32)]
    wide = PagedModel(tiny_model("deepseek_v3"), num_blocks=3, block_size=4)
    assert wide.cache.keys[0].shape[2:] == (4, 24)
    assert wide.cache.values[0].shape[2:] == (4, 12)


def sees_one_token_less(q, cache, batch, masking):
    batch.context_lengths = batch.context_lengths - (batch.context_lengths > 1).long()
    return gathered_attention(q, cache, batch, masking)


def ignores_the_window(q, cache, batch, masking):
    return gathered_attention(q, cache, batch, masking._replace(sliding_window=None))


def ignores_the_soft_cap(q, cache, batch, masking):
    return gathered_attention(q, cache, batch, masking._replace(softcap=None))


def ignores_the_scale(q, cache, batch, masking):
    return gathered_attention(q, cache, batch, masking._replace(scale=0.25))


def ignores_the_sinks(q, cache, batch, masking):
    return gathered_attention(q, cache, batch, masking._replace(sinks=None))


def returns_nan(q, cache, batch, masking):
    return gathered_attention(q, cache, batch, masking) * float("nan")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("llama", returns_nan),
        ("llama", sees_one_token_less),
        ("mistral", ignores_the_window),
        ("starcoder2", ignores_the_window),
        ("gemma2", ignores_the_window),
        ("gemma2", ignores_the_soft_cap),
        ("granite", ignores_the_scale),
        ("gpt_oss", ignores_the_sinks),
    ],
)
def test_the_probe_rejects_wrong_attention(name, wrong):
    with pytest.raises((UnsupportedModel, RuntimeError, IndexError)):
        PagedModel(tiny_model(name), attention=wrong)


@pytest.mark.parametrize("result", [None, torch.zeros(3)])
def test_attention_that_returns_something_else_is_refused(result):
    with pytest.raises(ValueError, match="must return a tensor of shape"):
        PagedModel(tiny_model("llama"), attention=lambda *_, **__: result)


def test_in_half_precision_gross_mistakes_are_still_refused():
    model = copy.deepcopy(tiny_model("llama")).to(torch.bfloat16)
    PagedModel(model, num_blocks=8)

    def far_off(q, cache, batch, masking):
        masking = masking._replace(scale=3 * masking.scale)
        return gathered_attention(q, cache, batch, masking)

    with pytest.raises(UnsupportedModel, match="differ from its own"):
        PagedModel(model, num_blocks=8, attention=far_off)


def test_attention_of_the_readers_own():
    calls = []

    def own(q, cache, batch, masking):
        calls.append(masking)
        return gathered_attention(q, cache, batch, masking)

    paged = PagedModel(tiny_model("llama"), num_blocks=8, attention=own)
    assert type(paged.cache) is KVCache
    calls.clear()
    generate(paged, [[5, 6, 7]], GenerationConfig(max_new_tokens=1))
    assert calls == [Masking(scale=0.25)] * 3


def test_a_function_that_returns_what_it_was_given_is_no_trouble():
    """An operator of torch must not; so it is copied."""
    paged = PagedModel(tiny_model("llama"), num_blocks=8)
    paged.attention = lambda q, cache, batch, masking: q
    for prompt in ([5], [5, 6, 7]):
        (out,) = generate(paged, [prompt], GREEDY)
        assert len(out.sequences[0]) == 6


def test_a_step_of_the_backends_own_replaces_writing_and_attending():
    """It is handed the new K and V, and the cache's own `write` is not called."""
    written = []

    def step(q, k, v, cache, batch, masking):
        written.append(len(k))
        cache.keys.flatten(0, 1)[batch.slots] = k
        cache.values.flatten(0, 1)[batch.slots] = v
        return gathered_attention(q, cache, batch, masking)

    class NeverWritten(KVCache):
        def write(self, *_arguments):
            raise AssertionError("the step writes")

    backend = Backend(gathered_attention.attend, NeverWritten, step)
    model = tiny_model("llama")
    paged = PagedModel(model, num_blocks=8, attention=backend)
    written.clear()
    (out,) = generate(paged, [[5, 6, 7]], GREEDY)
    assert [out.sequences] == huggingface_generate(model, [[5, 6, 7]], GREEDY)
    assert written == [3] * 3 + [1] * 3 * 5


def test_attention_may_be_exchanged_but_not_for_one_with_another_cache():
    class Doubled(KVCache):
        def write(self, layer, slots, keys, values):
            super().write(layer, slots, 2 * keys, values)

    def halves(q, cache, batch, masking):
        return gathered_attention(q / 2, cache, batch, masking)

    model, prompts = tiny_model("llama"), [[5, 6, 7]]
    backend = Backend(halves, Doubled)
    expected = huggingface_generate(model, prompts, GREEDY)
    paged = PagedModel(model, num_blocks=8, attention=backend)
    assert [generate(paged, prompts, GREEDY)[0].sequences] == expected
    for other in ("gathered", gathered_attention):
        with pytest.raises(
            ValueError, match="is a Doubled, and that attention wants a"
        ):
            paged.attention = other
    paged.attention = halves  # a function takes the cache as it is
    assert [generate(paged, prompts, GREEDY)[0].sequences] == expected
    plain = PagedModel(model, num_blocks=8)
    for attention in ("streamed", gathered_attention, gathered_attention.attend):
        plain.attention = attention
        assert [generate(plain, prompts, GREEDY)[0].sequences] == expected


@pytest.mark.parametrize("what", [torch.zeros(1, 4, 16).numpy(), "text"])
def test_attention_that_returns_no_tensor_is_refused_in_words(what):
    paged = PagedModel(tiny_model("llama"), num_blocks=8)
    paged.attention = lambda *_: what
    with pytest.raises(ValueError, match="must return a tensor of shape"):
        generate(paged, [[5]], GREEDY)


def test_a_name_and_its_backend_are_the_same():
    from minipaged.attention.kernels.attention import triton_attention
    from minipaged.attention.kernels.cache import TritonKVCache
    from minipaged.attention.streamed import streamed_attention

    model = copy.deepcopy(tiny_model("llama"))
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    backends = [gathered_in_turns, streamed_attention, triton_attention]
    for name, backend in zip(("gathered", "streamed", "triton"), backends, strict=True):
        made = [PagedModel(model, 8, 4, each) for each in (name, backend)]
        assert [each.attention for each in made] == [backend] * 2
        assert [type(each.cache) for each in made] == [backend.cache_class] * 2
    assert type(made[1].cache) is TritonKVCache


def test_every_architecture_is_named_once():
    assert len(ARCHITECTURES) >= 10
    assert not set(ARCHITECTURES) & set(REFUSED)


def steers(is_steered):
    """A forward hook that adds to what an MLP gives, in forwards of some lengths."""

    def hook(_module, _inputs, out):
        return out + 3 * torch.ones_like(out) if is_steered(out.shape[1]) else None

    return hook


@pytest.mark.parametrize(
    "is_steered",
    [lambda length: length > 1, lambda length: length == 1],
    ids=["the prompt", "the answer"],
)
def test_a_hook_that_looks_at_the_length_of_a_forward_is_refused(is_steered):
    """To it, one token of each of several sequences is a prompt."""
    model = copy.deepcopy(tiny_model("qwen3"))
    model.model.layers[1].mlp.register_forward_hook(steers(is_steered))
    with pytest.raises(UnsupportedModel, match="or a hook of one"):
        PagedModel(model, num_blocks=64, block_size=4)


def test_a_hook_that_always_steers_is_served():
    model = copy.deepcopy(tiny_model("qwen3"))
    model.model.layers[1].mlp.register_forward_hook(steers(lambda length: True))
    prompts, config = [[5, 6, 7], [8, 9]], GenerationConfig(max_new_tokens=6)
    ours = generate(PagedModel(model, 64, 4), prompts, config)
    theirs = huggingface_generate(model, prompts, config)
    assert [out.sequences for out in ours] == theirs


def test_a_window_of_one_token_is_refused():
    """transformers' cache then keeps all: text with it is not text without it."""
    with pytest.raises(UnsupportedModel, match="window of one token"):
        PagedModel(tiny_model("mistral", sliding_window=1), 64, 4)


def test_an_adapter_that_waits_for_certain_tokens_is_refused():
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        target_modules=["q_proj"],
        alora_invocation_tokens=[7, 8],
    )
    model = peft.get_peft_model(copy.deepcopy(tiny_model("qwen3")), config)
    with pytest.raises(UnsupportedModel, match="aLoRA") as error:
        PagedModel(model.eval())
    assert "get_base_model" not in str(error.value)


@pytest.mark.parametrize("block_size", [1, 4, 67, 10**6])
def test_the_probe_takes_few_blocks_however_large_they_are(block_size):
    assert blocks_of_probe(block_size) == {1: 14, 4: 5, 67: 3, 10**6: 2}[block_size]


def test_a_forward_over_another_cache_leaves_the_models_own_alone():
    """The probe's, and the one that is measured with, when a GPU's room is asked."""
    paged = PagedModel(tiny_model("llama"), num_blocks=8, block_size=4)
    other, own = paged.new_cache(2, 4), [*paged.cache.keys, *paged.cache.values]
    for tensor in own:
        tensor.fill_(7.0)
    table = BlockTable(BlockPool(2, 4))
    table.append(5)
    batch = RaggedBatch.build([Chunk([3, 4, 5, 6, 7], table)])
    there = paged.forward_over(batch, other)
    assert all(bool((tensor == 7.0).all()) for tensor in own)
    assert torch.equal(there, paged.forward(batch))


@pytest.mark.parametrize("attention", ["gathered", "streamed", "triton"])
def test_a_batch_may_be_computed_again_with_other_numbers(attention):
    """In the same tensors: what layers worked out for each other is of one step."""
    paged = PagedModel(tiny_model("qwen3"), 32, 4, attention)
    tables = [BlockTable(paged.pool) for _ in range(2)]
    for table, num_tokens in zip(tables, (21, 3), strict=True):
        table.append(num_tokens)
        paged.forward(RaggedBatch.build([Chunk([*range(5, 5 + num_tokens)], table)]))
        table.append(1)
    one, other = (
        RaggedBatch.build([Chunk([7], table) for table in both])
        for both in (tables, tables[::-1])
    )
    first, second = paged.forward(one), paged.forward(other)
    for name in ("block_tables", "context_lengths", "slots", "positions"):
        getattr(one, name).copy_(getattr(other, name))
    assert (paged.forward(one) - second).abs().max() < 1e-5
    assert (first - second).abs().max() > 1e-2


def test_attention_may_return_its_result_in_any_order_of_memory():
    """JetMoe views what attention returns in another shape."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1}
    sizes |= {"num_key_value_heads": 2, "kv_channels": 8, "intermediate_size": 32}
    sizes |= {"num_local_experts": 2, "num_experts_per_tok": 2}
    config = AutoConfig.for_model("jetmoe", tie_word_embeddings=False, **sizes)
    model = AutoModelForCausalLM.from_config(config).eval()

    def with_heads_apart(*arguments):
        out = attend_gathered(*arguments)
        return out.transpose(0, 1).contiguous().transpose(0, 1)

    ours, theirs = (
        generate(PagedModel(model, 8, attention=each), [[5, 6, 7]], GREEDY)
        for each in (with_heads_apart, attend_gathered)
    )
    assert ours == theirs


def test_repr_names_what_computes_prompts():
    """If the backend says it; on a Hopper GPU, it is another kernel than elsewhere."""
    model = tiny_model("llama")
    plain = repr(PagedModel(model, num_blocks=8))
    assert plain.startswith("PagedModel(LlamaForCausalLM, BlockPool(")
    assert plain.endswith(", 3 layers)")

    def named(cache, dtype):
        return f"{cache.keys.ndim} {dtype}"

    backend = gathered_attention._replace(prompts_by=named)
    paged = PagedModel(model, num_blocks=8, attention=backend)
    assert repr(paged).endswith(", 3 layers, prompts by 4 torch.float32)")
