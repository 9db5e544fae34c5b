"""Token for token what HuggingFace generates: the proof that everything rests on."""

import pytest
import torch
from transformers import GenerationConfig

from helpers.answers import huggingface_generate
from helpers.thorough import all_or
from helpers.tiny_models import ARCHITECTURES, UNLIKE, VOCABULARY, tiny_model
from helpers.watching import Watcher
from minipaged.attention.gathered import attend_gathered
from minipaged.engine.generate import generate
from minipaged.model.paged_model import PagedModel

NEVER = VOCABULARY - 1  # an eos that is hardly ever drawn, so that sequences get long


def ragged_prompts(lengths=(1, 3, 4, 5, 16, 17, 31), seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()
        for n in lengths
    ]


def shuffled_and_poisoned(name, num_blocks=96, block_size=4, **options):
    """A model whose pool hands out blocks in random order, all slots holding NaN."""
    paged = PagedModel(tiny_model(name), num_blocks, block_size, **options)
    order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(0))
    paged.pool._free = order.tolist()
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(float("nan"))
    return paged


def prove(paged, prompts, config, seed=None, **options):
    """Both columns, under one config; and the pool is whole again afterwards."""
    theirs = huggingface_generate(paged.model, prompts, config, seed=seed)
    ours = generate(paged, prompts, config, seed=seed, **options)
    assert [out.sequences for out in ours] == theirs
    assert paged.pool.num_free == paged.pool.num_blocks
    return ours


# One config for all that is greedy: HuggingFace's answers are computed once.
GREEDY = GenerationConfig(max_new_tokens=12, eos_token_id=NEVER)

each_attention = pytest.mark.parametrize("attention", ["gathered", "streamed"])


@pytest.mark.parametrize("attention", ["gathered", attend_gathered, "streamed"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_greedy(name, attention):
    prove(shuffled_and_poisoned(name, attention=attention), ragged_prompts(), GREEDY)


@each_attention
@pytest.mark.parametrize("name", all_or(ARCHITECTURES, UNLIKE))
def test_sampling_with_a_seed(name, attention):
    config = GenerationConfig(
        max_new_tokens=16, do_sample=True, top_k=0, eos_token_id=[NEVER, 5, 6, 7]
    )
    paged = shuffled_and_poisoned(name, block_size=5, attention=attention)
    out = prove(paged, ragged_prompts(), config, seed=list(range(7)))
    assert len({len(o.sequences[0]) for o in out}) > 1 or name == "opt"


@each_attention
@pytest.mark.parametrize("name", all_or(ARCHITECTURES, UNLIKE))
def test_chunked_prefill(name, attention):
    paged = shuffled_and_poisoned(name, attention=attention)
    prove(paged, ragged_prompts(), GREEDY, max_prompt_tokens=7)


@each_attention
@pytest.mark.parametrize("block_size", all_or([1, 2, 8, 16, 64], [1, 16]))
@pytest.mark.parametrize("name", ["qwen3", "mistral"])
def test_block_sizes(name, block_size, attention):
    paged = shuffled_and_poisoned(name, 6 * 64, block_size, attention=attention)
    prove(paged, ragged_prompts(), GREEDY)


@pytest.mark.parametrize("max_prompt_tokens", [1, 2, 16, 1000])
def test_chunk_sizes(max_prompt_tokens):
    paged = shuffled_and_poisoned("qwen3")
    prove(paged, ragged_prompts(), GREEDY, max_prompt_tokens=max_prompt_tokens)


def test_a_pool_that_holds_few_prompts_at_a_time_changes_nothing():
    paged = shuffled_and_poisoned("qwen3", num_blocks=13)
    prove(paged, ragged_prompts(), GREEDY)


OPTIONS = {
    "temperature": {"do_sample": True, "temperature": 0.7},
    "top_k": {"do_sample": True, "top_k": 3},
    "top_p": {"do_sample": True, "top_p": 0.6},
    "min_p": {"do_sample": True, "min_p": 0.2},
    "typical_p": {"do_sample": True, "typical_p": 0.5},
    "epsilon_and_eta": {"do_sample": True, "epsilon_cutoff": 0.02, "eta_cutoff": 0.02},
    "repetition_penalty": {"repetition_penalty": 1.7},
    "penalty_and_sampling": {"repetition_penalty": 1.3, "do_sample": True, "top_k": 9},
    "no_repeat_ngram": {"no_repeat_ngram_size": 2},
    "bad_words": {"bad_words_ids": [[7], [8, 9]], "do_sample": True},
    "suppress": {"suppress_tokens": list(range(40)), "do_sample": True},
    "begin_suppress": {"begin_suppress_tokens": list(range(64))},
    "sequence_bias": {"sequence_bias": [[[11], 6.0], [[12, 13], -4.0]]},
    "encoder_penalties": {
        "encoder_repetition_penalty": 1.4,
        "encoder_no_repeat_ngram_size": 3,
    },
    "forced_eos": {"forced_eos_token_id": 9},
    "exponential_decay": {
        "exponential_decay_length_penalty": (4, 1.3),
        "eos_token_id": 20,
        "do_sample": True,
    },
    "min_new_tokens": {"min_new_tokens": 9, "eos_token_id": list(range(64))},
    "min_length": {"min_length": 12, "eos_token_id": list(range(64))},
    "max_length": {"max_new_tokens": None, "max_length": 40},
    "renormalize": {"renormalize_logits": True, "do_sample": True, "top_k": 5},
    "several_eos": {"eos_token_id": list(range(3, 40))},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_generation_options(name):
    options = {"max_new_tokens": 16, "eos_token_id": NEVER, **OPTIONS[name]}
    config = GenerationConfig(**options)
    prove(shuffled_and_poisoned("qwen3"), ragged_prompts(), config, seed=3)


def test_a_config_for_each_prompt():
    prompts = ragged_prompts()
    configs = [
        GenerationConfig(eos_token_id=NEVER, **options)
        for options in (
            {"max_new_tokens": 1},
            {"max_new_tokens": 9, "do_sample": True},
            {"max_new_tokens": 30},
            {"max_new_tokens": 9, "do_sample": True},
            {"max_new_tokens": 12, "repetition_penalty": 1.5},
            {"max_new_tokens": 7, "do_sample": True, "temperature": 2.0},
            {"max_new_tokens": 5, "do_sample": True, "num_return_sequences": 3},
        )
    ]
    out = prove(shuffled_and_poisoned("qwen3"), prompts, configs, seed=list(range(7)))
    assert [len(o.sequences) for o in out] == [1] * 6 + [3]


@pytest.mark.parametrize("name", ["qwen3", "gemma2", "gpt2"])
def test_several_samples_of_each_prompt(name):
    config = GenerationConfig(
        max_new_tokens=14,
        do_sample=True,
        num_return_sequences=4,
        eos_token_id=list(range(3, 20)),  # samples end at different times
    )
    out = prove(shuffled_and_poisoned(name), ragged_prompts(), config, seed=11)
    assert len({len(row) for o in out for row in o.sequences}) > 3


@pytest.mark.parametrize(
    "options",
    [{"repetition_penalty": 1.6}, {"no_repeat_ngram_size": 2}, {"min_new_tokens": 6}],
    ids=lambda options: next(iter(options)),
)
def test_several_samples_whose_processors_look_back(options):
    config = GenerationConfig(
        max_new_tokens=14,
        do_sample=True,
        num_return_sequences=3,
        eos_token_id=list(range(3, 20)),
        **options,
    )
    prove(shuffled_and_poisoned("qwen3"), ragged_prompts(), config, seed=11)


# So long that torch prints only their ends, which are the same. Ids beyond the
# vocabulary suppress nothing.
LONG_LISTS = [[0, 1, 2, *range(n, n + 40), *range(1000, 2000)] for n in (20, 60)]


@pytest.mark.parametrize(
    "pair",
    [
        [
            {"do_sample": True, "temperature": 0.5},
            {"do_sample": True, "temperature": 3.0},
        ],
        [{"do_sample": True, "top_k": 0}, {"do_sample": False}],
        [{"suppress_tokens": [*range(40)]}, {"suppress_tokens": [*range(40, 80)]}],
        [{"suppress_tokens": LONG_LISTS[0]}, {"suppress_tokens": LONG_LISTS[1]}],
        [{"do_sample": True, "top_p": 0.3}, {"do_sample": True, "min_p": 0.3}],
    ],
    ids=["temperatures", "greedy beside sampling", "suppressed", "long", "kinds"],
)
def test_requests_with_different_options_are_not_mixed_up(pair):
    prompts = ragged_prompts()
    configs = [
        GenerationConfig(max_new_tokens=12, eos_token_id=NEVER, **pair[i % 2])
        for i in range(len(prompts))
    ]
    prove(shuffled_and_poisoned("qwen3"), prompts, configs, seed=4)


@pytest.mark.parametrize("seed", [-1, 0, 2**63])
def test_extreme_seeds(seed):
    config = GenerationConfig(max_new_tokens=8, do_sample=True, eos_token_id=NEVER)
    prove(shuffled_and_poisoned("qwen3"), ragged_prompts(), config, seed=seed)


def test_samples_of_one_prompt_share_its_blocks():
    paged = shuffled_and_poisoned("qwen3", num_blocks=40, block_size=4)
    seen = Watcher(paged)
    config = GenerationConfig(
        max_new_tokens=5, do_sample=True, num_return_sequences=4, eos_token_id=NEVER
    )
    prove(paged, ragged_prompts([18]), config, seed=0)
    # 4 full blocks shared; each sample has its own copy of the tail and one more block.
    assert max(seen.held) == 4 + 4 * 2


def test_seeded_prompts_do_not_depend_on_their_company():
    prompts = ragged_prompts()
    config = GenerationConfig(max_new_tokens=12, do_sample=True, eos_token_id=NEVER)
    paged = shuffled_and_poisoned("qwen3")
    alone = [generate(paged, [p], config, seed=i)[0] for i, p in enumerate(prompts)]
    together = generate(paged, prompts, config, seed=list(range(len(prompts))))
    assert [o.sequences for o in together] == [o.sequences for o in alone]


def test_without_a_seed_the_global_generator_decides():
    config = GenerationConfig(max_new_tokens=12, do_sample=True, eos_token_id=NEVER)
    paged = shuffled_and_poisoned("qwen3")

    def draw(seed):
        torch.manual_seed(seed)
        return [o.sequences for o in generate(paged, ragged_prompts(), config)]

    assert draw(0) == draw(0)
    assert draw(0) != draw(1)


@pytest.mark.parametrize("options", [{}, {"repetition_penalty": 1.3}])
def test_unseeded_draws_depend_on_nothing_but_the_global_generator(options):
    config = GenerationConfig(
        max_new_tokens=12, do_sample=True, eos_token_id=NEVER, **options
    )
    paged = shuffled_and_poisoned("qwen3")
    keep, results = [], set()
    for _ in range(6):
        torch.manual_seed(0)
        out = generate(paged, ragged_prompts(), config)
        results.add(str([o.sequences for o in out]))
        keep.append(bytearray(10_000))  # move what is allocated next
    assert len(results) == 1


def test_a_max_length_of_the_models_own_config_holds():
    model = tiny_model("qwen3")
    own = model.generation_config
    try:
        model.generation_config = GenerationConfig(max_length=40, eos_token_id=NEVER)
        out = prove(
            PagedModel(model, num_blocks=96, block_size=4), ragged_prompts(), None
        )
        totals = [
            len(p) + len(o.sequences[0])
            for p, o in zip(ragged_prompts(), out, strict=True)
        ]
        assert max(totals) == 40 and totals.count(40) >= 4
    finally:
        model.generation_config = own


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
def test_the_models_own_generation_config_fills_what_is_unset():
    model = tiny_model("qwen3")
    own = model.generation_config
    try:
        model.generation_config = GenerationConfig(
            do_sample=True, temperature=0.5, top_k=7, eos_token_id=[4, 5, 6, 7]
        )
        paged = PagedModel(model, num_blocks=96, block_size=4)
        out = prove(paged, ragged_prompts(), None, seed=5)
        assert max(len(o.sequences[0]) for o in out) == 20
        prove(paged, ragged_prompts(), GenerationConfig(temperature=1.5), seed=5)
    finally:
        model.generation_config = own


def test_a_pad_token_inside_a_prompt_is_a_token():
    config = GenerationConfig(max_new_tokens=8, eos_token_id=NEVER, pad_token_id=0)
    prove(shuffled_and_poisoned("qwen3"), [[5, 0, 0, 6], [0, 7]], config)


def test_finish_reasons():
    config = GenerationConfig(max_new_tokens=12, eos_token_id=list(range(3, 40)))
    out = prove(shuffled_and_poisoned("qwen3"), ragged_prompts(), config)
    for o in out:
        ended = o.sequences[0][-1] in range(3, 40)
        assert o.finish_reason == ("stop" if ended else "length")
    assert {o.finish_reason for o in out} == {"stop", "length"}


def test_the_finish_reason_of_samples_is_stop_only_if_all_stopped():
    config = GenerationConfig(
        max_new_tokens=4,
        do_sample=True,
        num_return_sequences=4,
        eos_token_id=list(range(3, 30)),
    )
    out = prove(shuffled_and_poisoned("qwen3"), ragged_prompts(), config, seed=1)
    ended = [[row[-1] in range(3, 30) for row in o.sequences] for o in out]
    assert [o.finish_reason == "stop" for o in out] == [all(rows) for rows in ended]
    assert any(any(rows) and not all(rows) for rows in ended)


def test_no_prompts_no_outputs():
    assert generate(shuffled_and_poisoned("qwen3"), []) == []
