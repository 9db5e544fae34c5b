"""Appendix A: tokens of many rows, drawn on the GPU while nobody waits for it.

A vocabulary of 150,000 makes logits of 256 rows as large as the model's weights are
small. Dividing by a temperature, softmax and the draw each read and write all of it.
Here it is read once: a row is cut into chunks, and each chunk gets one number, its
share of the row's probability. Then a chunk is drawn, and inside it a token.
"""

import torch
from torch import Tensor
from transformers import TemperatureLogitsWarper

from minipaged.attention.kernels.setup import tl, triton
from minipaged.decoding.options import Options

_CHUNK = 4096  # logits


@triton.jit
def _weigh_kernel(
    logits,  # [rows, vocabulary]
    maxima,  # [rows, chunks]
    totals,  # [rows, chunks]: sum of exp(logit / temperature - maximum); or the place
    row_stride,
    vocabulary,
    num_chunks,
    sharpness,  # 1 / temperature
    GREEDY: tl.constexpr,
    CHUNK: tl.constexpr,
):
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = chunk * CHUNK + tl.arange(0, CHUNK)
    exists = column < vocabulary
    x = tl.load(logits + row * row_stride + column, mask=exists, other=float("-inf"))
    x = x.to(tl.float32) * sharpness
    maximum = tl.max(x, 0)
    if GREEDY:
        total = tl.min(tl.where(x == maximum, column, 2**24), 0).to(tl.float32)
    else:
        total = tl.sum(tl.exp(x - tl.where(maximum == float("-inf"), 0.0, maximum)), 0)
    tl.store(maxima + row * num_chunks + chunk, maximum)
    tl.store(totals + row * num_chunks + chunk, total)


@triton.jit
def _draw_kernel(
    tokens,  # [rows]
    logits,
    maxima,
    totals,
    uniform,  # [rows, 2]: random numbers from 0 to below 1
    row_stride,
    vocabulary,
    num_chunks,
    sharpness,
    GREEDY: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,  # num_chunks, padded
):
    row = tl.program_id(0).to(tl.int64)
    number = tl.arange(0, CHUNKS)
    is_chunk = number < num_chunks
    at = row * num_chunks + number
    maximum = tl.load(maxima + at, mask=is_chunk, other=float("-inf"))
    total = tl.load(totals + at, mask=is_chunk, other=0.0)
    highest = tl.max(maximum, 0)
    if GREEDY:
        first = tl.min(tl.where(maximum == highest, total, 2.0**24), 0)
        tl.store(tokens + row, first.to(tl.int64))
    else:
        weight = total * tl.exp(maximum - highest)
        chunk = _drawn(weight, tl.load(uniform + 2 * row), number)
        column = chunk * CHUNK + tl.arange(0, CHUNK)
        exists = column < vocabulary
        place = logits + row * row_stride + column
        x = tl.load(place, mask=exists, other=float("-inf")).to(tl.float32) * sharpness
        weight = tl.exp(x - tl.max(x, 0))
        token = _drawn(weight, tl.load(uniform + 2 * row + 1), tl.arange(0, CHUNK))
        tl.store(tokens + row, (chunk * CHUNK + token).to(tl.int64))


@triton.jit
def _drawn(weight, uniform, number):
    """The first whose sum of weights, its own included, passes this share of all."""
    sums = tl.cumsum(weight, 0)
    passed = (sums > uniform * tl.max(sums, 0)) & (weight > 0.0)
    last = tl.max(tl.where(weight > 0.0, number, 0), 0)  # where rounding let none pass
    return tl.minimum(tl.min(tl.where(passed, number, 2**30), 0), last)


def draw_rows(logits: Tensor, temperature: float, uniform: Tensor | None) -> Tensor:
    """A token of each row: the likeliest, or drawn by these random numbers.

    logits: [rows, vocabulary]; at most 2**24 of them in a row. uniform: [rows, 2]
    float32, from 0 to below 1; None for the likeliest. Returns [rows] int64.
    """
    rows, vocabulary = logits.shape
    num_chunks = -(-vocabulary // _CHUNK)
    parts = {"size": (rows, num_chunks), "dtype": torch.float32}
    maxima, totals = (torch.empty(**parts, device=logits.device) for _ in range(2))
    tokens = torch.empty(rows, dtype=torch.int64, device=logits.device)
    sharpness = 1.0 if uniform is None else 1.0 / temperature
    sizes = logits.stride(0), vocabulary, num_chunks, sharpness
    options = {"GREEDY": uniform is None, "CHUNK": _CHUNK, "num_warps": 8}
    if rows:
        with torch.cuda.device_of(logits):
            _weigh_kernel[rows, num_chunks](logits, maxima, totals, *sizes, **options)
            _draw_kernel[rows,](
                tokens, logits, maxima, totals,
                maxima if uniform is None else uniform, *sizes, **options,
                CHUNKS=max(2, triton.next_power_of_2(num_chunks)),
            )  # fmt: skip
    return tokens


def draw_unseeded(options: Options, logits: Tensor) -> Tensor:
    """The next token of rows with these options, whose processors need no history.

    logits: [rows, vocabulary], in any type that the model makes them in; computed with
    in float32. Returns [rows] int64, on the same GPU.
    """
    temperature, processors = 1.0, options.processors
    if len(processors) == 1 and type(processors[0]) is TemperatureLogitsWarper:
        temperature, processors = processors[0].temperature, None
    if processors:
        none = torch.empty(0, dtype=torch.int64, device=logits.device)
        logits = processors(none, logits.float())
    uniform = None
    if options.do_sample:
        uniform = torch.rand(len(logits), 2, device=logits.device)
    return draw_rows(logits, temperature, uniform)


def load_kernels(
    vocabulary: int, dtypes: set[torch.dtype], device: torch.device
) -> None:
    """Compile and load them, for logits of these types, before anybody waits."""
    uniform = torch.zeros(1, 2, device=device)
    for dtype in dtypes:
        logits = torch.zeros(1, vocabulary, dtype=dtype, device=device)
        for numbers in (None, uniform):
            draw_rows(logits, 1.0, numbers)
