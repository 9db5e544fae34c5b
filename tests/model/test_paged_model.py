"""The bridge: unmodified models, refused models, and what the probe catches."""

import copy
import time
from threading import Event, Thread

import pytest
import torch
from transformers import GenerationConfig, T5Config, T5ForConditionalGeneration

from helpers.tiny_models import ARCHITECTURES, REFUSED, tiny_model
from minipaged.attention.gathered import gathered_attention
from minipaged.engine.generate import generate
from minipaged.errors import UnsupportedModel
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model import bridge
from minipaged.model.paged_model import PagedModel

GREEDY = GenerationConfig(max_new_tokens=6, pad_token_id=0)


WHY_REFUSED = {
    "gpt_oss": "attention with s_aux",
    "llama4_text": "layers of type chunked_attention",
    "diffllama": "3 layers but called attention 6 times",
    "gptj": "does not call its attention through",
    "gpt_neo": "does not call its attention through",
    "bloom": "does not call its attention through",
    "mamba": "does not call its attention through",
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
        bridge._call(torch.nn.Module(), q, q, q, **option)


def test_the_default_scale_follows_from_the_width_of_k():
    seen = []

    def attend(module, q, k, v, scale, *_options):
        seen.append(scale)
        return v

    q, v = torch.zeros(1, 4, 2, 16), torch.zeros(1, 4, 2, 9)
    with bridge.attention_replaced([], attend):
        bridge._call(torch.nn.Module(), q, q, v, None)
    assert seen == [0.25]


def test_an_encoder_decoder_is_refused():
    config = T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(UnsupportedModel, match="has an encoder"):
        PagedModel(T5ForConditionalGeneration(config).eval())


def test_something_that_is_no_model_is_refused():
    with pytest.raises(UnsupportedModel, match="no causal language model"):
        PagedModel(torch.nn.Linear(2, 2))


def test_a_model_in_training_mode_is_refused():
    model = tiny_model("llama")
    try:
        with pytest.raises(UnsupportedModel, match=r"call model.eval\(\) first"):
            PagedModel(model.train())
    finally:
        model.eval()


def test_a_model_put_into_training_mode_later_is_refused():
    model = tiny_model("llama")
    paged = PagedModel(model, num_blocks=8)
    try:
        model.train()
        with pytest.raises(UnsupportedModel, match="training mode"):
            generate(paged, [[5, 6]], GREEDY)
    finally:
        model.eval()
    assert paged.pool.num_free == 8


def test_an_unknown_attention_is_refused_with_the_names_that_exist():
    with pytest.raises(ValueError, match="no attention named 'flash'; choose from"):
        PagedModel(tiny_model("llama"), attention="flash")


def test_shapes_are_read_from_the_model_and_not_from_its_config():
    unequal = PagedModel(tiny_model("gemma4_text"), num_blocks=3, block_size=4)
    assert [k.shape[2:] for k in unequal.cache.keys] == [(2, 16), (2, 32), (2, 32)]
    wide = PagedModel(tiny_model("deepseek_v3"), num_blocks=3, block_size=4)
    assert wide.cache.keys[0].shape[2:] == (4, 24)
    assert wide.cache.values[0].shape[2:] == (4, 12)


def sees_one_token_less(q, keys, values, batch, **options):
    batch.context_lengths = batch.context_lengths - (batch.context_lengths > 1).long()
    return gathered_attention(q, keys, values, batch, **options)


def ignores_the_window(q, keys, values, batch, *, sliding_window=None, **options):
    return gathered_attention(q, keys, values, batch, **options)


def ignores_the_soft_cap(q, keys, values, batch, *, softcap=None, **options):
    return gathered_attention(q, keys, values, batch, **options)


def ignores_the_scale(q, keys, values, batch, *, scale, **options):
    return gathered_attention(q, keys, values, batch, scale=0.25, **options)


def returns_nan(q, keys, values, batch, **options):
    return gathered_attention(q, keys, values, batch, **options) * float("nan")


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

    def far_off(q, keys, values, batch, *, scale, **options):
        return gathered_attention(q, keys, values, batch, scale=3 * scale, **options)

    with pytest.raises(UnsupportedModel, match="differ from its own"):
        PagedModel(model, num_blocks=8, attention=far_off)


def test_a_model_that_moved_must_be_wrapped_again():
    model = copy.deepcopy(tiny_model("llama"))
    paged = PagedModel(model, num_blocks=8)
    model.to(torch.bfloat16)
    with pytest.raises(ValueError, match=r"wrap it again: mp.PagedModel\(model\)"):
        generate(paged, [[5, 6]], GREEDY)
    assert paged.pool.num_free == 8


def test_attention_of_the_readers_own():
    calls = []

    def own(q, keys, values, batch, **options):
        calls.append(options)
        return gathered_attention(q, keys, values, batch, **options)

    paged = PagedModel(tiny_model("llama"), num_blocks=8, attention=own)
    calls.clear()
    generate(paged, [[5, 6, 7]], GenerationConfig(max_new_tokens=1))
    assert len(calls) == 3
    assert calls[0] == {"scale": 0.25, "sliding_window": None, "softcap": None}


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "mistral"])
def test_the_model_stays_as_it_was(name):
    tiny_model.cache_clear()  # as nobody has wrapped it before
    model = tiny_model(name)
    prompts = [[5, 6, 7, 8, 9, 10, 11, 12]]
    window = ARCHITECTURES[name].get("sliding_window")
    assert getattr(model.config, "sliding_window", None) == window
    implementation = model.config._attn_implementation
    before = huggingface_generate(model, prompts, GREEDY)
    paged = PagedModel(model, num_blocks=16, block_size=4)
    ours = generate(paged, prompts, GREEDY)
    assert huggingface_generate(model, prompts, GREEDY) == before
    assert [out.sequences for out in ours] == before
    assert getattr(model.config, "sliding_window", None) == window
    assert model.config._attn_implementation == implementation


def test_the_model_stays_as_it_was_after_an_exception():
    model = tiny_model("llama")
    implementation = model.config._attn_implementation
    paged = PagedModel(model, num_blocks=16)

    def breaks(*_args, **_options):
        raise ArithmeticError("in the middle of a forward")

    paged.attention = breaks
    with pytest.raises(ArithmeticError):
        generate(paged, [[5, 6, 7]], GREEDY)
    assert model.config._attn_implementation == implementation
    assert paged.pool.num_free == 16
    assert len(huggingface_generate(model, [[5, 6, 7]], GREEDY)[0][0]) == 6


def test_two_threads_do_not_switch_each_others_attention():
    """A is between two layers while B comes; A would leave first, were there no lock.

    Each waits for the other in its first layer, for half a second at most: with the
    lock they cannot meet, and both waits run out.
    """
    model = copy.deepcopy(tiny_model("llama"))
    before = model.config._attn_implementation
    b_inside, a_done, calls = Event(), Event(), []

    def of_a(q, keys, values, batch, **options):
        calls.append("A")
        b_inside.wait(0.5 if calls.count("A") == 1 else 0)
        return gathered_attention(q, keys, values, batch, **options)

    def of_b(q, keys, values, batch, **options):
        calls.append("B")
        b_inside.set()
        a_done.wait(0.5 if calls.count("B") == 1 else 0)
        return gathered_attention(q, keys, values, batch, **options)

    models = {name: PagedModel(model, num_blocks=8) for name in "AB"}
    models["A"].attention, models["B"].attention = of_a, of_b
    one = GenerationConfig(max_new_tokens=1)
    found = {}

    def work(name):
        found[name] = generate(models[name], [[5, 6, 7]], one)[0].sequences
        if name == "A":
            a_done.set()

    threads = [Thread(target=work, args=(name,)) for name in "AB"]
    threads[0].start()
    while not calls:  # B starts when A is inside a layer
        time.sleep(0.001)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert calls == ["A"] * 3 + ["B"] * 3
    assert model.config._attn_implementation == before
    (expected,) = huggingface_generate(model, [[5, 6, 7]], one)
    assert found == {"A": expected, "B": expected}


def test_every_architecture_is_named_once():
    assert len(ARCHITECTURES) >= 10
    assert not set(ARCHITECTURES) & set(REFUSED)
