"""Requests that wait, share or keep to themselves: what is counted, held and read."""

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_generate
from helpers.free_blocks import free_blocks
from helpers.tiny_models import VOCABULARY, tiny_model
from helpers.watching import Watcher


def greedy(max_new_tokens):
    return GenerationConfig(max_new_tokens=max_new_tokens, eos_token_id=VOCABULARY - 1)


def with_cache(num_blocks):
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks, block_size=4)
    return paged, mp.PrefixCache(paged.pool)


@pytest.mark.parametrize(("num_blocks", "together"), [(4, 2), (3, 1)])
def test_who_might_run_out_of_blocks_later_is_not_admitted_now(num_blocks, together):
    """A block now and one later each: with 3 blocks, the second would get stuck."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks, block_size=4)
    batches, prompts = Watcher(paged).batches, [[5, 6, 7, 8], [9, 10, 11, 12]]
    out = mp.generate(paged, prompts, greedy(5))
    assert max(len(batch.context_lengths) for batch in batches) == together
    assert [len(one.sequences[0]) for one in out] == [5, 5]


def test_block_0_of_somebody_else_is_neither_read_nor_written():
    """No block is set aside, though the ends of short table rows are zeros."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=16, block_size=4)
    other = mp.BlockTable(paged.pool)
    other.append(4)
    assert other.block_ids == [0]
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.zero_()
        tensor[0] = torch.nan
    prompts = [[5, 6, 7], list(range(3, 20))]
    out = mp.generate(paged, prompts, greedy(6))
    theirs = huggingface_generate(paged.model, prompts, greedy(6))
    assert [one.sequences for one in out] == theirs
    for tensor in (*paged.cache.keys, *paged.cache.values):
        assert tensor[0].isnan().all() and not tensor[1:].isnan().any()


def test_a_prompt_that_is_found_but_does_not_fit_takes_nothing():
    """Six blocks are found, three are missing: it waits, and nobody notices."""
    paged, prefix = with_cache(num_blocks=10)
    pool, prompt, newer = paged.pool, list(range(3, 28)), list(range(50, 58))
    for one in (prompt, newer):
        mp.generate(paged, [one], greedy(1), prefix_cache=prefix)
    held = mp.BlockTable(pool)
    held.append(8)  # all that is not cached
    request = mp.Request(prompt, max_new_tokens=12)
    scheduler = mp.Scheduler(pool, prefix)
    scheduler.add(request)

    def state():
        counts = [pool.refcount(block) for block in range(10)]
        order = [list(each) for each in free_blocks(pool)]
        return counts, order, prefix.tokens_asked, prefix.tokens_hit

    before = state()
    with pytest.raises(mp.OutOfBlocks, match="wanted 9 blocks, 8 free of 10"):
        scheduler.schedule()  # nobody else runs, so nobody will ever free a block
    assert state() == before
    assert list(scheduler.waiting) == [request] and scheduler.running == []
    assert request.sequences[0].table is None and request.num_cached_tokens == 0
    held.free()
    (work,) = scheduler.schedule().works
    assert scheduler.running == [request] and request.num_cached_tokens == 24
    assert (work.start, work.stop) == (24, 25)


def test_without_the_argument_nothing_is_shared_and_nothing_published():
    """Also over a pool whose cache knows the prompt, and has to give up its blocks."""
    paged, prefix = with_cache(num_blocks=10)
    prompt = list(range(3, 16))
    mp.generate(paged, [prompt], greedy(1), prefix_cache=prefix)
    assert len(prefix) == 3
    batches = Watcher(paged).batches
    out = mp.generate(paged, [prompt] * 2, greedy(8))
    assert [one.num_cached_tokens for one in out] == [0, 0]
    one, two = (set(row) for row in batches[-1].block_tables.tolist())
    assert len(batches[0].tokens) == 26 and len(one) == len(two) == 5
    assert one.isdisjoint(two)
    assert len(prefix) == 0 and prefix.tokens_asked == 13
    assert paged.pool.num_free == 10
    theirs = huggingface_generate(paged.model, [prompt], greedy(8))[0]
    assert [one.sequences for one in out] == [theirs, theirs]


def test_a_prompt_is_counted_once_however_long_it_waits():
    paged, prefix = with_cache(num_blocks=6)
    stem = list(range(3, 11))
    prompts = [[*stem, last] for last in (40, 41, 42, 43)]
    batches = Watcher(paged).batches
    out = mp.generate(paged, prompts, greedy(12), prefix_cache=prefix)
    assert len(batches) == 4 * 12  # one after the other: the last one waits 36 steps
    assert [one.num_cached_tokens for one in out] == [0, 8, 8, 8]
    assert (prefix.tokens_asked, prefix.tokens_hit) == (4 * 9, 3 * 8)


def test_a_prompt_that_waits_for_a_block_just_computed_is_counted_once():
    """There is room for both, but the second lets the first compute what they share."""
    paged, prefix = with_cache(num_blocks=32)
    prompt = list(range(3, 20))
    batches = Watcher(paged).batches
    mp.generate(
        paged, [prompt] * 2, greedy(12), prefix_cache=prefix, max_prompt_tokens=4
    )
    running = [len(batch.context_lengths) for batch in batches]
    assert running[:5] == [1, 1, 1, 1, 2]
    assert (prefix.tokens_asked, prefix.tokens_hit) == (2 * 17, 16)


def test_nobody_waits_for_a_block_of_somebody_elses_salt():
    paged, prefix = with_cache(num_blocks=32)
    prompt = list(range(3, 20))
    batches = Watcher(paged).batches
    salts = {"cache_salt": [b"one", b"two"]}
    mp.generate(paged, [prompt] * 2, greedy(2), prefix_cache=prefix, **salts)
    assert [len(batch.context_lengths) for batch in batches] == [2, 2]


def test_blocks_that_are_held_already_are_not_promised_again():
    """The first holds 3 of its 4 blocks when the second comes: 1 + 4 fit into 5."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=8, block_size=4)
    batches = Watcher(paged).batches
    prompts = [[5] * 4, list(range(3, 15)), list(range(20, 32))]
    mp.generate(paged, prompts, [greedy(1), greedy(5), greedy(5)])
    assert [len(batch.context_lengths) for batch in batches][:2] == [2, 2]


def test_blocks_of_another_salt_are_no_help_at_admission():
    """Found without the salt they would let the second in, who then gets stuck."""
    paged, prefix = with_cache(num_blocks=10)
    prompt = list(range(3, 27))
    salts = {"cache_salt": [b"", b"two"]}
    out = mp.generate(paged, [prompt] * 2, greedy(5), prefix_cache=prefix, **salts)
    theirs = huggingface_generate(paged.model, [prompt], greedy(5))[0]
    assert [one.sequences for one in out] == [theirs] * 2


def test_prompts_that_begin_differently_do_not_wait_for_each_other():
    paged, prefix = with_cache(num_blocks=32)
    batches = Watcher(paged).batches
    prompts = [[first, *range(10, 20)] for first in (3, 4)]
    mp.generate(paged, prompts, greedy(2), prefix_cache=prefix)
    assert [len(batch.context_lengths) for batch in batches] == [2, 2]


def test_an_end_at_the_very_last_token_is_an_end():
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=16, block_size=4)
    (out,) = mp.generate(paged, [[5, 6, 7]], greedy(4))
    assert out.finish_reason == "length"
    ending = GenerationConfig(max_new_tokens=4, eos_token_id=out.sequences[0][-1])
    (again,) = mp.generate(paged, [[5, 6, 7]], ending)
    assert again.sequences == out.sequences and again.finish_reason == "stop"


def test_interrupted_while_freeing_the_others_are_freed(monkeypatch):
    """The interrupt is what comes out, and no block is lost."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=64, block_size=4)
    release, calls = mp.BlockPool.release, []

    def interrupted(pool, block_id):
        calls.append(block_id)
        if len(calls) == 2:
            raise KeyboardInterrupt
        release(pool, block_id)

    monkeypatch.setattr(mp.BlockPool, "release", interrupted)
    prompts, configs = [list(range(3, 12))] * 3, [greedy(1), greedy(6), greedy(6)]
    with pytest.raises(KeyboardInterrupt):
        mp.generate(paged, prompts, configs)
    assert paged.pool.num_free == 64
