"""What 8 bits cost: measured, said, and refused if it is too much."""

import math
from copy import deepcopy
from dataclasses import replace
from functools import cache
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig

import minipaged as mp
from helpers.thorough import all_or
from helpers.tiny_models import tiny_model
from minipaged.attention.backend import Backend
from minipaged.attention.rectangles import attend_in_rectangles
from minipaged.memory.eight_bits import EightBitKVCache, LayerScales
from minipaged.model.kv_scales import FILE
from tools.pocket import grammar
from tools.pocket.scores import prompt_text

KINDS = ["fp8", "fp8_v"]


@cache
def pocket():
    return mp.load("pocket")


@cache
def paged(kind=None):
    return mp.PagedModel(pocket()[0], 256, kv_dtype=kind)


def logits_of(paged, tokens):
    """All logits of a text, from a cache of the PagedModel's own kind."""
    table = mp.BlockTable(mp.BlockPool(-(-len(tokens) // 16), 16))
    table.append(len(tokens))
    batch = mp.RaggedBatch.build([mp.Chunk(tokens, table, len(tokens))])
    return paged.forward_over(batch, paged.new_cache(len(table.block_ids), 16))


def agreement(kind, tokens, start):
    """Of the tokens from `start` on: is the likeliest the same in 8 bits?"""
    own, ours = (logits_of(paged(which), tokens) for which in (None, kind))
    return (own.argmax(-1) == ours.argmax(-1))[start - 1 : -1]


@cache
def questions():
    """200 held-out questions of all skills, and what the model answers."""
    _, tokenizer = pocket()
    rng = Random(3)
    skills = [skill for skill in grammar.SKILLS if skill != "long"]
    asked = [
        grammar.held_out_question(rng, skills[n % len(skills)])
        for n in all_or(range(200), range(60))
    ]
    prompts = tokenizer([prompt_text(tokenizer, each) for each in asked]).input_ids
    answers = mp.generate(paged(), prompts, GenerationConfig(max_new_tokens=40))
    return [(p, p + out.sequences[0]) for p, out in zip(prompts, answers, strict=True)]


@pytest.mark.parametrize(("kind", "least"), [("fp8", 0.98), ("fp8_v", 0.995)])
def test_answers_agree_token_for_token(kind, least):
    same = [agreement(kind, text, len(prompt)) for prompt, text in questions()]
    assert torch.cat(same).float().mean() >= least


@pytest.mark.parametrize("kind", KINDS)
def test_perplexity_of_held_out_text(kind):
    rng = Random(4)
    _, tokenizer = pocket()
    losses = torch.zeros(2)
    for _ in range(20):
        pieces = grammar.long_chat(rng)
        text = tokenizer("".join(piece for piece, _ in pieces)).input_ids[:600]
        for number, which in enumerate((None, kind)):
            logits = logits_of(paged(which), text)[:-1]
            losses[number] += cross_entropy(logits, torch.tensor(text[1:]))
    own, ours = (losses / 20).exp()
    assert ours < 1.01 * own


@cache
def long_answer():
    """1,000 tokens that the model says, ends of turns included."""
    _, tokenizer = pocket()
    prompt = tokenizer("<|user|>Tell me a story.<|end|><|assistant|>").input_ids
    config = GenerationConfig(max_new_tokens=1000, eos_token_id=1023)
    (out,) = mp.generate(paged(), [prompt], config)
    return prompt, prompt + out.sequences[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_answer_does_not_decay(kind):
    prompt, text = long_answer()
    assert len(text) - len(prompt) == 1000
    same = agreement(kind, text, len(prompt)).float()
    assert same[:500].mean() > 0.96 and same[500:].mean() > 0.96


def likely(tokens, start):
    """How likely the model in 32 bits finds each token from `start` on, of 1."""
    chances = logits_of(paged(), tokens)[start - 1 : -1].softmax(-1)
    return chances.gather(1, torch.tensor(tokens[start:])[:, None])[:, 0]


@pytest.mark.parametrize("too_small", [1, 16])
def test_a_text_decays_if_the_scales_of_k_are_too_small(too_small):
    """Four texts begin with the same words; their last tokens beside their first."""
    prompt, text = long_answer()
    begun = text[: len(prompt) + 11]
    scales = [LayerScales(k / too_small, v) for k, v in paged("fp8").kv_scales.both]
    ours = mp.PagedModel(pocket()[0], 4 * 40)
    ours.cache = ours.new_cache(4 * 40, 16, scales)
    config = GenerationConfig(max_new_tokens=600, do_sample=True, eos_token_id=0)
    texts = mp.generate(ours, [begun] * 4, config, seed=[1, 2, 3, 4])
    found = [likely(begun + out.sequences[0], len(begun)) for out in texts]
    first, *_, last = torch.stack(found).chunk(4, dim=1)
    assert (last.mean() < first.mean() - 0.1) == (too_small > 1)


@pytest.mark.parametrize("kind", KINDS)
def test_repr_says_what_it_costs(kind):
    scales = paged(kind).kv_scales
    assert f"{kind}: {scales.agreement:.1%} of 512 tokens as in 32 bits" in repr(
        paged(kind)
    )
    assert 0.95 < scales.agreement < 1 and 0 < scales.error < 0.05
    assert "fp8" not in repr(paged())


def test_v_alone_costs_less():
    assert paged("fp8_v").kv_scales.agreement > paged("fp8").kv_scales.agreement
    assert paged("fp8_v").kv_scales.error < paged("fp8").kv_scales.error


def test_a_model_that_it_would_ruin_is_refused_with_the_figure():
    model = tiny_model("llama")  # random weights: a small error changes much
    with pytest.raises(mp.UnsupportedModel, match=r'8\d\.\d% of .* try .*"fp8_v"'):
        mp.PagedModel(model, 8, kv_dtype="fp8")
    with pytest.raises(mp.UnsupportedModel, match=r"% of .* or do without"):
        mp.PagedModel(model, 8, kv_dtype="fp8_v")
    taken = mp.PagedModel(model, 8, kv_dtype=mp.EightBits("fp8", insist=True))
    assert taken.kv_scales.agreement < 0.95


def test_numbers_of_k_that_are_far_larger_than_the_rest_need_its_own_type():
    """In 32 bits it is the same model. The scale of K loses all but these numbers."""
    model = deepcopy(pocket()[0])
    with torch.no_grad():
        for layer in model.model.layers:
            for number in 0, 16:  # RoPE turns these two together
                layer.self_attn.k_norm.weight[number] *= 2**16
                layer.self_attn.q_norm.weight[number] /= 2**16
    text = long_answer()[1]
    own, other = (logits_of(p, text) for p in (paged(), mp.PagedModel(model, 8)))
    assert torch.equal(own, other)
    with pytest.raises(mp.UnsupportedModel, match=r'try .*"fp8_v"'):
        mp.PagedModel(model, 8, kv_dtype="fp8")
    alone = mp.PagedModel(model, 8, kv_dtype="fp8_v").kv_scales
    assert alone.agreement == paged("fp8_v").kv_scales.agreement


# What a wrong use of right scales makes of a layer's cache.
WRONG = {
    "scales of K forgotten": lambda layer: replace(
        layer, key_scale=torch.ones_like(layer.key_scale)
    ),
    "scales of V forgotten": lambda layer: replace(
        layer, value_scale=torch.ones_like(layer.value_scale)
    ),
    "K's for V": lambda layer: replace(
        layer, value_scale=layer.key_scale, key_scale=layer.value_scale
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_scales_used_wrongly_are_found_by_the_cost(name):
    def wrong(q, cache, batch, masking):
        if cache.key_scale is not None:
            cache = WRONG[name](cache)
        return attend_in_rectangles(q, cache, batch, masking)

    attention = Backend(wrong, in_eight_bits=EightBitKVCache)
    with pytest.raises(mp.UnsupportedModel, match="at least 95%"):
        mp.PagedModel(pocket()[0], 8, attention=attention, kv_dtype="fp8")


def test_attention_that_heeds_no_scales_is_refused():
    def plain(q, cache, batch, masking):
        return attend_in_rectangles(q, cache, batch, masking)

    with pytest.raises(ValueError, match="which that attention does not heed"):
        mp.PagedModel(pocket()[0], 8, attention=plain, kv_dtype="fp8")
    with pytest.raises(ValueError, match="without deterministic=True"):
        mp.PagedModel(pocket()[0], 8, deterministic=True, kv_dtype="fp8")
    model = paged("fp8")
    with pytest.raises(ValueError, match="does not heed"):
        model.attention = plain
    with pytest.raises(ValueError, match="wrap the model once more"):
        model.attention = "triton"
    model.attention = "streamed"
    model.attention = "gathered"


@pytest.fixture
def folder(tmp_path):
    model, tokenizer = pocket()
    model.save_pretrained(tmp_path), tokenizer.save_pretrained(tmp_path)
    return tmp_path


def wrapped(folder, kind="fp8"):
    model, _ = mp.load(folder, device="cpu")
    return mp.PagedModel(model, 8, kv_dtype=kind)


def test_scales_are_saved_beside_the_model_and_found_again(folder):
    model, tokenizer = pocket()
    text = tokenizer(["<|user|>What is 12+30?<|end|><|assistant|>42<|end|>"] * 2)
    stored = mp.EightBits("fp8", text=text.input_ids)
    first = mp.PagedModel(model, 8, kv_dtype=stored).kv_scales
    assert first.save(folder) == folder / FILE
    for kind in KINDS:  # K's scales are saved in any case
        found = wrapped(folder, kind).kv_scales
        assert found.text == first.text and found.kind == kind
        for ours, theirs in zip(found.both, first.both, strict=True):
            assert all(map(torch.equal, ours, theirs))


PLANTED = {
    "all 1": lambda tensors: {name: torch.ones_like(x) for name, x in tensors.items()},
    "16 times too small": lambda tensors: {name: x / 16 for name, x in tensors.items()},
    "of another layer": lambda tensors: {
        name: tensors[name.translate(str.maketrans("0123", "1230"))] for name in tensors
    },
    "heads exchanged": lambda tensors: {name: x.flip(0) for name, x in tensors.items()},
    "too few layers": lambda tensors: {
        name: x for name, x in tensors.items() if "layers.3" not in name
    },
}


@pytest.mark.parametrize("name", PLANTED)
def test_wrong_scales_in_a_folder_are_refused(folder, name):
    """In a model whose heads and layers differ much, as real ones do."""
    model, _ = mp.load(folder, device="cpu")
    with torch.no_grad():
        for number, layer in enumerate(model.model.layers):
            of_heads = 16.0 ** torch.tensor([number % 2, -number])
            layer.self_attn.v_proj.weight *= of_heads.repeat_interleave(32)[:, None]
            own = layer.self_attn.o_proj.weight  # so that the model says the same
            own /= of_heads.repeat_interleave(96)
    model.save_pretrained(folder)
    wrapped(folder).kv_scales.save(folder)
    wrapped(folder)
    tensors = load_file(folder / FILE)
    own = {key: tensors.pop(key) for key in ("text", "lengths")}
    save_file(
        own | {k: x.clone() for k, x in PLANTED[name](tensors).items()}, folder / FILE
    )
    with pytest.raises(mp.UnsupportedModel, match="has scales that are not this model"):
        wrapped(folder)


def test_a_text_of_several_pieces_gives_the_scales_of_all_of_it():
    text = long_answer()[1]
    stored = mp.EightBits("fp8", text=[text, text[:1]])
    model = mp.PagedModel(pocket()[0], 8, kv_dtype=stored)
    whole = paged().new_cache(80, 16)
    table = mp.BlockTable(mp.BlockPool(80, 16))
    table.append(len(text))
    paged().forward_over(mp.RaggedBatch.build([mp.Chunk(text, table)]), whole)
    slots = table.slots(0, len(text))
    for index, own in enumerate(model.kv_scales.both):
        for blocks, scale in zip((whole.keys, whole.values), own, strict=True):
            largest = blocks[index].flatten(0, 1)[slots].abs().amax((0, 2))
            assert ((largest / scale > 112) & (largest / scale <= 224)).all()


@pytest.mark.parametrize(
    ("kv_dtype", "words"),
    [("fp4", "must be .fp8., .fp8_v."), (torch.float8_e4m3fn, "got torch.float8")],
)
def test_nonsense_is_refused(kv_dtype, words):
    with pytest.raises(ValueError, match=words):
        mp.PagedModel(pocket()[0], 8, kv_dtype=kv_dtype)
    with pytest.raises(ValueError, match="text must have token ids"):
        mp.EightBits(text=[[]])


def test_the_cache_takes_the_bytes_that_it_says():
    own = paged().cache.bytes_per_block
    assert paged("fp8").cache.bytes_per_block == own / 4  # of 32 bits
    assert paged("fp8_v").cache.bytes_per_block == own * 5 / 8
    assert isinstance(paged("fp8").kv_scales.layers[0], LayerScales)
    assert math.isclose(paged("fp8").kv_scales.bits, 32)
