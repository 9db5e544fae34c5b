"""Appendix E: as followed.py, in one launch."""

import torch
from torch import Tensor

from minipaged.attention.kernels.setup import tl, triton

_SEQUENCES = 64  # of a program


@triton.jit(do_not_specialize=["num_sequences", "most"])
def _follow_kernel(
    out,  # [3, S]: newest, before, num_wrong
    computed,
    chosen,
    numbers,  # [3, S]
    num_sequences,
    most,
    SEQUENCES: tl.constexpr,
):
    at = tl.program_id(0) * SEQUENCES + tl.arange(0, SEQUENCES)
    is_sequence = at < num_sequences
    first = tl.load(numbers + at, mask=is_sequence, other=0)
    first_chosen = tl.load(numbers + num_sequences + at, mask=is_sequence, other=0)
    count = tl.load(numbers + 2 * num_sequences + at, mask=is_sequence, other=0)
    num_right = tl.zeros([SEQUENCES], tl.int64)
    for number in range(most):
        # Only whoever has no wrong guess so far has as many right ones.
        goes_on = (num_right == number) & (number < count)
        guess = tl.load(computed + first + number + 1, mask=goes_on, other=0)
        token = tl.load(chosen + first_chosen + number, mask=goes_on, other=0)
        num_right += (goes_on & (guess == token)).to(tl.int64)
    newest = tl.load(chosen + first_chosen + num_right, mask=is_sequence)
    before = tl.load(computed + first + num_right, mask=is_sequence)
    tl.store(out + at, newest, mask=is_sequence)
    tl.store(out + num_sequences + at, before, mask=is_sequence)
    tl.store(out + 2 * num_sequences + at, count - num_right, mask=is_sequence)


def follow_rows(computed: Tensor, chosen: Tensor, numbers: Tensor, most: int) -> Tensor:
    """As `follow_each`."""
    num_sequences = numbers.shape[1]
    out = torch.empty_like(numbers)
    with torch.cuda.device_of(chosen):
        _follow_kernel[triton.cdiv(num_sequences, _SEQUENCES),](
            out, computed, chosen, numbers, num_sequences, most, SEQUENCES=_SEQUENCES
        )
    return out
