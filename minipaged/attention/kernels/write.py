"""Lesson 6: fill the cache with kernels: store new tokens, copy blocks (section 5.1).

Both kernels only move memory. Compared with lesson 2's `KVCache.write` and `copy`, they
save launches and second passes: one launch writes K and V, and one launch makes all
copies of a step, in all layers.
"""

import functools
import math

import torch

from minipaged.attention.kernels.check import (
    check_contiguous,
    check_devices,
    check_fit,
    check_integers,
    check_range,
    without_gaps,
)
from minipaged.attention.kernels.eight_bits import check_scales, to_eight_bits
from minipaged.attention.kernels.setup import tl, triton

_COLUMNS = 1024  # of a token's K and V, by one program
_WORDS = 512  # of a block, by one program
_WORD_OF_BYTES = {8: tl.int64, 4: tl.int32, 2: tl.int16, 1: tl.int8}


@triton.jit
def _write_kernel(
    new_keys,  # [T, kv heads, key dim], of any strides but the last
    new_values,
    keys,  # [blocks, block size, kv heads, key dim]
    values,
    slots,  # [T]
    key_scale,  # [kv heads]; None: K is stored as it is
    value_scale,
    key_token_stride,
    key_head_stride,
    value_token_stride,
    value_head_stride,
    HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)
    # All loads come before the first store, so that no load waits for a store.
    slot = tl.load(slots + token).to(tl.int64)
    is_key = column < HEADS * KEY_DIM
    offset = column // KEY_DIM * key_head_stride + column % KEY_DIM
    key = tl.load(new_keys + token * key_token_stride + offset, mask=is_key)
    is_value = column < HEADS * VALUE_DIM
    offset = column // VALUE_DIM * value_head_stride + column % VALUE_DIM
    value = tl.load(new_values + token * value_token_stride + offset, mask=is_value)
    if key_scale is not None:
        scale = tl.load(key_scale + column // KEY_DIM, mask=is_key, other=1.0)
        key = to_eight_bits(key, scale)
    if value_scale is not None:
        scale = tl.load(value_scale + column // VALUE_DIM, mask=is_value, other=1.0)
        value = to_eight_bits(value, scale)
    if slot >= 0:  # not a row that only pads the batch
        tl.store(keys + slot * (HEADS * KEY_DIM) + column, key, mask=is_key)
        tl.store(values + slot * (HEADS * VALUE_DIM) + column, value, mask=is_value)


def write_kv(
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    new_keys: torch.Tensor,
    new_values: torch.Tensor,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
) -> None:
    """Store new tokens' K and V of one layer in their slots, in one launch.

    keys: [num_blocks, block_size, num_kv_heads, key_dim], values with value_dim, both
    contiguous. slots: [T] int64 or int32; -1 stores nothing (a row that only pads the
    batch), and all other slots differ. new_keys: [T, num_kv_heads, key_dim] and
    new_values, of the cache's dtypes. key_scale, value_scale: [num_kv_heads], if K or V
    is stored in 8 bits (appendix C). Raises ValueError for other shapes and dtypes. On
    a GPU, nothing checks the slots.
    """
    if key_scale is not None or value_scale is not None:
        of_layer = {"keys": (keys, key_scale), "values": (values, value_scale)}
        check_scales(new_keys.dtype, keys.shape[2], **of_layer)
    elif not new_keys.dtype == new_values.dtype == keys.dtype == values.dtype:
        raise ValueError(
            f"new K and V are {new_keys.dtype} and {new_values.dtype}, the cache is "
            f"{keys.dtype} and {values.dtype}; convert them first"
        )
    check_fit(
        keys=(keys, "num_blocks block_size num_kv_heads key_dim"),
        values=(values, "num_blocks block_size num_kv_heads value_dim"),
        slots=(slots, "num_tokens"),
        new_keys=(new_keys, "num_tokens num_kv_heads key_dim"),
        new_values=(new_values, "num_tokens num_kv_heads value_dim"),
    )
    check_contiguous(keys=keys, values=values)
    check_integers(slots=slots)
    check_range("slots", slots, -1, keys.shape[0] * keys.shape[1] - 1)
    num_tokens, heads, key_dim = new_keys.shape
    value_dim = new_values.shape[2]
    if num_tokens == 0:
        return
    new_keys, new_values, slots = map(without_gaps, (new_keys, new_values, slots))
    pieces = -(-heads * max(key_dim, value_dim) // _COLUMNS)
    with torch.cuda.device_of(keys):  # of several GPUs, the right one
        _write_kernel[num_tokens, pieces](
            new_keys, new_values, keys, values, slots, key_scale, value_scale,
            new_keys.stride(0), new_keys.stride(1),
            new_values.stride(0), new_values.stride(1),
            HEADS=heads,
            KEY_DIM=key_dim,
            VALUE_DIM=value_dim,
            COLUMNS=_COLUMNS,
            num_warps=8,
        )  # fmt: skip


@triton.jit
def _copy_kernel(
    tensors,  # [tensors, 2]: where each begins, and words in one of its blocks
    copies,  # [copies, 2]: source block, destination block
    WORD: tl.constexpr,  # an integer type: what is moved at a time
    WORDS: tl.constexpr,
):
    which, copy = tl.program_id(1), tl.program_id(2)
    start, size = tl.load(tensors + 2 * which), tl.load(tensors + 2 * which + 1)
    blocks = start.to(tl.pointer_type(WORD))
    source = tl.load(copies + 2 * copy).to(tl.int64)
    destination = tl.load(copies + 2 * copy + 1).to(tl.int64)
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    block = tl.load(blocks + source * size + word, mask=word < size)
    tl.store(blocks + destination * size + word, block, mask=word < size)


@functools.cache  # never dropped: a CUDA graph may hold a table's address
def _table_of_tensors(
    device: torch.device, tensors: tuple[tuple[int, int], ...]
) -> torch.Tensor:
    """(address, words in a block) of each tensor, on the GPU.

    A cache's tensors stay where they are, so a table serves all steps.
    """
    return torch.tensor(tensors, dtype=torch.int64, device=device)


def copy_blocks(tensors: list[torch.Tensor], copies: torch.Tensor) -> None:
    """Copy whole blocks in all of a cache's tensors, in one launch.

    tensors: [num_blocks, ...] each, contiguous; all K and V of all layers, also of
    unequal shapes. copies: [N, 2] int64 or int32: source and destination block.
    Destinations must be distinct and never sources, as `KVCache.copy` checks: the
    copies run in any order, or at once.

    The kernel finds the tensors through a table of their addresses, which is uploaded
    at the first call; so make a first call before you capture a CUDA graph. The
    alternative, one large tensor for all layers, would decide the cache's layout.
    Raises ValueError for tensors of other layouts. On a GPU, nothing checks block ids.
    """
    named = {f"tensors[{i}]": tensor for i, tensor in enumerate(tensors)}
    check_devices(copies=copies, **named)
    check_contiguous(**named)
    check_integers(copies=copies)
    num_blocks = {len(tensor) for tensor in tensors}
    if copies.shape[1:] != (2,) or len(num_blocks) > 1:
        raise ValueError(
            "copies must be [N, 2], and all tensors have as many blocks; got "
            f"{list(copies.shape)} and tensors of {sorted(num_blocks)} blocks"
        )
    if len(copies) == 0 or not tensors:
        return
    check_range("copies", copies, 0, len(tensors[0]) - 1)
    copies = copies.contiguous()
    # The widest word that divides all sizes and addresses; at worst, a byte.
    sizes = [tensor[0].nbytes for tensor in tensors]
    word = math.gcd(8, *sizes, *(tensor.data_ptr() for tensor in tensors))
    rows = [
        (t.data_ptr(), size // word) for t, size in zip(tensors, sizes, strict=True)
    ]
    pieces = -(-max(sizes) // (word * _WORDS))
    with torch.cuda.device_of(copies):  # of several GPUs, the right one
        _copy_kernel[pieces, len(tensors), len(copies)](
            _table_of_tensors(copies.device, tuple(rows)),
            copies,
            WORD=_WORD_OF_BYTES[word],
            WORDS=_WORDS,
            num_warps=2,
        )
