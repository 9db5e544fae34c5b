"""The random layer that attention is measured on."""

import torch

import minipaged as mp
from minipaged.lab.measure.layer import random_layer

CHUNKS = [(40, 1), (0, 7), (16, 16)]


def test_every_way_attends_alike_and_blocks_are_shuffled():
    layer = random_layer(CHUNKS)
    tables = layer.batch.block_tables
    held = [tables[0, :3], tables[1, :1], tables[2, :2]]
    assert torch.cat(held).sort().values.tolist() == list(range(6))
    assert torch.cat(held).tolist() != list(range(6))
    gathered, streamed = map(
        layer.attend, (mp.gathered_attention, mp.streamed_attention)
    )
    assert gathered.shape == (24, 8, 64)
    assert torch.allclose(gathered, streamed, atol=1e-6)


def test_it_is_the_same_each_time_and_fresh_forgets():
    first, second = random_layer(CHUNKS), random_layer(CHUNKS)
    assert torch.equal(first.keys, second.keys) and torch.equal(first.q, second.q)
    first.attend(mp.gathered_attention)
    assert first.batch.scratch and not first.fresh().batch.scratch


def test_a_poisoned_layer_holds_numbers_where_tokens_are_and_nowhere_else():
    layer = random_layer(CHUNKS)
    poisoned = layer.poisoned()
    for old, new in zip(
        (layer.keys, layer.values), (poisoned.keys, poisoned.values), strict=True
    ):
        held = ~new[..., 0, 0].isnan()
        assert held.sum() == 41 + 7 + 32
        assert torch.equal(new[held], old[held]) and new[~held].isnan().all()
        assert not old.isnan().any()
    last = poisoned.keys[layer.batch.block_tables[0, 2]]
    assert last[:9].isfinite().all() and last[9:].isnan().all()
    gathered = map(lambda one: one.attend(mp.gathered_attention), (layer, poisoned))
    assert torch.equal(*gathered)


def test_a_layer_in_other_precisions():
    assert random_layer(CHUNKS, dtype=torch.float16).keys.dtype == torch.float16
    layer = random_layer(CHUNKS)
    exact = layer.double().attend(mp.gathered_attention)
    assert exact.dtype == torch.float64
    assert (exact - layer.attend(mp.gathered_attention)).abs().max() < 1e-6
