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
from minipaged.attention.kernels.hopper_shares import share_tiles
from minipaged.attention.kernels.hopper_tiles import list_tiles
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.sizes import device_of, log2_scales
from minipaged.memory.eight_bits import E4M3
from minipaged.memory.kv_cache import LayerCache

HEAD_DIMS = (64, 128, 256)
_SIXTEEN_BITS = torch.bfloat16, torch.float16
_MAX_SLOTS = 2**31  # slots are counted in 32 bits; numbers of a pool are not
_ROWS = 64  # of each consumer
_CONSUMERS = 2
_FEW = 2  # tiles of queries for each program: if there are more, none is cut
_SHORT = 2048  # tokens of context: if there are no more, none is cut either


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


def takes_cache(cache: LayerCache, dtype: torch.dtype) -> bool:
    """Can the kernel for Hopper read this layer's blocks, for queries of this type?"""
    keys, values = cache.keys, cache.values
    block_size = keys.shape[1]
    return (
        keys.is_cuda
        and _is_hopper(keys.device.index or 0)
        and dtype in _SIXTEEN_BITS
        and keys.dtype in (dtype, E4M3)
        and values.dtype in (keys.dtype, E4M3)
        and keys.shape[3] == values.shape[3]
        and keys.shape[3] in HEAD_DIMS
        and block_size >= 8
        and block_size & (block_size - 1) == 0
        and keys.shape[0] * block_size < _MAX_SLOTS
        and _can_be_described(keys)
        and _can_be_described(values)
    )


def takes_prompts(q: torch.Tensor, cache: LayerCache, masking: Masking) -> bool:
    """Does the kernel for Hopper take these tensors, on this GPU?"""
    fits = _can_be_described(q) and masking.scale > 0
    return fits and takes_cache(cache, q.dtype)


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
    another kernel lists the step's tiles, in `batch.scratch`: see `list_tiles`; and
    few long tiles are cut into equal shares: see `share_tiles`.
    """
    scale, window, softcap, sinks = masking
    keys, values = cache.keys, cache.values
    where = batch.block_tables, batch.context_lengths, batch.query_starts
    scales = cache.key_scale, cache.value_scale
    check_attention(out, q, keys, values, *where, window, softcap, *scales)
    check_sinks(q, sinks)
    if len(q) == 0:
        return
    from minipaged.attention.kernels.hopper_kernel import prompts_kernel

    num_blocks, block_size, num_kv_heads, value_dim = values.shape
    slots = num_blocks * block_size
    num_heads, dim = q.shape[1:]
    sizes = constants_of(
        num_heads, num_kv_heads, dim, value_dim, block_size, window,
        cache.value_scale is not None,
    )  # fmt: skip
    box = min(block_size, sizes["TILE"])
    with torch.cuda.device_of(q):  # of several GPUs, the right one
        workers = device_of(q.device.index or 0).multiprocessors
        tables = batch.block_tables.contiguous()
        tiles, shares, parts = _work_of(
            batch, q, value_dim, tables.shape[1], sizes, workers
        )
        prompts_kernel[workers,](
            out, *parts,
            _descriptor(q, (_ROWS // sizes["HEADS"], sizes["HEADS"], dim)),
            _descriptor(keys.view(slots, -1), (box, dim)),
            _descriptor(values.view(slots, -1), (box, value_dim)),
            tiles, shares, tables, sinks, *scales,
            workers, *log2_scales(scale, softcap),
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
    in_eight_bits: bool = False,
) -> dict[str, Any]:
    """What the kernel is compiled for.

    As many query heads of a token share a tile as their number has powers of two: heads
    that share K and V fill the rows of short prompts, too. Tiles of keys and places of
    the rings are as many as fit into shared memory.

    K and V in 8 bits need room for their bytes, too. With heads of 256 numbers, one
    instruction of the matrix unit makes 256 columns, and its assembler wants more
    registers than 16 warps can begin with: two consumers, four converters and a
    producer are as many. So there, only two warps convert.
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
        "Q_PLACES": 2 if dim <= (64 if in_eight_bits else 128) else 1,
        "BYTE_PLACES": 2 if dim <= 64 else 1,
        "CONVERTERS": 4 if dim <= 128 else 2,
    }


def _work_of(
    batch: AttentionBatch,
    q: torch.Tensor,
    value_dim: int,
    table_width: int,
    sizes: dict[str, Any],
    workers: int,
) -> tuple[torch.Tensor, torch.Tensor | None, tuple[torch.Tensor | None, ...]]:
    """The list of a step's tiles, their shares, and room for parts of tiles.

    Layers of the same kind share them, through `batch.scratch`; but tensors for a graph
    are made in its capture.
    """
    tokens, tile = _CONSUMERS * _ROWS // sizes["HEADS"], sizes["TILE"]
    head_groups = q.shape[1] // sizes["HEADS"]
    # At least so many tiles there are, whatever sequences decode.
    least = (len(q) - len(batch.context_lengths)) // tokens * head_groups
    is_cut = least < _FEW * workers and batch.max_context_length > _SHORT
    is_cut = is_cut and sizes["WINDOW"] is None
    capturing = torch.cuda.is_current_stream_capturing()
    key = "prompts", tokens, tile, head_groups, value_dim, table_width, is_cut
    key = *key, capturing
    if key not in batch.scratch:
        lengths = batch.context_lengths.contiguous(), batch.query_starts.contiguous()
        tiles = list_tiles(*lengths, len(q), table_width, tokens)
        shares, parts = None, (None,) * 4
        if is_cut:
            how = tokens, tile, head_groups, workers, _CONSUMERS
            shares, flags = share_tiles(tiles, *how)
            size, options = (workers, _CONSUMERS, _ROWS), {"device": q.device}
            maxima, totals = torch.empty(2, *size, **options)
            parts = maxima, totals, torch.empty(*size, value_dim, **options), flags
        batch.scratch[key] = tiles, shares, parts
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

    kinds = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}
    kind = kinds.get(dtype, gl.float8e4nv)
    return gl.NVMMASharedLayout.get_default_for(list(box), kind)
