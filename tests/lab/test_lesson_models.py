"""Models of lessons 4 and 5: two chats, a cache of NaN, one head after another."""

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.tiny_models import tiny_model
from minipaged.lab.tour.by_hand import head_by_head, record_queries
from minipaged.lab.tour.poison import poison
from minipaged.lab.tour.proof import same_answer
from minipaged.lab.tour.reference import huggingface_outputs
from minipaged.lab.tour.toys import WordPool, WordTable
from minipaged.lab.tour.two_chats import two_chats


@pytest.fixture
def paged():
    return mp.PagedModel(tiny_model("qwen3"), num_blocks=32, block_size=4)


def test_each_chat_is_told_its_own_pet(monkeypatch):
    model, tokenizer = mp.load("pocket", device="cpu")
    paged = mp.PagedModel(model, num_blocks=16, block_size=16)
    poison(paged)
    right = "Ben has a dog.<|end|> and Ben has a cat.<|end|>"
    assert two_chats(paged, tokenizer) == right
    assert paged.pool.num_free == 16
    monkeypatch.setattr(mp.BlockTable, "must_copy", lambda table, n: False)
    assert two_chats(paged, tokenizer) != right


def test_all_slots_are_poisoned(paged):
    poison(paged)
    assert all(tensor.isnan().all() for tensor in paged.cache.keys + paged.cache.values)


def blocks_of(cache, block_ids, num_tokens, kv_head):
    size = cache.keys.shape[1]
    for index in range(-(-num_tokens // size)):
        place = block_ids[index], slice(min(size, num_tokens - index * size)), kv_head
        yield cache.keys[place], cache.values[place]


def whole(q, blocks, scale=1.0):
    keys, values = (torch.cat(each) for each in zip(*blocks, strict=True))
    return (scale * (keys @ q) * len(q) ** -0.5).softmax(0) @ values


def test_a_model_runs_on_the_attention_of_one_head(paged):
    prompts, config = [[1, 2, 3, 4, 5], [6]], GenerationConfig(max_new_tokens=6)
    right = huggingface_outputs(paged.model, prompts, config)
    paged.attention = head_by_head(whole, blocks_of)
    poison(paged)
    found = mp.generate(paged, prompts, config)
    assert all(map(same_answer, right, found))
    paged.attention = head_by_head(lambda q, blocks: whole(q, blocks, -3.0), blocks_of)
    assert not all(map(same_answer, right, mp.generate(paged, prompts, config)))


def test_queries_are_recorded_and_the_attention_put_back(paged):
    table, before = mp.BlockTable(paged.pool), paged.attention
    table.append(5)
    batch = mp.RaggedBatch.build([mp.Chunk([1, 2, 3, 4, 5], table)])
    queries = record_queries(paged, batch)
    config = paged.model.config
    assert len(queries) == config.num_hidden_layers
    assert queries[0].shape[:2] == (5, config.num_attention_heads)
    assert paged.attention == before


def test_a_failing_forward_puts_the_attention_back_too(paged):
    before = paged.attention
    with pytest.raises(AttributeError):
        record_queries(paged, None)
    assert paged.attention == before


def test_toys_keep_words_and_count_holders():
    pool = WordPool(num_blocks=3, block_size=2)
    table = WordTable(pool)
    for word in "once upon a".split():
        table.append()
        table.write(word)
    assert table.read() == ["once", "upon", "a"] and table.block_ids == [0, 1]
    pool.share(0)
    table.free()
    assert pool.holders == [1, 0, 0] and sorted(pool.free_ids) == [1, 2]
