"""Appendix D: a linear layer that computes each row as if it were alone.

In which order a library adds the products of a sum depends on the number of rows. So
the last bits of a row depend on how many others there are. Here they do not.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

ROWS = 32  # that a CPU multiplies at a time


def fixed_order_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """torch's `linear`, [..., in] -> [..., out]; a row's bits depend on that row alone.

    weight: [out, in]. On a GPU, it is a kernel: see `linear_kernel.py`. On a CPU, torch
    multiplies 32 rows at a time; the last rows are filled up with zeros. All calls have
    the same shape, so the same code computes them.
    """
    if torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        # Whoever takes operators one by one takes this as one.
        return _operator(x, weight, bias)
    return _compute(x, weight, bias)


def _compute(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    if x.is_cuda:
        from minipaged.model.linear_kernel import linear_by_kernel

        out = linear_by_kernel(rows, weight, bias)
    else:
        count = len(rows)
        whole = rows.new_zeros(-(-count // ROWS) * ROWS, x.shape[-1])
        whole[:count] = rows
        tiles = [linear(tile, weight, bias) for tile in whole.split(ROWS)]
        out = torch.cat(tiles)[:count]
    return out.view(*x.shape[:-1], len(weight))


_operator = torch.library.custom_op(
    "minipaged::fixed_order_linear",
    _compute,
    mutates_args=(),
    schema="(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
)


@_operator.register_fake
def _(x, weight, _bias):
    return x.new_empty(*x.shape[:-1], weight.shape[0])
