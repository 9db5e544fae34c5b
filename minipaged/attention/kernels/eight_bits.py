"""Lesson 6: numbers of 8 bits in kernels (the border; see appendix C).

K is read as it is stored: a head's scale multiplies the logits. So does V: its scale
multiplies the result. Tiles of both are converted to the type of q, without rounding.
"""

import torch

from minipaged.attention.kernels.setup import INTERPRETED, tl, triton
from minipaged.memory.eight_bits import E4M3


@triton.jit
def to_eight_bits(numbers, scale):
    """As torch's in `memory.eight_bits`: divide, clamp to 448 at most, round."""
    numbers = numbers.to(tl.float32) / scale
    numbers = tl.clamp(numbers, -448.0, 448.0, tl.PropagateNan.ALL)
    return numbers.to(tl.float8e4nv)


def check_scales(
    dtype: torch.dtype, heads: int, **blocks: tuple[torch.Tensor, torch.Tensor | None]
) -> None:
    """Refuse blocks that are neither of this type nor in 8 bits with a scale a head.

    blocks: by name, the keys or values of a layer and their scale.
    """
    for name, (tensor, scale) in blocks.items():
        wanted = dtype if scale is None else E4M3
        if tensor.dtype != wanted:
            raise ValueError(
                f"{name} are {tensor.dtype}, but {wanted} is wanted "
                f"{'without a scale' if scale is None else 'where there is a scale'}: "
                "convert them first"
            )
        if scale is None:
            continue
        if not INTERPRETED and torch.cuda.get_device_capability(tensor.device) < (8, 9):
            raise ValueError(
                "this GPU does not know e4m3, numbers of 8 bits; from compute "
                "capability 8.9 on, GPUs do: use attention='gathered', or no kv_dtype"
            )
        if scale.shape != (heads,) or scale.dtype != torch.float32:
            raise ValueError(
                f"the scale of {name} must be [{heads}] float32, got "
                f"{list(scale.shape)} {scale.dtype}"
            )
