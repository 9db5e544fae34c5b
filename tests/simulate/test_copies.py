"""benchmarks.gpu.copies on a tiny model: what is moved, and what is stored."""

import torch

from benchmarks.gpu import copies
from helpers.tiny_models import tiny_model
from minipaged.memory.kv_cache import KVCache


def test_pieces_bring_back_every_block():
    cache = KVCache([(2, 4, 4)] * 3, num_blocks=5, block_size=2)
    tensors = [*cache.keys, *cache.values]
    for tensor in tensors:
        tensor.normal_()
    before = [tensor.clone() for tensor in tensors]
    pieces = copies.Pieces(cache)
    assert len(pieces.pairs) == 5 * 3 * 2  # blocks, layers, K and V
    pieces.swap_out()
    for tensor in tensors:
        tensor.zero_()
    pieces.swap_in()
    assert all(map(torch.equal, tensors, before))


def test_a_row_for_each_size(monkeypatch):
    monkeypatch.setattr(copies, "milliseconds", lambda work: len([work()]))
    model = tiny_model("opt")
    found = copies.report(model, sizes=(1, 8), tokens=16)
    small, large = found["by_block_size"]
    assert small["copies"] == 8 * large["copies"]
    assert small["recompute"] == large["swap_space"] == 1
    assert small["bytes"] == large["bytes"]  # all 16 tokens, whatever the block size
