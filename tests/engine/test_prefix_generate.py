"""Generation with a prefix cache: the same tokens, fewer of them computed."""

import pytest
import torch
from transformers import GenerationConfig
from xxhash import xxh64_intdigest

import minipaged as mp
from helpers.answers import huggingface_generate
from helpers.thorough import all_or
from helpers.tiny_models import ARCHITECTURES, UNLIKE, VOCABULARY, tiny_model
from helpers.watching import Watcher

NEVER = VOCABULARY - 1
GREEDY = GenerationConfig(max_new_tokens=12, eos_token_id=NEVER)


def prompts_with_common_starts(seed=0):
    """Two stems, whole and cut, with tails of their own; one prompt twice."""
    generator = torch.Generator().manual_seed(seed)

    def draw(n):
        return torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()

    one, two = draw(13), draw(8)
    stems = [one, one[:9], one[:8], two, two, one]
    return [*(stem + draw(n) for n, stem in enumerate(stems)), one, two]


def with_cache(name, num_blocks=96, block_size=4, attention="gathered", **options):
    paged = mp.PagedModel(tiny_model(name), num_blocks, block_size, attention)
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(torch.nan)
    return paged, mp.PrefixCache(paged.pool, **options)


def prove(paged, prompts, config, prefix, seed=None, **options):
    theirs = huggingface_generate(paged.model, prompts, config, seed=seed)
    ours = mp.generate(
        paged, prompts, config, seed=seed, prefix_cache=prefix, **options
    )
    assert [out.sequences for out in ours] == theirs
    assert paged.pool.num_free == paged.pool.num_blocks
    return [out.num_cached_tokens for out in ours]


@pytest.mark.parametrize("attention", ["gathered", "streamed"])
@pytest.mark.parametrize("name", all_or(ARCHITECTURES, UNLIKE))
def test_twice_the_same_prompts(name, attention):
    paged, prefix = with_cache(name, attention=attention)
    prompts = prompts_with_common_starts()
    prove(paged, prompts, GREEDY, prefix)
    again = prove(paged, prompts, GREEDY, prefix)
    assert again == [(len(prompt) - 1) // 4 * 4 for prompt in prompts]


@pytest.mark.parametrize("name", ["qwen3", "mistral", "gpt2"])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_sampling_and_block_sizes(name, block_size):
    config = GenerationConfig(
        max_new_tokens=12, do_sample=True, top_k=0, eos_token_id=NEVER
    )
    config.num_return_sequences = 3
    paged, prefix = with_cache(name, 400, block_size)
    for seed in (1, 2):
        prove(paged, prompts_with_common_starts(), config, prefix, seed)


@pytest.mark.parametrize("bits", [64, 1, 0])
@pytest.mark.parametrize("num_blocks", all_or([8, 9, 13], [8]))
def test_a_pool_so_small_that_it_evicts_all_the_time(num_blocks, bits):
    paged, prefix = with_cache(
        "qwen3",
        num_blocks,
        hash_function=lambda data: xxh64_intdigest(data) % 2**bits,
    )
    evicted, forget = [], prefix.forget
    prefix.forget = lambda block: evicted.append(block) or forget(block)
    for seed in range(4):
        prove(paged, prompts_with_common_starts(seed % 3), GREEDY, prefix)
    assert len(evicted) > 20


def test_equal_prompts_in_one_call_are_computed_once():
    """The second waits a step for the first, and finds all but its last block."""
    paged, prefix = with_cache("qwen3")
    prompt = prompts_with_common_starts()[5]
    cached = prove(paged, [prompt] * 4, GREEDY, prefix)
    assert cached == [0, *[(len(prompt) - 1) // 4 * 4] * 3]


def test_nobody_waits_for_a_block_that_he_cannot_use():
    """Prompts of less than a block and a token have nothing to wait for."""
    paged, prefix = with_cache("qwen3")
    seen = Watcher(paged)
    mp.generate(paged, [[5, 6, 7, 8]] * 3, GREEDY, prefix_cache=prefix)
    assert seen.num_tokens[0] == 12


def test_only_what_is_not_cached_is_computed():
    paged, prefix = with_cache("qwen3")
    prompt = list(range(3, 33))
    mp.generate(paged, [prompt], GREEDY, prefix_cache=prefix)
    seen = Watcher(paged)
    prove(paged, [[*prompt[:20], 50, 51]], GREEDY, prefix)
    assert seen.batches[0].tokens.tolist() == [50, 51]
    assert seen.batches[0].positions.tolist() == [20, 21]


def test_chunked_prompts_wait_for_the_block_they_need():
    paged, prefix = with_cache("qwen3")
    prompt = list(range(3, 33))
    cached = prove(paged, [prompt, prompt], GREEDY, prefix, max_prompt_tokens=6)
    assert cached[0] == 0 and cached[1] > 0


def test_a_second_turn_finds_the_first_and_its_answer():
    paged, prefix = with_cache("qwen3")
    first = list(range(3, 20))
    (out,) = mp.generate(paged, [first], GREEDY, prefix_cache=prefix)
    history = first + out.sequences[0]
    # All but the last token of the answer have K and V: 28 of 29, seven blocks.
    assert prove(paged, [[*history, 40, 41]], GREEDY, prefix) == [28]


def test_salts_keep_users_apart():
    paged, prefix = with_cache("qwen3")
    prompt = list(range(3, 20))
    salts = [b"one", b"two", b"one"]
    cached = prove(paged, [prompt] * 3, GREEDY, prefix, cache_salt=salts)
    assert cached == [0, 0, 16]
    assert prove(paged, [prompt], GREEDY, prefix) == [0]
    assert prove(paged, [prompt], GREEDY, prefix, cache_salt=b"two") == [16]


def test_an_exception_leaves_what_was_published_right():
    paged, prefix = with_cache("qwen3")
    prompts = prompts_with_common_starts()
    forward, left = paged.forward, [3]

    def fails(batch):
        left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("power cut")
        return forward(batch)

    paged.forward = fails
    with pytest.raises(RuntimeError, match="power cut"):
        mp.generate(paged, prompts, GREEDY, prefix_cache=prefix)
    paged.forward = forward
    assert paged.pool.num_free == paged.pool.num_blocks
    prove(paged, prompts, GREEDY, prefix)


def test_held_blocks_that_are_found_count_for_admission():
    """Three prompts of 25 tokens share six of their blocks: 6 + 3 x 3 fit into 15."""
    paged, prefix = with_cache("qwen3", num_blocks=15)
    stem = list(range(3, 27))
    few = GenerationConfig(max_new_tokens=9, eos_token_id=NEVER)
    mp.generate(paged, [[*stem, 1]], few, prefix_cache=prefix)
    seen = Watcher(paged)
    prove(paged, [[*stem, last] for last in (40, 41, 42)], few, prefix)
    assert max(len(batch.context_lengths) for batch in seen.batches) == 3


def test_the_cache_of_another_pool_is_refused():
    paged, _ = with_cache("qwen3")
    other = mp.PrefixCache(mp.BlockPool(8, 4))
    with pytest.raises(ValueError, match=r"paged\.pool"):
        mp.generate(paged, [[5, 6]], GREEDY, prefix_cache=other)


@pytest.mark.parametrize("steps", [0, 1, 3, 9])
def test_an_engine_whose_cache_is_replaced_goes_on_and_shares_nothing(steps):
    """A notebook makes cache and engine anew while the first engine is at work."""
    paged, prefix = with_cache("qwen3")
    prompts = prompts_with_common_starts()
    prove(paged, prompts[:3], GREEDY, prefix)
    engines = [mp.Engine(paged, prefix, max_tokens=16, max_sequences=4)]
    streams = [engines[0].add(prompt, GREEDY) for prompt in prompts]
    for _ in range(steps):
        engines[0].step()
    newer = mp.PrefixCache(paged.pool)
    engines.append(mp.Engine(paged, newer))
    streams += [engines[1].add(prompt, GREEDY) for prompt in prompts]
    while any([engine.step() for engine in engines]):
        pass
    theirs = huggingface_generate(paged.model, prompts * 2, GREEDY)
    assert [stream.output.sequences for stream in streams] == theirs
    assert len(newer) > 0 == len(prefix)
    assert paged.pool.num_free == paged.pool.num_blocks
    with pytest.raises(ValueError, match=r"use pool\.prefix_cache"):
        mp.generate(paged, prompts, GREEDY, prefix_cache=prefix)
    prove(paged, prompts, GREEDY, paged.pool.prefix_cache)


@pytest.mark.parametrize("salt", ["text", 7, [b"one"]])
def test_a_salt_that_is_none_is_refused(salt):
    paged, prefix = with_cache("qwen3")
    with pytest.raises((TypeError, ValueError), match="cache_salt"):
        mp.generate(paged, [[5], [6]], GREEDY, prefix_cache=prefix, cache_salt=salt)
