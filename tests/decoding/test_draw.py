"""From logits to tokens, in the cases where two ways to the same could differ."""

from types import SimpleNamespace

import pytest
import torch

from minipaged.decoding.draw import next_tokens
from minipaged.decoding.strategy import Turn

NAN, INF = float("nan"), float("inf")
ROWS = [
    [1.0, 3.0, 2.0, 3.0, 0.0],  # the first of equals
    [-INF, -INF, -INF, -INF, -INF],
    [-INF, 2.0, INF, 7.0, INF],
    [1.0, NAN, INF, NAN, 9.0],  # what is no number counts as the greatest
    [-0.0, 0.0, -1.0, 0.0, -2.0],
    [5.0, 4.0, 3.0, 2.0, 5.0],
]


def greedy(count):
    options = SimpleNamespace(processors=[], do_sample=False, batch_key="equal")
    strategy = SimpleNamespace(options=options, generator=None)
    request = SimpleNamespace(strategy=strategy)
    return [Turn(request, range(at, at + 1)) for at in range(count)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_the_likeliest_is_what_torch_finds(dtype, needs_grad):
    noise = torch.randn(20, 5, generator=torch.Generator().manual_seed(0)).round()
    logits = torch.cat([torch.tensor(ROWS), noise]).to(dtype).requires_grad_(needs_grad)
    group = greedy(len(logits))
    tokens = next_tokens(group, [turn.rows for turn in group], logits)
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == logits.argmax(dim=-1).tolist()
    assert tokens[: len(ROWS)].tolist() == [1, 0, 2, 1, 0, 0]
