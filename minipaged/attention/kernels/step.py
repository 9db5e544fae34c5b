"""Appendix D: the kernels of `one_launch`, from Python: checked once, launched often.

A layer's call costs the CPU microseconds, and a model has many layers. So a step's
first layer checks the shapes, and computes all that follows from them. From the second
launch on, Triton is not asked again which compiled kernel is meant.
"""

from collections.abc import Callable
from typing import Any

import torch

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.kernels.check import (
    check_attention,
    check_fit,
    check_integers,
    check_range,
    check_sinks,
    without_gaps,
)
from minipaged.attention.kernels.eight_bits import read_together, takes_words
from minipaged.attention.kernels.one_launch import step_kernel
from minipaged.attention.kernels.pieces import COLUMNS, merge_kernel, write_plan
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.sizes import (
    are_even,
    device_of,
    log2_scales,
    merge_sizes,
    padded,
    step_sizes,
)
from minipaged.memory.kv_cache import LayerCache

_MERGED_NUMBERS = 8  # at once, by each warp, for each position of a tile
_MERGED_BY_A_THREAD = 64  # at once, where K and V are read as words
_REGISTERS = 168  # of a thread: so a multiprocessor has 12 warps
_FEW_HEADS = 4  # of a KV head: results of pieces in the model's type were no quicker
_MOST_PIECES = 256  # of a sequence, that this kernel merges


def decode_step(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> torch.Tensor:
    """Write K and V of one new token for each sequence, and attend: one launch.

    There are two launches if few sequences may be cut into many pieces: see
    `step_sizes`. Before the first layer's launch, another kernel plans the step (see
    `pieces`). The plan lies in `batch.scratch`, for the next layers. To compute the
    batch again, with other lengths, tables and slots in the same tensors, clear
    `batch.scratch` as the step begins: `PagedModel.attending` does.

    A CUDA graph may hold all layers of a step, and is right for any lengths: the
    lengths at its capture only decide sizes. A row that only pads the batch has slot
    -1, so nothing is written, and context 0, so its result is zeros.

    The programs of a launch exchange pieces and tickets through `batch.scratch`, and
    the next layer uses the same tensors. That is safe, because the layers of a batch
    run one after another. Other batches, so other engines and streams, have other
    tensors; the tensors of a graph are made in its capture.

    Args:
        q: [S, num_heads, key_dim]; k: [S, num_kv_heads, key_dim]; v: the same with
            value_dim; of any strides.
        cache: one layer's K and V, contiguous; float32, float16 or bfloat16, as q, or
            in 8 bits with scales.
        batch: as RaggedBatch, with slots, and with one new token for each sequence.
        masking: scale, window, soft cap and sinks of this layer.

    Returns: [S, num_heads, value_dim]. Raises ValueError for tensors that the kernel
    cannot take, and says what can.
    """
    q, k, v = without_gaps(q), without_gaps(k), without_gaps(v)
    out = q.new_empty((q.shape[0], q.shape[1], v.shape[2]))
    _launch(out, q, k, v, cache, batch, masking, batch.slots)
    return out


def decode_written(
    out: torch.Tensor,
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> None:
    """Attention of every sequence that has one new token; the rest of `out` stays.

    This is lesson 6's `paged_decode`, with sinks. K and V are in the cache already, the
    new tokens' included.
    """
    _launch(out, without_gaps(q), None, None, cache, batch, masking)


def _launch(out, q, k, v, cache, batch, masking, slots=None) -> None:
    """Find the launch that was prepared for these shapes, or prepare it."""
    sinks, tables = masking.sinks, batch.block_tables
    # Tensors for a graph are made in its capture.
    capturing = not INTERPRETED and torch.cuda.is_current_stream_capturing()
    scales = cache.key_scale, cache.value_scale
    tensors = q, k, v, cache.keys, cache.values, sinks, *scales
    form = [
        (t.shape, t.stride(), t.dtype, t.get_device()) for t in tensors if t is not None
    ]
    # Tables and slots may have any shape. A compiled kernel takes any address of them.
    form += [(t.dtype, t.get_device()) for t in (tables, slots) if t is not None]
    num_seqs = batch.context_lengths.shape[0]
    form.append((num_seqs, k is None, sinks is None, masking[:3], capturing))
    launches = batch.scratch.setdefault("one launch", [])
    # A launch serves all layers, or all layers of a kind.
    launch = next((own for known, own in launches if known == form), None)
    with torch.cuda.device_of(q):  # of several GPUs, the right one
        if launch is None:  # the first layer of a step, or the first of a kind
            _check(out, q, k, v, slots, cache, batch, masking)
            launch = _Launch(q, k, v, cache, batch, masking)
            if q.shape[0]:
                launch.plan(k is not None, batch)
            launches.append((form, launch))
        if q.shape[0]:
            launch(out, q, k, v, cache, slots, tables, sinks)


class _Launch:
    """What the layers of a step that have the same shapes share."""

    def __init__(self, q, k, v, cache, batch, masking):
        """Sizes, and room for the plan and for what programs tell each other."""
        num_heads, key_dim = q.shape[1:]
        _, block_size, num_kv_heads, value_dim = cache.values.shape
        num_seqs, group = len(batch.context_lengths), num_heads // num_kv_heads
        window = masking.sliding_window or batch.max_context_length
        # Beside prompts, the shortest context says nothing about those that decode.
        shortest = batch.min_context_length if batch.max_query_length == 1 else 0
        lengths = min(shortest, window), window
        words, together = takes_words(q, cache), read_together(q, cache)
        in_eight_bits = words and cache.key_scale is not None
        sizes, target, apart, early, fill, exact = step_sizes(
            q, cache.values, num_seqs, *lengths, in_eight_bits, together
        )
        num_kv_heads, group = num_kv_heads // together, group * together
        # Programs without a piece would take places, too.
        rows = max(target, num_seqs) if exact else target + num_seqs
        parts, of_32_bits = (rows, num_kv_heads, group), {"dtype": torch.int32}
        # In 8 bits, there is half as much of K and V to read. With many query heads,
        # the results of pieces count beside it.
        as_short = in_eight_bits and group > _FEW_HEADS
        of_means = {"dtype": q.dtype if as_short else torch.float32}
        self._means = q.new_empty((*parts, value_dim), **of_means)
        self._logs = q.new_empty(parts, dtype=torch.float32)
        self._tickets = q.new_empty((num_seqs, num_kv_heads), **of_32_bits)
        self._plan = q.new_empty((rows, COLUMNS), **of_32_bits)
        self._own = self._means, self._logs, self._tickets, self._plan
        # If contexts become longer later, so do their pieces.
        most_pieces = padded(min(target, _MOST_PIECES, -(-window // sizes.tile)))
        most_pieces = most_pieces if apart else None
        self._how_to_cut = target, sizes.tile, masking.sliding_window, most_pieces, fill
        self._how_to_cut += in_eight_bits and not are_even(*lengths), in_eight_bits
        new = (0,) * 4 if k is None else (*k.stride()[:2], *v.stride()[:2])
        scales = log2_scales(masking.scale, masking.softcap)
        self._numbers = (*q.stride()[:2], *new, *scales)
        self._is_first = 1  # launch after the plan
        heads, padded_dim = padded(group, least=1), padded(value_dim * together)
        # With smaller tiles, more programs share a multiprocessor's registers.
        numbers = _MERGED_NUMBERS * sizes.tile * sizes.num_warps
        if words:
            numbers = _MERGED_BY_A_THREAD * 32 * sizes.num_warps
        overlap = device_of(q.device.index or 0).can_overlap
        rows_read = sizes.rows
        # With few query heads, K and V of words turn, if there is enough for all warps.
        if words and group <= 8 and padded_dim >= 32 * sizes.num_warps:
            rows_read = 8
        constants = {
            "COLUMNS": COLUMNS,
            "BLOCK_SIZE": block_size,
            "NUM_KV_HEADS": num_kv_heads,
            "GROUP": group,
            "KEY_DIM": key_dim * together,
            "VALUE_DIM": value_dim * together,
            "ROWS": rows_read,
            "HEADS": heads,
            "PADDED_KEY_DIM": padded(key_dim * together),
            "PADDED_VALUE_DIM": padded_dim,
            "TILE": sizes.tile,
            "MERGED_AT_ONCE": max(1, min(numbers // (heads * padded_dim), 16)),
            "APART": apart,
            "WAITS": overlap,
            "HANDS_OVER": early or (apart and overlap),
            "WORDS": words,
            "TOGETHER": together,
        }
        options = {"num_warps": sizes.num_warps, "num_stages": sizes.num_stages}
        if sizes.registers:
            options["maxnreg"] = sizes.registers
        elif words and not in_eight_bits and max(key_dim, value_dim) <= 128:
            options["maxnreg"] = _REGISTERS
        if overlap:
            options["launch_pdl"] = True
            small = sizes.rows * sizes.tile <= 16 * 32 and q.element_size() == 2
            if small and sizes.num_warps == 4 and not words:
                options["maxnreg"] = _REGISTERS
        grid = rows * num_kv_heads, 1, 1
        self._read = _Kernel(step_kernel, grid, constants, options)
        self._merge: _Kernel | None = None
        if apart:
            names = "COLUMNS", "NUM_KV_HEADS", "GROUP"
            constants = {name: constants[name] for name in names}
            constants["VALUE_DIM"] = value_dim
            columns, at_once = merge_sizes(q, cache.values, num_seqs, *lengths)
            constants["NUMBERS"] = columns
            constants["PIECES"] = min(most_pieces, at_once)
            constants |= {"WAITS": overlap, "HANDS_OVER": early}
            grid = num_heads, num_seqs, -(-value_dim // columns)
            options = {"num_warps": 2, "launch_pdl": overlap}
            self._merge = _Kernel(merge_kernel, grid, constants, options)

    def plan(self, all_decode: bool, batch: AttentionBatch) -> None:
        """Say what each program reads: once a step, because a step has its lengths."""
        starts = None if all_decode else batch.query_starts.contiguous()
        contexts = batch.context_lengths.contiguous()
        write_plan(self._plan, self._tickets, contexts, starts, *self._how_to_cut)

    def __call__(self, out, q, k, v, cache, slots, tables, sinks) -> None:
        """Launch a layer's kernel, and the kernel that merges, if there is one."""
        tables = without_gaps(tables)
        if slots is not None:
            slots = slots.contiguous()
        tensors = out, *self._own, q, k, v, cache.keys, cache.values, slots
        tensors += tables, sinks, cache.key_scale, cache.value_scale
        self._read(tensors, tables.stride(0), *self._numbers, self._is_first)
        self._is_first = 0
        if self._merge is not None:
            self._merge((out, self._means, self._logs, self._plan))


class _Kernel:
    """A kernel with its sizes. Triton is asked once which compiled kernel it is."""

    def __init__(self, kernel, grid, constants, options):
        self._launch, self._grid, self._constants = kernel[grid], grid, constants
        self._options, self._sizes = options, tuple(constants.values())
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, tensors, *numbers) -> None:
        """Launch it; a missing tensor is None."""
        places = [None if t is None else t.data_ptr() for t in tensors]
        together = 0
        for place in places:
            together |= place or 0
        aligned = together % 16 == 0  # for other addresses, Triton compiles anew
        if aligned and self._compiled is not None:
            # Addresses, for Triton would ask the driver where each tensor lies.
            self._compiled(*places, *numbers, *self._sizes)
            return
        compiled = self._launch(*tensors, *numbers, **self._constants, **self._options)
        if aligned and compiled is not None:  # None: interpreted
            self._compiled = compiled[self._grid]


def _check(out, q, k, v, slots, cache, batch, masking) -> None:
    """Refuse what the kernel would get wrong."""
    keys, values, sinks = cache.keys, cache.values, masking.sinks
    where = batch.block_tables, batch.context_lengths, batch.query_starts
    window, softcap = masking.sliding_window, masking.softcap
    scales = cache.key_scale, cache.value_scale
    check_attention(out, q, keys, values, *where, window, softcap, *scales)
    check_sinks(q, sinks)
    if k is None:
        return
    if not k.dtype == v.dtype == q.dtype:
        raise ValueError(
            f"new K and V are {k.dtype} and {v.dtype}, the queries {q.dtype}; "
            "convert them first"
        )
    check_fit(
        q=(q, "num_sequences num_heads key_dim"),
        k=(k, "num_sequences num_kv_heads key_dim"),
        v=(v, "num_sequences num_kv_heads value_dim"),
        slots=(slots, "num_sequences"),
        context_lengths=(batch.context_lengths, "num_sequences"),
        keys=(keys, "num_blocks block_size num_kv_heads key_dim"),
        values=(values, "num_blocks block_size num_kv_heads value_dim"),
    )
    check_integers(slots=slots)
    check_range("slots", slots, -1, keys.shape[0] * keys.shape[1] - 1)
