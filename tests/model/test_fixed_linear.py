"""A row of a linear layer is computed as if it were alone."""

import pytest
import torch
from torch.nn.functional import linear

from minipaged.model.fixed_linear import fixed_order_linear

TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def layer(dtype, num_rows=100):
    torch.manual_seed(0)
    x, weight = torch.randn(num_rows, 192), torch.randn(150, 192)
    return x.to(dtype), weight.to(dtype), torch.randn(150).to(dtype)


@TYPES
def test_any_number_of_rows_in_any_place(dtype):
    x, weight, bias = layer(dtype)
    out = fixed_order_linear(x, weight, bias)
    assert torch.allclose(out, linear(x, weight, bias), atol=0.1, rtol=0.01)
    for start, stop in ((0, 1), (5, 7), (31, 33), (40, 100), (99, 100)):
        part = fixed_order_linear(x[start:stop], weight, bias)
        assert torch.equal(part, out[start:stop])
    shape = fixed_order_linear(x.view(2, 5, 10, 192), weight, bias)
    assert torch.equal(shape, out.view(2, 5, 10, 150))


def test_nobody_computes_no_rows():
    x, weight, bias = layer(torch.float32)
    assert fixed_order_linear(x[:0], weight, bias).shape == (0, 150)


def test_a_compiler_leaves_it_as_it_is():
    x, weight, bias = layer(torch.float32)
    compiled = torch.compile(
        lambda x: fixed_order_linear(x, weight, bias) * 2,
        backend="aot_eager",
        fullgraph=True,
        dynamic=True,
    )
    for count in (100, 40, 7):
        right = fixed_order_linear(x[:count], weight, bias) * 2
        assert torch.equal(compiled(x[:count]), right)
