"""The cache's tensors: written by slot, copied by block."""

import numpy as np
import pytest
import torch

from minipaged.memory.kv_cache import KVCache

SHAPES = [(2, 4, 3), (1, 8, 8)]  # layers of unequal shape, K wider than V


def filled(num_blocks=5, block_size=4):
    torch.manual_seed(0)
    cache = KVCache(SHAPES, num_blocks, block_size)
    for tensor in (*cache.keys, *cache.values):
        tensor.normal_()
    return cache


def test_shapes_and_bytes():
    cache = KVCache(SHAPES, num_blocks=5, block_size=4, dtype=torch.float16)
    assert [tuple(k.shape) for k in cache.keys] == [(5, 4, 2, 4), (5, 4, 1, 8)]
    assert [tuple(v.shape) for v in cache.values] == [(5, 4, 2, 3), (5, 4, 1, 8)]
    assert cache.bytes_per_block == 4 * (2 * 4 + 2 * 3 + 8 + 8) * 2


def test_write_touches_its_slots_and_no_other():
    cache = filled()
    before = cache.keys[0].clone()
    slots = torch.tensor([9, 3])  # block 2 offset 1, block 0 offset 3
    k, v = torch.randn(2, 2, 4), torch.randn(2, 2, 3)
    cache.write(0, slots, k, v)
    assert torch.equal(cache.keys[0][2, 1], k[0])
    assert torch.equal(cache.values[0][0, 3], v[1])
    cache.keys[0][2, 1], cache.keys[0][0, 3] = before[2, 1], before[0, 3]
    assert torch.equal(cache.keys[0], before)


def test_copies_reach_every_layer():
    cache = filled()
    before = [t.clone() for t in (*cache.keys, *cache.values)]
    cache.copy([(0, 3), (0, 4), (1, 2)])
    for tensor, old in zip((*cache.keys, *cache.values), before, strict=True):
        assert torch.equal(tensor, old[[0, 1, 1, 0, 0]])


@pytest.mark.parametrize("copies", [[(0, 3), (1, 3)], [(0, 3), (3, 4)]])
def test_copies_whose_result_would_depend_on_their_order_are_refused(copies):
    cache = filled()
    before = [t.clone() for t in (*cache.keys, *cache.values)]
    with pytest.raises(ValueError, match="clash"):
        cache.copy(copies)
    for tensor, old in zip((*cache.keys, *cache.values), before, strict=True):
        assert torch.equal(tensor, old)


@pytest.mark.parametrize("value", [0, -1, 2.5, "8", None, True])
@pytest.mark.parametrize("name", ["num_blocks", "block_size"])
def test_sizes_that_are_none_are_refused(name, value):
    sizes = {"num_blocks": 4, "block_size": 4, name: value}
    message = f"{name} must be a whole number from 1, got {value!r}"
    with pytest.raises(ValueError, match=message):
        KVCache([(1, 2, 2)], **sizes)


NONSENSE = {
    "two sizes": ([[(2, 64)], 4, 16], ValueError, r"shapes must have \(num_kv_heads"),
    "a number": ([5, 4, 16], ValueError, "shapes must have .* got 5"),
    "no layer": ([[], 4, 16], ValueError, r"for each layer, all from 1, got \[\]"),
    "no values": ([[(2, 64, 0)], 4, 16], ValueError, "all from 1"),
    "a type as text": ([SHAPES, 4, 16, "float32"], TypeError, "dtype must be a torch"),
    "no blocks": ([SHAPES, 0, 16], ValueError, "num_blocks must be .* from 1, got 0"),
    "a text": ([SHAPES, "4", 16], ValueError, "num_blocks must be .* got '4'$"),
    "True": ([SHAPES, 4, True], ValueError, "block_size must be .* got True$"),
    "of numpy": ([SHAPES, np.int64(4), 16], ValueError, r"give int\(num_blocks\)"),
    "of torch": ([SHAPES, 4, torch.tensor(16)], ValueError, r"give int\(block_size\)"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_makes_no_cache_is_refused_in_words(name):
    arguments, error, words = NONSENSE[name]
    with pytest.raises(error, match=words):
        KVCache(*arguments)


def test_shapes_may_be_made_on_the_way():
    cache = KVCache((shape for shape in SHAPES), 5, 4)
    assert len(cache.keys) == len(cache.values) == 2
