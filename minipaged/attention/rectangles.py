"""Lesson 2: gathered attention of many sequences together, for speed (the border)."""

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from minipaged.attention.backend import AttentionBatch, Backend, Masking
from minipaged.attention.capped import capped_attention
from minipaged.memory.eight_bits import EightBitKVCache, from_eight_bits
from minipaged.memory.kv_cache import LayerCache


def attend_in_rectangles(
    q: Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    bytes_together: int = sys.maxsize,
) -> Tensor:
    """What `attend_gathered` computes, with a few calls for all sequences.

    Args and result: those of `attend_gathered`; bytes_together: of the K and V that are
    gathered before the first of them is used, if one sequence does not have more.
    Letters in the comments: S sequences of a rectangle, Q new tokens of each, P
    positions of each, KV heads, G query heads that share a KV head, D numbers in a
    head.
    """
    dtypes = q.dtype, cache.keys.dtype, cache.values.dtype
    kind = q.shape, cache.keys.shape, cache.values.shape, *dtypes
    key = ("gathered", *kind, masking.sliding_window, bytes_together)
    if key not in batch.scratch:  # prepared once for all layers of a kind
        batch.scratch[key] = _prepare(
            q, cache, batch, masking.sliding_window, bytes_together
        )
    readings, order, row_of_token, k_out, v_out = batch.scratch[key]
    if order is not None:
        q = q.index_select(0, order)
    rows = []
    for reading in readings:
        k = _gather(cache.keys, reading, k_out)
        v = _gather(cache.values, reading, v_out)
        k = from_eight_bits(k, cache.key_scale, q.dtype)
        v = from_eight_bits(v, cache.value_scale, q.dtype)
        rows.append(_plain_attention(q[reading.rows], reading, k, v, masking))
    if order is None:
        return rows[0]
    return torch.cat(rows).index_select(0, row_of_token)


# All sequences at once, as lesson 5 takes it apart.
gathered_attention = Backend(attend_in_rectangles, in_eight_bits=EightBitKVCache)


def attend_in_turns(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> Tensor:
    """As `attend_in_rectangles`; on a CPU, two MiB of K and V a thread at a time.

    A processor's own cache, often of one or two MiB, still holds what was gathered when
    attention reads it. A GPU would wait for many small launches.
    """
    is_cpu = q.device.type == "cpu"
    together = 2**21 * torch.get_num_threads() if is_cpu else sys.maxsize
    return attend_in_rectangles(q, cache, batch, masking, together)


# What `PagedModel(..., attention="gathered")` uses.
gathered_in_turns = Backend(attend_in_turns, in_eight_bits=EightBitKVCache)


class Rectangle(NamedTuple):
    """S sequences with similarly many new tokens, padded to the most, Q."""

    sequences: Tensor  # [S]: numbers in the batch, longest context first (lesson 5)
    tokens: Tensor  # [S, Q]: numbers in the batch; padding repeats the last token
    positions: Tensor  # [S, Q]: each token's position in its sequence


def pad_to_rectangles(batch: AttentionBatch) -> tuple[list[Rectangle], Tensor]:
    """Put every sequence into a rectangle, and say where each token's result will be.

    A prompt of 500 tokens beside 31 single tokens would be mostly padding. So in a
    rectangle, the numbers of new tokens round up to the same power of two.

    Returns the rectangles, and for each token [T] its row among their results.
    """
    device = batch.context_lengths.device
    # By numpy, because a call of torch takes several times as long.
    contexts = batch.context_lengths.cpu().numpy()
    order = np.argsort(-contexts)
    if batch.max_query_length == 1:  # one rectangle, and no padding
        arrays = order, order[:, None], contexts[order, None] - 1
        rectangle = Rectangle(*(torch.from_numpy(x).to(device) for x in arrays))
        return [rectangle], torch.from_numpy(np.argsort(order)).to(device)
    starts = batch.query_starts.cpu().numpy()
    stops = starts[1:]
    num_new = np.diff(starts)
    _, exponents = np.frexp(num_new - 1)  # the smallest with number <= 2**exponent
    rectangles = []
    for exponent in set(exponents.tolist()):
        sequences = order[exponents[order] == exponent]
        count = num_new[sequences, None]
        stop = stops[sequences, None]
        tokens = stop - count + np.minimum(np.arange(count.max()), count - 1)
        # A sequence's new tokens end where its context ends.
        positions = tokens - stop + contexts[sequences, None]
        arrays = sequences, tokens, positions
        rectangles.append(Rectangle(*(torch.from_numpy(x).to(device) for x in arrays)))
    # The rectangles hold all tokens in another order, and padding after the token that
    # it repeats. So the first row of each token is no padding.
    tokens = torch.cat([rectangle.tokens.flatten() for rectangle in rectangles])
    _, row_of_token = np.unique(tokens.cpu().numpy(), return_index=True)
    return rectangles, torch.from_numpy(row_of_token).to(device)


class Reading(NamedTuple):
    """What is read at once: some sequences of a rectangle. Letters as above."""

    size: tuple[int, int]  # S, Q
    rows: slice  # its queries: [S * Q], of those of all rectangles
    slots: Tensor | slice  # [S * P], where its K and V lie; a slice: one after another
    # [S, 1, Q * G, P], added to the logits: 0, or -inf to hide. Or [S, 1, 1, P].
    mask: Tensor | None


def _prepare(
    q: Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    sliding_window: int | None,
    bytes_together: int,
) -> tuple[list[Reading], Tensor | None, Tensor | None, Tensor, Tensor]:
    """What to read, part after part; the token of each row; the row of each token.

    The last two are None for a sequence alone. And memory for the gathered K and V of
    any part: [most S * P, KV heads, dim].
    """
    _, block_size, num_kv_heads, _ = cache.keys.shape
    group_size = q.shape[1] // num_kv_heads
    tables = batch.block_tables.cpu().numpy()
    contexts = batch.context_lengths.cpu().numpy()

    def reading(order: Any, positions: Tensor, rows: slice) -> Reading:
        longest = int(contexts[order][0])
        slots = _slots(tables[order], contexts[order], block_size, q.device)
        mask = _mask(positions, longest, sliding_window, group_size, q.dtype)
        return Reading(positions.shape, rows, slots, mask)

    if len(contexts) == 1:
        context = int(contexts[0])
        positions = torch.arange(context - len(q), context, device=q.device)[None]
        readings = [reading(slice(None), positions, slice(None))]
        order = row_of_token = None
    else:
        bytes_of_position = cache.keys[0, 0].nbytes + cache.values[0, 0].nbytes
        rectangles, row_of_token = pad_to_rectangles(batch)
        readings = []
        stop = 0
        for rectangle in rectangles:
            order = rectangle.sequences.cpu().numpy()
            lengths = contexts[order].tolist()
            for part in _parts(lengths, bytes_together // bytes_of_position):
                positions = rectangle.positions[part]
                start, stop = stop, stop + positions.numel()
                readings.append(reading(order[part], positions, slice(start, stop)))
        order = torch.cat([rectangle.tokens.flatten() for rectangle in rectangles])
    copied = (one.slots.numel() for one in readings if isinstance(one.slots, Tensor))
    most = max(copied, default=0)
    outs = (x.new_empty(most, *x.shape[2:]) for x in (cache.keys, cache.values))
    return readings, order, row_of_token, *outs


def _parts(contexts: list[int], max_positions: int) -> Iterator[slice]:
    """Which sequences are read at once: of so many positions at most, or one alone.

    contexts: the longest first; the others of its part are padded to it. A part has
    less padding than tokens. And less than an eighth of `max_positions`: more would
    cost more than the calls for another part.
    """
    start = tokens = padding = 0
    for index, context in enumerate(contexts):
        longest = contexts[start]
        tokens += context
        padding += longest - context
        if index > start and (
            tokens + padding > max_positions
            or padding > min(tokens, max_positions // 8)
        ):
            yield slice(start, index)
            start, tokens, padding = index, context, 0
    yield slice(start, len(contexts))


def _slots(
    tables: np.ndarray, contexts: np.ndarray, block_size: int, device: torch.device
) -> Tensor | slice:
    """Where each sequence's K and V lie: [S * P]. contexts: [S], the longest first.

    A slice if it is one sequence whose blocks follow each other, as they do in a pool
    of which little was given back.
    """
    longest = int(contexts[0])
    tables = tables[:, : -(-longest // block_size)]
    if len(tables) == 1 and longest:  # a graph's row that is left over has none
        first, *others = tables[0].tolist()
        if others == list(range(first + 1, first + 1 + len(others))):
            return slice(first * block_size, first * block_size + longest)
    slots = tables[:, :, None] * block_size + np.arange(block_size)
    slots = torch.from_numpy(slots.reshape(len(tables), -1)[:, :longest])
    # Slots after a sequence's end may hold NaN, which a weight of 0 does not remove.
    # So its first slot is read in their place, and masked.
    is_written = torch.from_numpy(np.arange(longest) < contexts[:, None])
    return torch.where(is_written, slots, slots[:, :1]).flatten().to(device)


def _mask(
    positions: Tensor,
    longest: int,
    sliding_window: int | None,
    group_size: int,
    dtype: torch.dtype,
) -> Tensor | None:
    """What hides positions: see Reading; None if the only token sees all.

    positions: [S, Q], of the queries; longest: P.
    """
    if positions.numel() == 1 and longest <= (sliding_window or longest):
        return None
    position = torch.arange(longest, device=positions.device)
    own = positions[:, :, None]
    visible = position <= own  # [S, Q, P]
    if sliding_window is not None:
        visible &= position > own - sliding_window
    mask = torch.where(visible, 0.0, float("-inf")).to(dtype)
    num_new = positions.shape[1]
    if num_new > 1:  # else the same for all query heads
        mask = mask[:, :, None].expand(-1, -1, group_size, -1)
        num_new *= group_size
    return mask.reshape(len(mask), 1, num_new, longest)


def _gather(blocks: Tensor, reading: Reading, out: Tensor) -> Tensor:
    """The K or V of a reading, [S, KV heads, P, dim], a view or copied into `out`."""
    rows = blocks.flatten(0, 1)
    if isinstance(reading.slots, slice):
        return rows[None, reading.slots].transpose(1, 2)
    out = out[: len(reading.slots)]
    rows = torch.index_select(rows, 0, reading.slots, out=out)
    return rows.view(reading.size[0], -1, *rows.shape[1:]).transpose(1, 2)


def _plain_attention(
    q: Tensor, reading: Reading, k: Tensor, v: Tensor, masking: Masking
) -> Tensor:
    """Attention of a reading's queries over its gathered K and V: a row for each."""
    # Query heads that share a KV head are stacked like more queries, [S, KV, Q * G, D]:
    # to repeat K and V for each head would cost G times more.
    (num_sequences, num_new), num_kv_heads = reading.size, k.shape[1]
    num_heads, dim = q.shape[1:]
    if num_new == 1:
        stacked = q.reshape(num_sequences, num_kv_heads, -1, dim)
    else:
        stacked = q.reshape(num_sequences, num_new, num_kv_heads, -1, dim)
        stacked = stacked.transpose(1, 2).flatten(2, 3)
    mask = reading.mask
    if masking.softcap is None and masking.sinks is None:
        out = scaled_dot_product_attention(stacked, k, v, mask, scale=masking.scale)
    else:  # a few models
        out = capped_attention(stacked, k, v, mask, masking)
    if num_new > 1:
        out = out.view(num_sequences, num_kv_heads, num_new, -1, v.shape[3])
        out = out.transpose(1, 2)
    return out.reshape(-1, num_heads, v.shape[3])  # [S * Q, num_heads, D]
