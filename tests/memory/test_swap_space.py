"""Blocks in the CPU's memory while a request waits to come back."""

import pytest
import torch

from minipaged.errors import OutOfBlocks
from minipaged.memory.kv_cache import KVCache
from minipaged.memory.swap_space import SwapSpace

SHAPES = [(2, 8, 8), (1, 16, 4)]  # layers of unequal shape, K wider than V


def make(num_blocks=6, num_rows=6):
    cache = KVCache(SHAPES, num_blocks, 4, torch.float32, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    for tensor in (*cache.keys, *cache.values):
        tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return cache, SwapSpace(cache, num_rows)


def contents(cache, block_ids):
    return [tensor[block_ids].clone() for tensor in (*cache.keys, *cache.values)]


def test_out_and_in_again():
    """Scenario 27: every number is as it was, in whichever blocks it comes back."""
    cache, space = make()
    before = contents(cache, [4, 1, 3])
    rows = space.store([4, 1, 3])
    assert len(set(rows)) == 3 and space.pool.num_free == 3
    for tensor in (*cache.keys, *cache.values):
        tensor.fill_(torch.nan)
    space.load(rows, [0, 5, 2])
    for ours, right in zip(contents(cache, [0, 5, 2]), before, strict=True):
        assert torch.equal(ours, right)
    assert contents(cache, [1, 3, 4])[0].isnan().all()  # others are left alone
    assert space.pool.num_free == 3  # the rows stay taken until they are released


def test_a_part_of_the_rows_in_another_order():
    cache, space = make()
    rows = space.store([4, 1, 3])
    right = contents(cache, [3, 4])
    space.load([rows[2], rows[0]], [0, 5])
    for ours, theirs in zip(contents(cache, [0, 5]), right, strict=True):
        assert torch.equal(ours, theirs)


def test_too_few_rows_change_nothing():
    _, space = make(num_rows=2)
    with pytest.raises(OutOfBlocks):
        space.store([0, 1, 2])
    assert space.pool.num_free == 2


def test_no_more_rows_than_the_cache_has_blocks():
    assert make(num_rows=100)[1].pool.num_blocks == 6
