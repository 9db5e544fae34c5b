"""The kernels that fill the cache, against plain assignment."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.thorough import often
from minipaged.attention.kernels.cache import TritonKVCache
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.write import copy_blocks, write_kv
from minipaged.memory.kv_cache import KVCache

DEVICE = "cpu" if INTERPRETED else "cuda"
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def filled(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype).to(DEVICE)


def cache_of(shapes, num_blocks=9, block_size=3, dtype=torch.float32, kind=KVCache):
    torch.manual_seed(0)
    cache = kind(shapes, num_blocks, block_size, dtype, DEVICE)
    for blocks in (*cache.keys, *cache.values):
        blocks.copy_(filled(*blocks.shape))
    return cache


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(2, 16, 16), (3, 5, 7), (9, 128, 64), (9, 64, 128), (1, 1, 1)]
)
def test_write_is_what_lesson_2_does(shape, dtype):
    ours, theirs = (cache_of([shape], dtype=dtype) for _ in range(2))
    heads, key_dim, value_dim = shape
    slots = torch.randperm(27, device=DEVICE)[:13]
    # As a model hands them over: K with its heads first, V with its tokens.
    k = filled(heads, 13, key_dim, dtype=dtype).transpose(0, 1)
    v = filled(13, heads, value_dim, dtype=dtype)
    theirs.write(0, slots, k, v)
    write_kv(ours.keys[0], ours.values[0], slots, k, v)
    assert torch.equal(ours.keys[0], theirs.keys[0])
    assert torch.equal(ours.values[0], theirs.values[0])


def test_a_slot_of_minus_one_writes_nothing():
    cache = cache_of([(2, 8, 8)])
    before = [cache.keys[0].clone(), cache.values[0].clone()]
    k, v = filled(4, 2, 8), filled(4, 2, 8)
    none = torch.full((4,), -1, device=DEVICE)
    write_kv(cache.keys[0], cache.values[0], none, k, v)
    assert torch.equal(cache.keys[0], before[0])
    assert torch.equal(cache.values[0], before[1])
    slots = torch.tensor([5, -1, 26, -1], device=DEVICE)  # 26 is the last one
    write_kv(cache.keys[0], cache.values[0], slots, k, v)
    before[0].flatten(0, 1)[[5, 26]] = k[[0, 2]]
    before[1].flatten(0, 1)[[5, 26]] = v[[0, 2]]
    assert torch.equal(cache.keys[0], before[0])
    assert torch.equal(cache.values[0], before[1])


def test_a_pool_may_hold_more_than_2_to_the_31_numbers():
    """Hardly any of its pages is touched, so that it takes no memory on a CPU."""
    shape = (2**15 + 1, 16, 64)
    keys = torch.empty(*shape, 64, dtype=torch.int8, device=DEVICE)
    values = torch.empty(*shape, 1, dtype=torch.int8, device=DEVICE)
    slots = torch.tensor([2**19 + 15], dtype=torch.int32, device=DEVICE)  # the last
    k = torch.arange(64 * 64, device=DEVICE).to(torch.int8).view(1, 64, 64)
    write_kv(keys, values, slots, k, k[:, :, :1])
    assert torch.equal(keys[-1, -1], k[0])
    assert torch.equal(values[-1, -1], k[0, :, :1])


def test_nothing_to_write_and_nothing_to_copy():
    cache = cache_of([(2, 8, 8)])
    before = cache.keys[0].clone()
    none = torch.empty(0, dtype=torch.int64, device=DEVICE)
    write_kv(cache.keys[0], cache.values[0], none, filled(0, 2, 8), filled(0, 2, 8))
    copy_blocks([cache.keys[0]], none.view(0, 2))
    assert torch.equal(cache.keys[0], before)


def test_other_dtypes_than_the_caches_are_refused():
    cache = cache_of([(2, 8, 8)])
    slots = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    half, full = filled(1, 2, 8, dtype=torch.float16), filled(1, 2, 8)
    with pytest.raises(ValueError, match="convert them first"):
        write_kv(cache.keys[0], cache.values[0], slots, half, full)


LAYERS = [(2, 16, 16), (2, 32, 32), (1, 5, 3), (4, 24, 12)]  # of unequal shapes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shapes", [LAYERS, LAYERS[:2], [(1, 1, 1)]])
def test_copies_are_what_lesson_2_does(shapes, dtype):
    ours, theirs = (cache_of(shapes, dtype=dtype) for _ in range(2))
    copies = [(0, 4), (0, 5), (8, 2), (3, 1)]
    theirs.copy(copies)
    copy_blocks([*ours.keys, *ours.values], torch.tensor(copies, device=DEVICE))
    for ours_of_layer, theirs_of_layer in zip(
        (*ours.keys, *ours.values), (*theirs.keys, *theirs.values), strict=True
    ):
        assert torch.equal(ours_of_layer, theirs_of_layer)


def test_a_block_may_be_longer_than_what_a_program_copies():
    ours, theirs = (cache_of([(8, 80, 90)], block_size=16) for _ in range(2))
    theirs.copy([(1, 0)])
    copy_blocks([*ours.keys, *ours.values], torch.tensor([[1, 0]], device=DEVICE))
    assert torch.equal(ours.keys[0], theirs.keys[0])
    assert torch.equal(ours.values[0], theirs.values[0])


def same(ours, theirs):
    pairs = zip(ours.keys + ours.values, theirs.keys + theirs.values, strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def test_the_cache_of_the_kernels_is_as_strict_as_lesson_2s():
    ours, theirs = cache_of(LAYERS, kind=TritonKVCache), cache_of(LAYERS)
    for clash in ([(0, 1), (2, 1)], [(0, 1), (1, 2)]):
        with pytest.raises(ValueError, match="clash"):
            ours.copy(clash)
    assert same(ours, theirs)
    slots = torch.tensor([26, 0, 7], device=DEVICE)
    for cache in (ours, theirs):
        cache.copy([])
        for layer, (heads, key_dim, value_dim) in enumerate(LAYERS):
            torch.manual_seed(layer)
            k, v = filled(3, heads, key_dim), filled(3, heads, value_dim)
            cache.write(layer, slots, k, v)
        cache.copy([(8, 3), (8, 5), (0, 1)])
    assert same(ours, theirs)


def test_blocks_may_begin_at_any_byte():
    """A GPU reads no wider word than an address is a multiple of."""
    memory = torch.arange(33, dtype=torch.int8, device=DEVICE)
    blocks = memory[1:].view(4, 8)
    copy_blocks([blocks], torch.tensor([[3, 0]], device=DEVICE))
    assert memory.tolist() == [0, *range(25, 33), *range(9, 33)]


@settings(max_examples=often(40), deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 20), st.integers(1, 20)),
    block_size=st.integers(1, 5),
    num_tokens=st.integers(1, 20),
    seed=st.integers(0, 2**31),
)
def test_any_shape(shape, block_size, num_tokens, seed):
    ours, theirs = (cache_of([shape], 20, block_size) for _ in range(2))
    torch.manual_seed(seed)
    heads, key_dim, value_dim = shape
    slots = torch.randperm(20 * block_size, device=DEVICE)[:num_tokens]
    k = filled(len(slots), heads, key_dim)
    v = filled(len(slots), heads, value_dim)
    theirs.write(0, slots, k, v)
    real = torch.rand(len(slots), device=DEVICE) < 0.5
    write_kv(ours.keys[0], ours.values[0], slots.where(real, -1), k, v)
    write_kv(ours.keys[0], ours.values[0], slots.where(~real, -1), k, v)
    blocks = torch.randperm(20, device=DEVICE).view(10, 2)[: num_tokens // 2 + 1]
    theirs.copy([tuple(pair) for pair in blocks.tolist()])
    copy_blocks([*ours.keys, *ours.values], blocks)
    assert torch.equal(ours.keys[0], theirs.keys[0])
    assert torch.equal(ours.values[0], theirs.values[0])


def test_loading_the_kernel_of_copies_changes_nothing():
    cache = cache_of(LAYERS, kind=TritonKVCache)
    before = [layer.clone() for layer in (*cache.keys, *cache.values)]
    cache.load_kernels()
    for old, now in zip(before, (*cache.keys, *cache.values), strict=True):
        assert torch.equal(old.nan_to_num(7), now.nan_to_num(7))
