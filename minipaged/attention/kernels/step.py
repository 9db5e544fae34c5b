"""Appendix A: the kernel of `one_launch`, from Python: checked once, launched often.

A layer's call costs the host microseconds, and a model has many layers. So whatever
follows from shapes alone is worked out, and refused, in the first of them.
"""

from typing import Any, NamedTuple

import torch

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.kernels.check import (
    check_attention,
    check_contiguous,
    check_fit,
    check_integers,
    check_range,
    without_gaps,
)
from minipaged.attention.kernels.one_launch import _step_kernel
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.sizes import log2_scales, padded, step_sizes
from minipaged.memory.kv_cache import LayerCache

_COUNTED_AT_ONCE = 512  # sequences
_MERGED_AT_ONCE = 1024  # numbers, by each warp


def decode_step(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> torch.Tensor:
    """Write K and V of one new token for each sequence, and attend: one launch.

    A CUDA graph may hold it, for any lengths: those at capture do not matter, not even
    for speed. A row that only pads the batch has slot -1, nothing is written, and
    context 0, it gets zeros.

    What the programs of a launch tell each other lies in `batch.scratch`, and the next
    layer uses it again. That is safe because the layers of a batch run one after
    another; other batches, so other engines and streams, have tensors of their own. A
    graph needs those that were made in its capture, or before, for as long as it lives:
    keep the batch.

    Args:
        q: [S, num_heads, key_dim]; k: [S, num_kv_heads, key_dim]; v: the same with
            value_dim; of any strides.
        cache: one layer's K and V, contiguous; float32, float16 or bfloat16, as q.
        batch: as RaggedBatch, with slots, and with one new token for each sequence.
        masking: scale, window, soft cap and sinks of this layer.

    Returns: [S, num_heads, value_dim]. Raises ValueError for tensors that the kernel
    cannot take; it says what can.
    """
    q, k, v = without_gaps(q), without_gaps(k), without_gaps(v)
    out = q.new_empty((*q.shape[:2], v.shape[2]))
    launch = _prepared(out, q, k, v, cache, batch, masking)
    launch(out, q, k, v, cache, batch.slots, batch, None, masking.sinks)
    return out


def decode_written(
    out: torch.Tensor,
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> None:
    """Attention of every sequence that has one new token; the rest of `out` stays.

    As lesson 6's `paged_decode`, with sinks, and in one launch. K and V are in the
    cache already, also those of the new tokens.
    """
    q = without_gaps(q)
    launch = _prepared(out, q, None, None, cache, batch, masking)
    starts = batch.query_starts.contiguous()
    launch(out, q, None, None, cache, None, batch, starts, masking.sinks)


class _Launch(NamedTuple):
    """What the layers of a batch that have the same shapes share."""

    grid: tuple[int]
    scratch: tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # means, logs, tickets
    numbers: tuple[int, int]  # sequences, target of pieces
    scales: tuple[float, float | None]
    constants: dict[str, Any]

    def __call__(self, out, q, k, v, cache, slots, batch, query_starts, sinks) -> None:
        """One launch. Tensors may have changed since the first, but not their shapes."""
        tables = without_gaps(batch.block_tables)
        strides = (q.stride(0), q.stride(1), 0, 0, 0, 0)
        if k is not None:
            strides = (*strides[:2], k.stride(0), k.stride(1), v.stride(0), v.stride(1))
            slots = slots.contiguous()
        with torch.cuda.device_of(q):  # of several GPUs, the right one
            _step_kernel[self.grid](
                out, *self.scratch, q, k, v, cache.keys, cache.values, slots, tables,
                batch.context_lengths.contiguous(), query_starts, sinks, *self.numbers,
                tables.stride(0), *strides, *self.scales, **self.constants,
            )  # fmt: skip


def _prepared(out, q, k, v, cache, batch, masking) -> _Launch:
    """The launch for these shapes; the first time in a batch, all is checked."""
    tensors = (q, k, v, cache.keys, cache.values, masking.sinks)
    signature = tuple(
        t if t is None else (t.shape, t.stride(), t.dtype, t.device) for t in tensors
    )
    # What was put to zero outside of a graph is not put to zero when it is replayed.
    capturing = not INTERPRETED and torch.cuda.is_current_stream_capturing()
    key = "one launch", signature, masking[:3], capturing
    launch = batch.scratch.get(key)
    if launch is None:
        _check(out, q, k, v, cache, batch, masking)
        launch = batch.scratch[key] = _prepare(q, cache, batch, masking)
    return launch


def _check(out, q, k, v, cache, batch, masking) -> None:
    """Refuse what the kernel would get wrong."""
    keys, values, sinks = cache.keys, cache.values, masking.sinks
    where = batch.block_tables, batch.context_lengths, batch.query_starts
    window, softcap = masking.sliding_window, masking.softcap
    check_attention(out, q, keys, values, *where, window, softcap)
    if sinks is not None:
        check_fit(q=(q, "num_tokens num_heads key_dim"), sinks=(sinks, "num_heads"))
        check_contiguous(sinks=sinks)
    if k is None:
        return
    if not k.dtype == v.dtype == keys.dtype:
        raise ValueError(
            f"new K and V are {k.dtype} and {v.dtype}, the cache is {keys.dtype}; "
            "convert them first"
        )
    check_fit(
        q=(q, "num_sequences num_heads key_dim"),
        k=(k, "num_sequences num_kv_heads key_dim"),
        v=(v, "num_sequences num_kv_heads value_dim"),
        slots=(batch.slots, "num_sequences"),
        context_lengths=(batch.context_lengths, "num_sequences"),
        keys=(keys, "num_blocks block_size num_kv_heads key_dim"),
        values=(values, "num_blocks block_size num_kv_heads value_dim"),
    )
    check_integers(slots=batch.slots)
    check_range("slots", batch.slots, -1, keys.shape[0] * keys.shape[1] - 1)


def _prepare(q, cache, batch, masking) -> _Launch:
    """Sizes, and room for what programs tell each other."""
    num_heads, key_dim = q.shape[1:]
    _, block_size, num_kv_heads, value_dim = cache.values.shape
    num_seqs, group = len(batch.context_lengths), num_heads // num_kv_heads
    sizes, target, least = step_sizes(q, cache.values, num_seqs)
    num_pieces = target + num_seqs  # at most
    heads, padded_value_dim = padded(group, least=1), padded(value_dim)
    parts = (num_pieces, num_kv_heads, group)
    at_once = _MERGED_AT_ONCE * sizes.num_warps
    scratch = (
        q.new_empty((*parts, value_dim), dtype=torch.float32),
        q.new_empty(parts, dtype=torch.float32),
        q.new_zeros((num_seqs, num_kv_heads), dtype=torch.int32),
    )
    constants = {
        "WINDOW": masking.sliding_window,
        "BLOCK_SIZE": block_size,
        "NUM_KV_HEADS": num_kv_heads,
        "GROUP": group,
        "KEY_DIM": key_dim,
        "VALUE_DIM": value_dim,
        "ROWS": sizes.rows,
        "HEADS": heads,
        "PADDED_KEY_DIM": padded(key_dim),
        "PADDED_VALUE_DIM": padded_value_dim,
        "TILE": sizes.tile,
        "LEAST": least,
        "COUNTED_AT_ONCE": _COUNTED_AT_ONCE,
        "MERGED_AT_ONCE": max(1, at_once // (heads * padded_value_dim)),
        "num_warps": sizes.num_warps,
        "num_stages": sizes.num_stages,
    }
    scales = log2_scales(masking.scale, masking.softcap)
    grid = (num_pieces * num_kv_heads,)
    return _Launch(grid, scratch, (num_seqs, target), scales, constants)
