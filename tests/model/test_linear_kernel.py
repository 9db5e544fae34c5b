"""The linear kernel, in Triton's interpreter where there is no GPU."""

import pytest
import torch

from minipaged.attention.kernels.sizes import Device
from minipaged.model import linear_kernel
from minipaged.model.linear_kernel import Tile, linear_by_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("size", [(1, 33, 64), (3, 70, 100), (130, 64, 40)])
def test_the_product(size, dtype):
    torch.manual_seed(0)
    rows, num_out, num_in = size
    x = torch.randn(rows, num_in, dtype=dtype, device=DEVICE)
    weight = torch.randn(num_out, num_in, dtype=dtype, device=DEVICE)
    bias = torch.randn(num_out, dtype=dtype, device=DEVICE)
    out = linear_by_kernel(x, weight, bias)
    right = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    assert out.dtype == dtype
    # Sums of up to 100 products, each of order 1, rounded to this type.
    assert (out.double() - right).abs().max() < 100 * torch.finfo(dtype).eps
    columns = weight.T.contiguous().T  # as GPT-2 has them
    assert torch.equal(linear_by_kernel(x, columns, bias), out)
    assert torch.equal(linear_by_kernel(x[-1:], weight, bias), out[-1:])


def test_each_tile_computes_the_product():
    """In the interpreter, numpy adds in an order of its own for each shape."""
    torch.manual_seed(0)
    x, weight = (torch.randint(-8, 8, (n, 96), device=DEVICE).float() for n in (70, 50))
    right = x @ weight.T  # of whole numbers, so no order matters
    for tile in (Tile(16, 16, 32, 4, 2), Tile(64, 32, 32, 4, 2)):
        assert torch.equal(linear_by_kernel(x, weight, tile=tile), right)


@pytest.mark.skipif(DEVICE == "cpu", reason="wants a GPU's matrix units")
@pytest.mark.parametrize("num_in", [1000, 4096])
def test_each_tile_adds_in_the_same_order(num_in):
    torch.manual_seed(0)
    x, weight = (torch.randn(n, num_in, device=DEVICE).bfloat16() for n in (1000, 300))
    right = linear_by_kernel(x, weight, tile=linear_kernel.TILES[0])
    for tile in linear_kernel.TILES:
        for count in (1, 32, 64, 65, 1000):
            out = linear_by_kernel(x[:count], weight, tile=tile)
            assert torch.equal(out, right[:count])


def test_tiles_are_as_large_as_keeps_all_multiprocessors_busy(monkeypatch):
    monkeypatch.setattr(linear_kernel, "INTERPRETED", False)
    gpu = Device(132, 2**18, (torch.bfloat16,), can_overlap=True)
    monkeypatch.setattr(linear_kernel, "device_of", lambda _: gpu)

    def columns(num_rows, num_out):
        x = torch.empty(num_rows, 1024, dtype=torch.bfloat16)
        tile = linear_kernel.tile_of(x, num_out)
        return tile.rows, tile.columns

    assert columns(32, 1024) == columns(256, 1024) == (64, 32)
    assert columns(64, 151_936) == (64, 64)
    assert columns(256, 14_336) == columns(4096, 1024) == (128, 128)
