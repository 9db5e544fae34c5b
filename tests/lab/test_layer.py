"""The random layer that attention is measured on."""

import torch

import minipaged as mp
from minipaged.lab.layer import random_layer

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
    assert first.batch.workspace and not first.fresh().batch.workspace
    assert not first.fresh().batch.scratch
