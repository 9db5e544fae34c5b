"""Beam search equals HuggingFace's: sequences and scores, whatever else is running."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.notebook_files import NOTEBOOKS, definition, load
from helpers.thorough import all_or
from helpers.tiny_models import ARCHITECTURES, UNLIKE, VOCABULARY, tiny_model
from helpers.watching import Watcher
from minipaged.decoding import beam
from minipaged.lab.tour import reference
from minipaged.lab.tour.proof import same_answer

NEVER, SOME, MANY = [VOCABULARY - 1], list(range(5, 13)), list(range(3, 60))


def config(num_beams=3, eos=SOME, **options):
    options = {"max_new_tokens": 14, "num_return_sequences": num_beams, **options}
    return GenerationConfig(
        num_beams=num_beams, eos_token_id=eos, pad_token_id=0, **options
    )


def draw_prompts(lengths=(1, 5, 16, 23), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()
        for n in lengths
    ]


def poisoned(name, num_blocks=300, block_size=4, **options):
    paged = mp.PagedModel(tiny_model(name), num_blocks, block_size, **options)
    order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(0))
    paged.pool._free = order.tolist()
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(torch.nan)
    return paged


def prove(paged, prompts, configs, **options):
    theirs = huggingface_outputs(paged.model, prompts, configs)
    ours = mp.generate(paged, prompts, configs, **options)
    assert all(map(same_answer, theirs, ours))
    assert paged.pool.num_free == paged.pool.num_blocks
    return ours


@pytest.mark.parametrize("attention", ["gathered", "streamed"])
@pytest.mark.parametrize("name", all_or(ARCHITECTURES, UNLIKE))
def test_every_architecture(name, attention):
    prove(poisoned(name, attention=attention), draw_prompts(), config(4))


@pytest.mark.parametrize("num_beams", all_or([2, 3, 4, 8], [4]))
@pytest.mark.parametrize("eos", [NEVER, SOME, MANY], ids=["never", "some", "many"])
def test_the_grid(num_beams, eos):
    """Nine ways to stop and to score, of two prompts each, in one batch."""
    ways = product([0.0, 1.0, -0.7], [True, False, "never"])
    configs = [
        config(num_beams, eos, length_penalty=penalty, early_stopping=early)
        for penalty, early in ways
        for _ in range(2)
    ]
    prove(poisoned("qwen3", 1500), draw_prompts((1, 9)) * 9, configs)


@pytest.mark.parametrize("block_size", [1, 8, 16])
@pytest.mark.parametrize("name", ["mistral", "gpt2"])
def test_block_sizes(name, block_size):
    prove(poisoned(name, 400, block_size), draw_prompts(), config(4))


@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.7},
        {"min_new_tokens": 6},
        {"no_repeat_ngram_size": 2},
        {"bad_words_ids": [[9], [11, 12]]},
        {"suppress_tokens": list(range(20, 90))},
        {"forced_eos_token_id": 5},
        {"exponential_decay_length_penalty": (3, 1.4)},
        {"num_return_sequences": 1},
        {"max_new_tokens": 1},
        {"renormalize_logits": True, "temperature": 0.7},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options(options):
    prove(poisoned("qwen3"), draw_prompts(), config(3, **options))


def test_beams_beside_samples_and_greedy_in_one_batch():
    paged, prompts = poisoned("qwen3"), draw_prompts((3, 7, 12, 16, 20))
    greedy = GenerationConfig(max_new_tokens=11, eos_token_id=NEVER)
    sampled = GenerationConfig(
        max_new_tokens=9, do_sample=True, eos_token_id=NEVER, num_return_sequences=2
    )
    configs = [config(4), greedy, sampled, config(2), config(3, NEVER)]
    theirs = huggingface_outputs(paged.model, prompts, configs, seed=5)
    ours = mp.generate(paged, prompts, configs, seed=5)
    assert all(map(same_answer, theirs, ours))
    assert paged.pool.num_free == paged.pool.num_blocks


@pytest.mark.parametrize("num_blocks", [32, 40, 300])
def test_with_a_prefix_cache_and_little_memory(num_blocks):
    paged = poisoned("qwen3", num_blocks)
    prefix = mp.PrefixCache(paged.pool)
    stem = draw_prompts((13,))[0]
    prompts = [[*stem, *tail] for tail in draw_prompts((1, 4, 9))] + [stem, stem]
    for _ in range(3):
        prove(paged, prompts, config(4), prefix_cache=prefix)
    assert prefix.tokens_hit > 0


def test_beams_share_their_prompt():
    """4 beams, a prompt of 64, 10 new tokens, blocks of 16: 4 + 4 blocks, not 20."""
    paged = poisoned("qwen3", 100, 16)
    seen = Watcher(paged)
    prove(paged, draw_prompts((64,)), config(4, NEVER, max_new_tokens=10))
    assert max(seen.held) == 4 + 4


def test_a_request_that_fits_only_because_beams_share_is_served():
    paged = poisoned("qwen3", num_blocks=8, block_size=16)
    prove(paged, draw_prompts((64,)), config(4, NEVER, max_new_tokens=10))
    paged = poisoned("qwen3", num_blocks=7, block_size=16)
    (out,) = mp.generate(
        paged, draw_prompts((64,)), config(4, NEVER, max_new_tokens=10)
    )
    assert out.finish_reason == "error" and "4 sequences of" in out.error


def test_enough_candidates_that_some_can_go_on():
    """Each beam's best two tokens both end the text; the third ones go on."""
    others = {(token,): -20.0 for token in range(VOCABULARY) if token not in (5, 6)}
    ends = {"eos_token_id": [5, 6], "sequence_bias": others}
    asked = GenerationConfig(
        max_new_tokens=6,
        num_beams=2,
        num_return_sequences=2,
        length_penalty=20.0,
        early_stopping="never",
        pad_token_id=0,
        **ends,
    )
    prove(poisoned("qwen3"), draw_prompts(), asked)


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("eos", [SOME, MANY], ids=["some", "many"])
def test_as_many_forwards_as_huggingface(early_stopping, eos):
    """A search that cannot get better ends, although its answers are known anyway."""
    paged, theirs = poisoned("qwen3"), []
    asked = config(3, eos, early_stopping=early_stopping, max_new_tokens=30)
    hook = paged.model.register_forward_hook(lambda *_: theirs.append(1))
    reference.huggingface_outputs(paged.model, draw_prompts(), asked)
    hook.remove()
    ours = Watcher(paged)
    for prompt in draw_prompts():
        mp.generate(paged, [prompt], asked)
    assert len(ours.batches) == len(theirs) > 0


def test_finish_reasons():
    paged = poisoned("qwen3")
    (out,) = mp.generate(paged, [[5, 6, 7]], config(3, NEVER))
    assert out.finish_reason == "length"
    (out,) = mp.generate(paged, [[5, 6, 7]], config(3, MANY))
    assert out.finish_reason == "stop"


def test_an_exception_gives_all_blocks_back(monkeypatch):
    paged = poisoned("qwen3")
    calls, forward = [], paged.forward

    def fails(batch):
        calls.append(batch)
        if len(calls) == 5:
            raise RuntimeError("power cut")
        return forward(batch)

    monkeypatch.setattr(paged, "forward", fails)
    with pytest.raises(RuntimeError, match="power cut"):
        mp.generate(paged, draw_prompts(), config(4, NEVER))
    assert paged.pool.num_free == paged.pool.num_blocks


@pytest.mark.parametrize("method", ["fork", "append", "end", "free"])
@pytest.mark.parametrize("when", range(1, 8))
def test_interrupted_while_breeding_no_block_is_lost(monkeypatch, method, when):
    real, calls = getattr(mp.Sequence, method), []

    def interrupted(self, *arguments):
        calls.append(self)
        if len(calls) == when:
            raise KeyboardInterrupt
        return real(self, *arguments)

    paged = poisoned("qwen3")
    monkeypatch.setattr(mp.Sequence, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        mp.generate(paged, [[5] * 9], config(4, NEVER))
    assert paged.pool.num_free == paged.pool.num_blocks


def test_beams_that_the_models_own_config_asks_for(monkeypatch):
    """Nothing is set in the config of the call."""
    paged = poisoned("qwen3")
    monkeypatch.setattr(paged.model, "generation_config", config(3))
    (out,) = prove(paged, [[5, 6, 7]], None)
    assert len(out.sequences) == len(out.scores) == 3


def test_sampled_beams_are_refused():
    with pytest.raises(mp.UnsupportedOption, match="num_beams=3 with do_sample"):
        mp.generate(poisoned("qwen3"), [[5]], config(3, do_sample=True))


# --- wrong versions, which the proof must reject --------------------------------------


def breed_without_forking(request, parents, children):
    """Wrong: children of one parent share a table object, and so its last block."""
    sequences = []
    for parent, token in children:
        child = mp.Sequence(parents[parent].tokens, parents[parent].table)
        child.num_prompt_tokens = parents[parent].num_prompt_tokens
        child.append(token)
        sequences.append(child)
    return sequences


def ignores_the_length(search, *rest):
    """Wrong: compares summed scores of answers of different lengths."""
    options = search.options
    search.options = replace(options, length_penalty=0.0)
    KEEP_THE_BEST(search, *rest)
    search.options = options


def of_lesson_4(name):
    """A deliberately wrong version, as the notebook defines it."""
    (notebook,) = (path for path in NOTEBOOKS if path.name.startswith("04_"))
    return definition(load(notebook), name, {"mp": mp, "replace": replace})


KEEP_THE_BEST = beam.Beams._keep_the_best


def never_gives_up(search):
    """Wrong: goes on although no running beam can win any more."""
    return True


@pytest.mark.parametrize(
    ("where", "name", "wrong"),
    [
        (beam, "breed", breed_without_forking),
        (beam.Beams, "_can_improve", never_gives_up),
        (beam.Beams, "_keep_the_best", ignores_the_length),
        (mp.BlockTable, "must_copy", of_lesson_4("never_copies")),
    ],
    ids=["no fork", "no end", "no length penalty", "no copy-on-write"],
)
def test_the_proof_rejects(monkeypatch, where, name, wrong):
    monkeypatch.setattr(where, name, wrong)
    paged, prompts = poisoned("qwen3"), draw_prompts((1, 5, 9, 16, 23, 31))
    asked = [config(3), config(4, MANY, early_stopping=False), config(2)] * 2
    theirs = huggingface_outputs(paged.model, prompts, asked)
    try:
        ours = mp.generate(paged, prompts, asked)
    except Exception:  # to break is a way to be noticed
        return
    assert not all(map(same_answer, theirs, ours))


def test_the_proof_rejects_a_model_that_forgets_the_copies():
    paged, prompts = poisoned("qwen3"), draw_prompts()
    theirs = huggingface_outputs(paged.model, prompts, config(4))
    paged.__class__ = of_lesson_4("ForgetsCopies")
    ours = mp.generate(paged, prompts, config(4))
    assert not all(map(same_answer, theirs, ours))
