"""Appendix C: prompts on a Hopper GPU, by warps with different jobs, from Python.

On other GPUs, in Triton's interpreter, and for shapes that these kernels do not take,
prompts are computed by lesson 6's `paged_prefill`.
"""

import functools
from inspect import signature
from typing import Any

import torch

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.kernels.check import check_attention, check_sinks
from minipaged.attention.kernels.hopper_tiles import list_tiles
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.sizes import device_of, log2_scales
from minipaged.memory.kv_cache import LayerCache

HEAD_DIMS = (64, 128, 256)
_MAX_SLOTS = 2**31  # slots are counted in 32 bits; numbers of a pool are not
_ROWS = 64  # of each consumer
_CONSUMERS = 2


@functools.cache
def _is_hopper(index: int) -> bool:
    """Has this GPU compute capability 9.0, and Triton what the kernel is written in?"""
    if INTERPRETED or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(index) == (9, 0) and has_gluon()


def has_gluon() -> bool:
    """Has this Triton the Gluon that the kernel is written in? From 3.6 on, it has."""
    try:
        from triton.experimental.gluon import language

        from minipaged.attention.kernels import hopper_kernel  # noqa: F401
    except (ImportError, AttributeError):
        return False
    return "functions_and_args" in signature(language.warp_specialize).parameters


def takes_prompts(q: torch.Tensor, cache: LayerCache, masking: Masking) -> bool:
    """Does the kernel for Hopper take these tensors, on this GPU?"""
    keys, values = cache.keys, cache.values
    block_size = keys.shape[1]
    return (
        q.is_cuda
        and _is_hopper(q.device.index or 0)
        and q.dtype in (torch.bfloat16, torch.float16)
        and keys.dtype == values.dtype == q.dtype  # not in 8 bits
        and keys.shape[3] == values.shape[3]
        and keys.shape[3] in HEAD_DIMS
        and block_size >= 8
        and block_size & (block_size - 1) == 0
        and keys.shape[0] * block_size < _MAX_SLOTS
        and masking.scale > 0
        and all(_can_be_described(x) for x in (q, keys, values))
    )


def _can_be_described(x: torch.Tensor) -> bool:
    """Can the tensor memory accelerator copy it? It wants multiples of 16 bytes."""
    steps = [stride * x.element_size() % 16 for stride in x.stride()[:-1]]
    return x.stride(-1) == 1 and x.data_ptr() % 16 == 0 and not any(steps)


def attend_prompts(
    out: torch.Tensor,
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> None:
    """Causal attention of every sequence with more than one new token, in one launch.

    The rows of other sequences stay as they are. Before the first layer's launch,
    another kernel lists the step's tiles, in `batch.scratch`: see `list_tiles`.
    """
    scale, window, softcap, sinks = masking
    keys, values = cache.keys, cache.values
    where = batch.block_tables, batch.context_lengths, batch.query_starts
    check_attention(out, q, keys, values, *where, window, softcap)
    check_sinks(q, sinks)
    if len(q) == 0:
        return
    from minipaged.attention.kernels.hopper_kernel import prompts_kernel

    num_blocks, block_size, num_kv_heads, value_dim = values.shape
    slots = num_blocks * block_size
    num_heads, dim = q.shape[1:]
    sizes = constants_of(num_heads, num_kv_heads, dim, value_dim, block_size, window)
    tokens = _ROWS // sizes["HEADS"]  # of a consumer
    box = min(block_size, sizes["TILE"])
    with torch.cuda.device_of(q):  # of several GPUs, the right one
        tables = batch.block_tables.contiguous()
        tiles = _tiles_of(batch, len(q), tables.shape[1], _CONSUMERS * tokens)
        workers = device_of(q.device.index or 0).multiprocessors
        prompts_kernel[workers,](
            out,
            _descriptor(q, (tokens, sizes["HEADS"], dim)),
            _descriptor(keys.view(slots, -1), (box, dim)),
            _descriptor(values.view(slots, -1), (box, value_dim)),
            tiles, tables, sinks, workers, *log2_scales(scale, softcap),
            num_warps=4,  # and those of `warp_specialize`
            **sizes,
        )  # fmt: skip


@functools.cache
def constants_of(
    num_heads: int,
    num_kv_heads: int,
    key_dim: int,
    value_dim: int,
    block_size: int,
    window: int | None,
) -> dict[str, Any]:
    """What the kernel is compiled for.

    As many query heads of a token share a tile as their number has powers of two: heads
    that share K and V fill the rows of short prompts, too. Tiles of keys and places of
    the rings are as many as fit into shared memory.
    """
    group, dim = num_heads // num_kv_heads, max(key_dim, value_dim)
    return {
        "WINDOW": window,
        "BLOCK_SIZE": block_size,
        "NUM_HEADS": num_heads,
        "GROUP": group,
        "HEADS": min(group & -group, _ROWS),
        "TILE": 128 if dim <= 128 else 64,
        "PLACES": 2 if dim > 64 else 4,
        "Q_PLACES": 2 if dim <= 128 else 1,
    }


def _tiles_of(
    batch: AttentionBatch, num_tokens: int, table_width: int, tokens: int
) -> torch.Tensor:
    """The step's list of tiles; tensors for a graph are made in its capture."""
    capturing = torch.cuda.is_current_stream_capturing()
    key = "tiles of prompts", tokens, table_width, capturing
    if key not in batch.scratch:
        lengths = batch.context_lengths.contiguous(), batch.query_starts.contiguous()
        batch.scratch[key] = list_tiles(*lengths, num_tokens, table_width, tokens)
    return batch.scratch[key]


def _descriptor(tensor: torch.Tensor, box: tuple[int, ...]) -> Any:
    """What the tensor memory accelerator must know to copy such boxes."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    layout = layout_of_boxes(box, tensor.dtype)
    return TensorDescriptor.from_tensor(tensor, list(box), layout)


@functools.cache
def layout_of_boxes(box: tuple[int, ...], dtype: torch.dtype) -> Any:
    """Where numbers of a box lie in shared memory: as the matrix unit reads them."""
    from triton.experimental.gluon import language as gl

    kind = gl.bfloat16 if dtype == torch.bfloat16 else gl.float16
    return gl.NVMMASharedLayout.get_default_for(list(box), kind)
