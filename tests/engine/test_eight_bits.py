"""K and V in 8 bits under all that an engine does with blocks.

The oracle is HuggingFace's `generate` with a cache that rounds as ours does. So it sees
what a move of blocks spoils, and what a scale of another layer or head would change.
"""

from functools import cache

import pytest

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.rounded import with_rounded_cache
from helpers.serving import CONFIGS, PROMPTS, add_all, check, check_idle, config
from helpers.thorough import all_or
from helpers.tiny_models import UNLIKE, tiny_model

KINDS = pytest.mark.parametrize("kind", all_or(["fp8", "fp8_v"], ["fp8"]))
ATTENTIONS = pytest.mark.parametrize("attention", ["gathered", "streamed"])
TEXT = PROMPTS
LATENT = "deepseek_v3"  # HuggingFace's cache has neither its K nor its V


def paged_of(kind, num_blocks=96, attention="gathered", name="qwen3", text=TEXT):
    stored = mp.EightBits(kind, text=text, insist=True)  # its weights are random
    model = tiny_model(name)
    paged = mp.PagedModel(model, num_blocks, 4, attention, kv_dtype=stored)
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(255)  # in e4m3 and in float32, no number
    return paged


def make(kind, cache=False, num_blocks=96, attention="gathered", **options):
    paged = paged_of(kind, num_blocks, attention)
    prefix = mp.PrefixCache(paged.pool) if cache else None
    return mp.Engine(paged, prefix, **{"max_tokens": 32, "max_sequences": 16} | options)


@cache
def rounding(kind, name="qwen3"):
    return with_rounded_cache(
        tiny_model(name), paged_of(kind, name=name).kv_scales.layers
    )


@cache
def expected(kind):
    seeds = list(range(len(PROMPTS)))
    return huggingface_outputs(rounding(kind), PROMPTS, CONFIGS, seed=seeds)


@KINDS
def test_the_oracle_is_another_than_the_model_s_own(kind):
    """Else nothing here would see that nothing is rounded."""
    own = huggingface_outputs(tiny_model("qwen3"), PROMPTS, config(30))
    ours = huggingface_outputs(rounding(kind), PROMPTS, config(30))
    assert [o.sequences for o in own] != [o.sequences for o in ours]


@KINDS
@ATTENTIONS
@pytest.mark.parametrize("shared", [False, True], ids=["", "prefix cache"])
def test_requests_of_all_kinds(kind, attention, shared):
    """Beams copy on write; the last prompt begins as another does."""
    engine = make(kind, shared, attention=attention)
    add_all(engine)
    check(engine.run(), expected(kind))
    check_idle(engine)


@KINDS
@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_preempted(kind, preemption):
    engine = make(kind, num_blocks=24, preemption=preemption)
    add_all(engine)
    check(engine.run(), expected(kind))
    assert engine.stats.num_preemptions
    check_idle(engine)


@KINDS
@pytest.mark.parametrize("guess", ["lookup", "tree", "small model"])
def test_speculation(kind, guess):
    """A draft model has a cache of its own, in 8 bits or not, over the same blocks."""
    greedy = config(20)
    if guess == "small model":
        speculation = mp.DraftModel(paged_of("fp8"), 3)
    else:
        speculation = mp.PromptLookup(tree=2 if guess == "tree" else 1)
    engine = make(kind, speculation=speculation, max_tokens=96, max_sequences=2)
    prompts = [prompt * 2 for prompt in PROMPTS[:4]]
    for prompt in prompts:
        engine.add(prompt, greedy)
    check(engine.run(), huggingface_outputs(rounding(kind), prompts, greedy))


@pytest.mark.parametrize("name", [name for name in UNLIKE if name != LATENT])
@pytest.mark.parametrize("attention", ["gathered", "streamed"])
def test_families(name, attention):
    """Windows, soft caps, sinks, layers of unequal shape."""
    greedy = config(12)
    paged = paged_of("fp8", attention=attention, name=name)
    prompts = PROMPTS[:4]
    ours = mp.generate(paged, prompts, greedy)
    check(ours, huggingface_outputs(rounding("fp8", name), prompts, greedy))


def test_the_kernels_too():
    """Interpreted: a single text decides the scales, and the answers are short."""
    prompts = [PROMPTS[1][:9], PROMPTS[-1][:9]]  # which share two blocks
    paged = paged_of("fp8", attention="triton", text=prompts[:1])
    assert "prompts by prefill.paged_prefill" in repr(paged)
    model = with_rounded_cache(tiny_model("qwen3"), paged.kv_scales.layers)
    prefix = mp.PrefixCache(paged.pool)
    ours = mp.generate(paged, prompts, config(4), prefix_cache=prefix)
    check(ours, huggingface_outputs(model, prompts, config(4)))
