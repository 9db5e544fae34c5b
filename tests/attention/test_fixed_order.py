"""Attention in a fixed order: right, and a token's bits are the same in any batch."""

import math

import pytest
import torch

from helpers.attention_cases import make_case, oracle, sinks_of
from minipaged.attention.backend import Masking
from minipaged.attention.fixed_order import fixed_order_attention
from minipaged.attention.kernels import fixed_order as kernels
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.fixed_order import fixed_order_kernels
from minipaged.attention.rectangles import gathered_attention
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.kv_cache import LayerCache
from minipaged.model.inputs import Chunk, RaggedBatch

BOTH = pytest.mark.parametrize(
    "attention", [fixed_order_attention, fixed_order_kernels], ids=["torch", "triton"]
)
MASKINGS = [{}, {"sliding_window": 5}, {"softcap": 3.0}, {"sinks": sinks_of(4)}]
RAGGED = [(0, 1), (3, 1), (0, 4), (12, 5), (70, 20), (100, 1)]


pytestmark = pytest.mark.usefixtures("rows_alike")


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Else contexts would have to be long, and the interpreter is slow."""
    monkeypatch.setattr(kernels, "CHUNK", 64)


@BOTH
@pytest.mark.parametrize("masking", MASKINGS, ids=str)
def test_right(attention, masking):
    case = make_case(RAGGED)
    masking = {"scale": case.q.shape[-1] ** -0.5, **masking}
    error = (case.attend(attention, **masking).double() - oracle(case, **masking)).abs()
    assert error.max() < 3e-5  # float32 sums of hundreds of numbers of order 1


LENGTH = 90  # more than a chunk


def computed(attention, cuts, others=(), dtype=torch.float32, **masking):
    """A text's results [LENGTH, H, D]: computed up to each cut beside these others.

    others: how many tokens each other sequence has before, and gets in each step.
    """
    torch.manual_seed(0)
    q, k, v = (torch.randn(LENGTH, heads, 16).to(dtype) for heads in (4, 2, 2))
    pool = BlockPool(400, 4)
    cache = LayerCache(*(torch.zeros(400, 4, 2, 16, dtype=dtype) for _ in range(2)))
    tables = []
    for before, _ in others:
        tables.append(BlockTable(pool))
        tables[-1].append(before)
    own, start, rows = BlockTable(pool), 0, []
    for stop in (*cuts, LENGTH):
        chunks, parts = [], []
        for table, (_, new) in zip(tables, others, strict=True):
            table.append(new)
            chunks.append(Chunk([0] * new, table))
            parts.append([torch.randn(new, h, 16).to(dtype) for h in (4, 2, 2)])
        own.append(stop - start)
        chunks.append(Chunk([0] * (stop - start), own))
        parts.append([x[start:stop] for x in (q, k, v)])
        batch = RaggedBatch.build(chunks)
        new = [torch.cat(x) for x in zip(*parts, strict=True)]
        masking = {"scale": 0.25, **masking}
        if attention.step:
            out = attention.step(*new, cache, batch, Masking(**masking))
        else:
            cache.keys.flatten(0, 1)[batch.slots] = new[1]
            cache.values.flatten(0, 1)[batch.slots] = new[2]
            out = attention(new[0], cache, batch, Masking(**masking))
        rows.append(out[len(out) - (stop - start) :])
        start = stop
    return torch.cat(rows)


WAYS = {
    "in parts": ((7, 50, 85), ()),
    "the last tokens one by one": (range(86, LENGTH), ()),
    "beside others that decode": ((80, 81), [(3, 1), (70, 1), (9, 1)]),
    "beside prompts": ((20, 89), [(0, 30), (40, 5)]),
}


@BOTH
@pytest.mark.parametrize("way", WAYS)
def test_the_same_bits(attention, way):
    assert torch.equal(computed(attention, *WAYS[way]), computed(attention, ()))


@BOTH
@pytest.mark.parametrize("masking", MASKINGS[1:], ids=str)
def test_the_same_bits_with_masks(attention, masking):
    parts = computed(attention, *WAYS["in parts"], **masking)
    assert torch.equal(parts, computed(attention, (), **masking))


@pytest.mark.parametrize("way", WAYS)
def test_the_same_bits_in_bfloat16(way):
    alone = computed(fixed_order_attention, (), dtype=torch.bfloat16)
    beside = computed(fixed_order_attention, *WAYS[way], dtype=torch.bfloat16)
    assert torch.equal(beside, alone)


@pytest.mark.parametrize("attention", [gathered_attention, triton_attention])
def test_other_attention_has_other_bits(attention):
    """Else the tests above would show nothing."""
    alone = computed(attention, ())
    beside = computed(attention, *WAYS["the last tokens one by one"])
    assert not torch.equal(beside, alone)
    assert torch.allclose(beside, alone, atol=1e-5)


@BOTH
def test_tokens_that_fill_up_get_zeros(attention):
    case = make_case([(3, 2), (0, 1)])
    q = torch.cat([case.q, torch.full_like(case.q, math.nan)])
    k, v = (torch.randn(len(q), *x.shape[2:]) for x in (case.keys, case.values))
    cache, masking = LayerCache(case.keys, case.values), Masking(0.25)
    out = attention.step(q, k, v, cache, case.batch, masking)
    right = attention(case.q, cache, case.batch, masking)
    assert torch.equal(out[:3], right) and out[3:].eq(0).all()
