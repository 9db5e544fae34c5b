"""The bridge: unmodified models, refused models, and what the probe catches."""

import sys
from threading import Thread

import pytest
import torch
from tiny_models import ARCHITECTURES, REFUSED, tiny_model
from transformers import GenerationConfig, T5Config, T5ForConditionalGeneration

from minipaged.attention.gathered import gathered_attention
from minipaged.engine.generate import generate
from minipaged.errors import UnsupportedModel
from minipaged.lab.reference import huggingface_generate
from minipaged.model.paged_model import PagedModel

GREEDY = GenerationConfig(max_new_tokens=6, pad_token_id=0)


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_would_be_silently_wrong_are_refused(name):
    with pytest.raises(UnsupportedModel):
        PagedModel(tiny_model(name))


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


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
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


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_the_model_stays_as_it_was(name):
    model = tiny_model(name)
    prompts = [[5, 6, 7, 8, 9, 10, 11, 12]]
    window = getattr(model.config, "sliding_window", None)
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


def test_two_threads_with_pools_of_their_own_do_not_disturb_each_other():
    model = tiny_model("qwen3")
    prompts = [[5 + i, 6, 7] for i in range(6)]
    config = GenerationConfig(max_new_tokens=20, eos_token_id=127)
    expected = huggingface_generate(model, prompts, config)
    models = [PagedModel(model, num_blocks=8, block_size=16) for _ in range(2)]
    found = {}
    before = sys.getswitchinterval()

    def work(index):
        out = [generate(models[index], [prompt], config)[0] for prompt in prompts]
        found[index] = [o.sequences for o in out]

    threads = [Thread(target=work, args=(index,)) for index in range(2)]
    sys.setswitchinterval(1e-6)  # change threads between any two layers
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert found == {0: expected, 1: expected}


def test_every_architecture_is_named_once():
    assert len(ARCHITECTURES) >= 10
    assert not set(ARCHITECTURES) & set(REFUSED)
