"""K and V in 8 bits: what they become, and where the bytes lie."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minipaged.memory.contiguous import kv_bytes_per_token
from minipaged.memory.eight_bits import (
    E4M3,
    EightBitKVCache,
    LayerScales,
    from_eight_bits,
    scale_for,
    to_eight_bits,
)
from minipaged.memory.kv_cache import KVCache
from minipaged.memory.swap_space import SwapSpace

SHAPES = [(2, 16, 16), (1, 8, 4)]
KINDS = pytest.mark.parametrize("kind", ["fp8", "fp8_v"])


def scales_of(kind):
    some = torch.tensor([0.5, 4.0])
    return [
        LayerScales(some[:heads] if kind == "fp8" else None, 2 * some[:heads])
        for heads, _, _ in SHAPES
    ]


def cache_of(kind, dtype=torch.float32, num_blocks=6):
    return EightBitKVCache(scales_of(kind), SHAPES, num_blocks, 4, dtype)


@given(st.floats(2**-30, 2**30))
def test_twice_the_largest_number_fits_and_no_bit_is_given_away(largest):
    scale = scale_for(torch.tensor([largest]))
    assert 448 / 4 < largest / scale <= 448 / 2
    assert scale.log2() == scale.log2().round()  # to multiply rounds nothing


def test_a_head_of_zeros_has_a_scale():
    assert scale_for(torch.zeros(1)) > 0


@given(st.floats(-900, 900, width=32))
def test_a_number_becomes_the_nearest_of_those_that_there_are(number):
    """Too large or too small included; found by trying all of them."""
    scale = torch.tensor([0.5])
    every = torch.arange(256, dtype=torch.uint8).view(E4M3).float() * scale
    every = every[every.isfinite()]
    stored = to_eight_bits(torch.tensor([[[number]]]), scale)
    found = from_eight_bits(stored, scale, torch.float32)
    assert (found - number).abs() == (every - number).abs().min()


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_is_written_is_read_again_to_four_bits(kind, dtype):
    cache = cache_of(kind, dtype)
    slots = torch.tensor([9, 3, 22])
    for index, (heads, key_dim, value_dim) in enumerate(SHAPES):
        k, v = (torch.randn(3, heads, d).to(dtype) for d in (key_dim, value_dim))
        cache.write(index, slots, k, v)
        layer = cache.layer(index)
        for blocks, scale, new in (
            (layer.keys, layer.key_scale, k),
            (layer.values, layer.value_scale, v),
        ):
            stored = blocks.flatten(0, 1).transpose(0, 1)
            found = from_eight_bits(stored, scale, dtype).transpose(0, 1)[slots]
            if scale is None:
                assert blocks.dtype == dtype and torch.equal(found, new)
            else:
                small = scale.to(dtype)[:, None] / 512  # the last step above 0
                assert blocks.dtype == E4M3 and not torch.equal(found, new)
                assert ((found - new).abs() <= new.abs() / 16 + small).all()


@KINDS
def test_copies_and_a_swap_space_move_the_bytes(kind):
    cache = cache_of(kind)
    for tensor in (*cache.keys, *cache.values):
        tensor.random_()
    before = [tensor.clone() for tensor in (*cache.keys, *cache.values)]
    space = SwapSpace(cache, 6)
    rows = space.store([4, 1])
    cache.copy([(0, 2), (0, 3)])
    space.load(rows, [5, 0])
    for old, now in zip(before, (*cache.keys, *cache.values), strict=True):
        assert torch.equal(now[[2, 3, 5, 0]], old[[0, 0, 4, 1]])
    assert torch.equal(cache.layer(0).values[5].view(torch.uint8), before[2][4])


def test_a_token_takes_half_the_bytes_that_it_takes_in_16_bits():
    from transformers import Qwen3Config

    config = Qwen3Config(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16
    )
    shapes = [(2, 16, 16)] * 2
    scales = [LayerScales(torch.ones(2), torch.ones(2))] * 2
    half = EightBitKVCache(scales, shapes, 3, 4, torch.bfloat16)
    whole = KVCache(shapes, 3, 4, torch.bfloat16)
    assert whole.bytes_per_block == 4 * kv_bytes_per_token(config, 2)
    assert half.bytes_per_block == 4 * kv_bytes_per_token(config, 1)
