"""Appendix D: tokens of many rows, drawn on the GPU while the CPU goes on.

With a vocabulary of 150,000, the logits of 256 rows take 154 MB in float32. To divide
by a temperature, to compute softmax and to draw would each read and write all of them.
Here they are read once: a row is cut into chunks, and each chunk gets one number, its
share of the row's probability. Then a chunk is drawn, and a token inside the chunk.

Each row has a temperature and a cutoff (see cutoff.py), so rows with different options
are drawn together. Greedy is a draw, too: its temperature is the limit, 0, where only
the highest logits have a weight, and it takes the first of them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from minipaged.attention.kernels.setup import tl, triton
from minipaged.decoding.cutoff import find_cutoffs
from minipaged.decoding.options import Options
from minipaged.decoding.row_options import GREEDY, RowOptions
from minipaged.model.persistent_inputs import to_device_once

_CHUNK = 4096  # logits
_ROWS = 64  # numbers are sent for a multiple of so many rows


@triton.jit
def _weigh_kernel(
    logits,  # [rows, vocabulary]
    numbers,  # [rows, 4]: the fields of RowOptions, in their order
    cutoffs,  # [rows]
    maxima,  # [rows, chunks]
    totals,  # [rows, chunks]: each chunk's weight, divided by that of its maximum
    row_stride,
    vocabulary,
    num_chunks,
    CHUNK: tl.constexpr,
):
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    x = _load(logits + row * row_stride, cutoffs + row, chunk, vocabulary, CHUNK)
    maximum = tl.max(x, 0)
    total = tl.sum(_weights(x, maximum, tl.load(numbers + 4 * row)), 0)
    tl.store(maxima + row * num_chunks + chunk, maximum)
    tl.store(totals + row * num_chunks + chunk, total)


@triton.jit
def _draw_kernel(
    tokens,  # [rows]
    logits,
    numbers,
    cutoffs,
    maxima,
    totals,
    uniform,  # [rows, 2]: random numbers from 0 to below 1; not read for greedy rows
    row_stride,
    vocabulary,
    num_chunks,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,  # num_chunks, padded
):
    row = tl.program_id(0).to(tl.int64)
    sharpness = tl.load(numbers + 4 * row)
    is_random = sharpness < float("inf")  # greedy rows draw with 0.0: the first
    of_chunk = tl.load(uniform + 2 * row, mask=is_random, other=0.0)
    of_token = tl.load(uniform + 2 * row + 1, mask=is_random, other=0.0)
    number = tl.arange(0, CHUNKS)
    is_chunk = number < num_chunks
    at = row * num_chunks + number
    maximum = tl.load(maxima + at, mask=is_chunk, other=float("-inf"))
    total = tl.load(totals + at, mask=is_chunk, other=0.0)
    highest = tl.max(maximum, 0)
    weight = total * _weights(maximum, highest, sharpness)
    chunk = _drawn(weight, of_chunk, number)
    x = _load(logits + row * row_stride, cutoffs + row, chunk, vocabulary, CHUNK)
    weight = _weights(x, tl.max(x, 0), sharpness)
    token = _drawn(weight, of_token, tl.arange(0, CHUNK))
    drawn = (chunk * CHUNK + token).to(tl.int64)
    # HuggingFace refuses to draw if no logit is left, or one is infinite or NaN.
    is_finite = tl.abs(highest) < float("inf")
    tl.store(tokens + row, tl.where(is_finite | (sharpness == float("inf")), drawn, -1))


@triton.jit
def _load(row, cutoff, chunk, vocabulary, CHUNK: tl.constexpr):
    """The logits of a chunk as float32; -inf where they must not be drawn.

    NaN counts as the highest, as it does to torch's argmax.
    """
    column = chunk * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(row + column, mask=column < vocabulary, other=float("-inf"))
    x = x.to(tl.float32)
    x = tl.where(x != x, float("inf"), x)
    return tl.where(x >= tl.load(cutoff), x, float("-inf"))


@triton.jit
def _weights(x, highest, sharpness):
    """Probabilities divided by the highest, which gives 1 also if sharpness is inf."""
    weight = tl.where(x == highest, 1.0, tl.exp((x - highest) * sharpness))
    return tl.where(x == float("-inf"), 0.0, weight)


@triton.jit
def _drawn(weight, uniform, number):
    """The first number whose sum of weights up to there passes this share of all."""
    sums = tl.cumsum(weight, 0)
    passed = (sums > uniform * tl.max(sums, 0)) & (weight > 0.0)
    last = tl.max(tl.where(weight > 0.0, number, 0), 0)  # where rounding let none pass
    return tl.minimum(tl.min(tl.where(passed, number, 2**30), 0), last)


def draw_rows(
    logits: Tensor, options: Sequence[RowOptions], uniform: Tensor | None = None
) -> Tensor:
    """A token of each row: the likeliest, or drawn by these random numbers.

    logits: [rows, vocabulary] float32, float16 or bfloat16; computed with in float32;
    at most 2**24 tokens. options: of each row. uniform: [rows, 2] float32,
    from 0 to below 1; None if all rows are greedy. Returns [rows] int64; NO_TOKEN, -1,
    for random rows whose probabilities are no numbers.
    """
    if not options:
        return torch.empty(0, dtype=torch.int64, device=logits.device)
    numbers = to_numbers(options, logits.device)
    has_cutoffs = any([row.has_cutoff for row in _kinds(options)])
    return launch_draw(logits, numbers, has_cutoffs, uniform)


def _kinds(options: Sequence[RowOptions]) -> Sequence[RowOptions]:
    """All of them; if they are equal, as they mostly are, one stands for all."""
    first = options[0]
    return [first] if options.count(first) == len(options) else options


def to_numbers(options: Sequence[RowOptions], device: torch.device) -> Tensor:
    """The numbers of these rows, [rows, 4] float32, on the device; the CPU goes on.

    Most steps ask for what the step before has asked for. So the last numbers stay on
    the device, and rows are filled up with the last row's numbers: if a row less is
    wanted, nothing is sent, either.
    """
    filled = -len(options) % _ROWS
    kinds = _kinds(options)
    if len(kinds) == 1:
        packed = kinds[0].packed * len(options)
    else:
        packed = b"".join([row.packed for row in kinds])
    packed += options[-1].packed * filled
    numbers = to_device_once(packed, device)  # two float32 travel as one int64
    return numbers.view(torch.float32).view(-1, 4)[: len(options)]


def launch_draw(
    logits: Tensor, numbers: Tensor, has_cutoffs: bool, uniform: Tensor | None
) -> Tensor:
    """As `draw_rows`, from numbers that are on the device: three kernels, or two.

    numbers: of `to_numbers`. has_cutoffs: does any row leave out low logits?
    """
    rows, vocabulary = logits.shape
    num_chunks = -(-vocabulary // _CHUNK)
    size = {"dtype": torch.float32, "device": logits.device}
    maxima, totals = (torch.empty(rows, num_chunks, **size) for _ in range(2))
    tokens = torch.empty(rows, dtype=torch.int64, device=logits.device)
    sizes = logits.stride(0), vocabulary, num_chunks
    with torch.cuda.device_of(logits):
        if has_cutoffs:
            cutoffs = find_cutoffs(logits, numbers)
        else:
            cutoffs = torch.full((rows,), -torch.inf, **size)
        _weigh_kernel[rows, num_chunks](
            logits, numbers, cutoffs, maxima, totals, *sizes, CHUNK=_CHUNK, num_warps=8
        )
        _draw_kernel[rows,](
            tokens, logits, numbers, cutoffs, maxima, totals,
            numbers if uniform is None else uniform, *sizes, CHUNK=_CHUNK,
            CHUNKS=max(2, triton.next_power_of_2(num_chunks)), num_warps=8,
        )  # fmt: skip
    return tokens


def draw_unseeded(options: Sequence[Options], logits: Tensor) -> Tensor:
    """The next token of each row, by options whose processors need no history.

    options: of each row, one at least; all have `of_rows`, or all have none and the
    same processors. logits: [rows, vocabulary], in any type that the model makes them
    in; computed with in float32. Returns [rows] int64, on the same GPU.
    """
    of_rows = [row.of_rows for row in options]
    if of_rows[0] is None:
        none = torch.empty(0, dtype=torch.int64, device=logits.device)
        logits = options[0].processors(none, logits.float())
        of_rows = [RowOptions() if options[0].do_sample else GREEDY] * len(options)
    uniform = None
    if not all([row.is_greedy for row in _kinds(of_rows)]):
        size = {"dtype": torch.float32, "device": logits.device}
        uniform = torch.rand(len(logits), 2, **size)
    return draw_rows(logits, of_rows, uniform)


def load_kernels(
    vocabulary: int, dtypes: set[torch.dtype], device: torch.device
) -> None:
    """Compile and load the kernels for logits of these types, before a user waits."""
    uniform = torch.zeros(1, 2, dtype=torch.float32, device=device)
    with_and_without_cutoff = RowOptions(top_k=1), RowOptions()
    for dtype in dtypes:
        logits = torch.zeros(1, vocabulary, dtype=dtype, device=device)
        for options in with_and_without_cutoff:
            draw_rows(logits, [options], uniform)
