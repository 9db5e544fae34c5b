"""What a twin's plain layers compute of a share; ranks are in tests/engine."""

import pytest
import torch
from torch import nn

from helpers.tiny_models import tiny_model
from minipaged.model import shares
from minipaged.model.shares import (
    GatheredLinear,
    SharedEmbedding,
    SummedLinear,
    compute_on_shares,
    local_part,
)
from minipaged.model.twin import make_twin


@pytest.fixture
def two_at_once(monkeypatch):
    """Both ranks' layers are called with the same input, and their parts put together.

    Returns a function that does so: of layers and inputs, one for each rank.
    """

    def call(layers, inputs):
        parts = []

        def note(x, place=None):
            parts.append(x)
            return x

        monkeypatch.setattr(shares, "sum_over_ranks", note)
        monkeypatch.setattr(shares, "gather_from_ranks", note)
        for layer, x in zip(layers, inputs, strict=True):
            layer(x)
        monkeypatch.setattr(shares, "sum_over_ranks", lambda _: sum(parts))
        whole = torch.cat(parts, -1)
        monkeypatch.setattr(shares, "gather_from_ranks", lambda *_: whole)
        return layers[0](inputs[0])

    return call


def share(weight, bias=None):
    layer = nn.Linear(
        *reversed(weight.shape), bias=bias is not None, dtype=weight.dtype
    )
    layer.weight.data = weight
    if bias is not None:
        layer.bias.data = bias
    return layer


@torch.inference_mode()
@pytest.mark.parametrize("bias", [False, True])
def test_linear_layers(two_at_once, bias):
    whole = nn.Linear(6, 8, bias=bias, dtype=torch.float64)
    x = torch.randn(3, 6, dtype=torch.float64)
    weights, inputs = whole.weight.chunk(2, 1), x.chunk(2, 1)
    layers = [SummedLinear(share(weight, whole.bias)) for weight in weights]
    torch.testing.assert_close(two_at_once(layers, inputs), whole(x))
    biases = whole.bias.chunk(2) if bias else (None, None)
    rows = zip(whole.weight.chunk(2), biases, strict=True)
    layers = [GatheredLinear(share(*row)) for row in rows]
    torch.testing.assert_close(two_at_once(layers, [x, x]), whole(x))


@torch.inference_mode()
def test_embeddings(two_at_once):
    whole = nn.Embedding(10, 4)
    tokens = torch.tensor([[0, 4, 5, 9, 4]])
    first, second = whole.weight.chunk(2)
    layers = [SharedEmbedding(first, 0), SharedEmbedding(second, 5)]
    assert torch.equal(two_at_once(layers, [tokens, tokens]), whole(tokens))


def test_a_model_in_one_process_stays_as_it_is():
    twin = make_twin(tiny_model("llama"))
    before = list(twin.modules())
    assert compute_on_shares(twin, 0, 2) == 0
    assert all(a is b for a, b in zip(before, twin.modules(), strict=True))
    assert local_part(twin.lm_head.weight) is None
