"""Appendix D: a linear layer by a kernel that adds in one order for any number of rows.

A library's product cuts its sums into parts if there are few rows, so that all
multiprocessors have work, and adds the parts in the end. Here no sum is cut: a program
adds a number's products from the first to the last. Programs have larger tiles if there
are more rows. That changes no bit, because a matrix unit multiplies the same 16
products at a time: `refuse_dependence` looks at that, on the GPU that is there.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from minipaged.attention.kernels.check import without_gaps
from minipaged.attention.kernels.setup import INTERPRETED, tl, triton
from minipaged.attention.kernels.sizes import device_of

_BANDS = 8  # of rows, whose programs run at a time, and share what they read


class Tile(NamedTuple):
    """What a program computes, and how."""

    rows: int
    columns: int
    depth: int  # products that are added between two loads
    num_warps: int
    num_stages: int


# From the largest on. 64 rows are the fewest that Hopper's matrix units take.
TILES = (
    Tile(128, 128, 64, 8, 3),
    Tile(64, 64, 128, 4, 3),
    Tile(64, 32, 128, 4, 4),
)
_OTHER_TYPES = Tile(64, 32, 32, 4, 2)  # float32, without matrix units


@triton.jit(do_not_specialize=["num_rows"])
def _linear_kernel(
    out,  # [num_rows, num_out]
    x,  # [num_rows, num_in], of any row stride
    weight,  # [num_out, num_in], of any strides
    bias,  # [num_out]; None: there is none
    num_rows,
    num_out,
    num_in,
    x_stride,
    out_stride,
    in_stride,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    IS_WHOLE: tl.constexpr,  # is num_in a multiple of DEPTH?
    BANDS: tl.constexpr,
):
    bands, strips = tl.cdiv(num_rows, ROWS), tl.cdiv(num_out, COLUMNS)
    # Programs that run at a time read few rows and few weights: BANDS of rows, then on.
    program = tl.program_id(0)
    first_band = program // (BANDS * strips) * BANDS
    height = tl.minimum(bands - first_band, BANDS)
    band = first_band + program % (BANDS * strips) % height
    strip = program % (BANDS * strips) // height
    row = (band * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = (strip * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)
    at = tl.arange(0, DEPTH)
    is_row = (row < num_rows)[:, None]
    x_rows = x + row[:, None] * x_stride + at[None, :]
    # Columns beyond the end are read as the last, and not stored.
    weights = weight + tl.minimum(column, num_out - 1)[None, :] * out_stride
    weights += at[:, None] * in_stride
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, num_in, DEPTH):
        if IS_WHOLE:
            a = tl.load(x_rows, mask=is_row, other=0.0)
            b = tl.load(weights)
        else:
            exists = first + at < num_in
            a = tl.load(x_rows, mask=is_row & exists[None, :], other=0.0)
            b = tl.load(weights, mask=exists[:, None], other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        x_rows += DEPTH
        weights += DEPTH * in_stride
    if bias is not None:
        own = tl.load(bias + tl.minimum(column, num_out - 1)).to(tl.float32)
        total += own[None, :]
    places = out + row[:, None] * num_out + column[None, :]
    mask = is_row & (column < num_out)[None, :]
    tl.store(places, total.to(out.dtype.element_ty), mask=mask)


def tile_of(x: Tensor, num_out: int) -> Tile:
    """The largest tile of which all multiprocessors get some; if none is, the smallest.

    x: [num_rows, in]. Tiles of 128 rows are for 128 rows and more.
    """
    num_rows, device = len(x), device_of(x.device.index or 0)
    if INTERPRETED or x.dtype not in device.matrix_dtypes:
        return _OTHER_TYPES
    for tile in TILES:
        programs = _programs(num_rows, num_out, tile)
        if tile.rows <= max(64, num_rows) and programs >= device.multiprocessors:
            return tile
    return TILES[-1]


def _programs(num_rows: int, num_out: int, tile: Tile) -> int:
    return -(-num_rows // tile.rows) * -(-num_out // tile.columns)


def linear_by_kernel(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, tile: Tile | None = None
) -> Tensor:
    """[num_rows, in] -> [num_rows, out]: torch's `linear`; sums are in float32.

    weight: [out, in], of x's type and of any strides. A row's bits depend on that row
    and the weights alone. tile: instead of that of `tile_of`.
    """
    x = without_gaps(x)
    (num_rows, num_in), num_out = x.shape, len(weight)
    out = x.new_empty(num_rows, num_out)
    if num_rows == 0:
        return out
    tile = tile or tile_of(x, num_out)
    with torch.cuda.device_of(x):
        _linear_kernel[_programs(num_rows, num_out, tile),](
            out, x, weight, bias, num_rows, num_out, num_in, x.stride(0),
            *weight.stride(),
            ROWS=tile.rows,
            COLUMNS=tile.columns,
            DEPTH=tile.depth,
            IS_WHOLE=num_in % tile.depth == 0,
            BANDS=_BANDS,
            num_warps=tile.num_warps,
            num_stages=tile.num_stages,
        )  # fmt: skip
    return out
