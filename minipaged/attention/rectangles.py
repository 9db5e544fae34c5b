"""Lesson 2: gathered attention of many sequences together, for speed (the border)."""

import sys
from collections.abc import Iterator
from typing import NamedTuple

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
    readings, row_of_token, k_out, v_out = batch.scratch[key]
    rows = []
    for tokens, slots, mask in readings:
        k = _gather(cache.keys, slots, len(tokens), k_out)
        v = _gather(cache.values, slots, len(tokens), v_out)
        k = from_eight_bits(k, cache.key_scale, q.dtype)
        v = from_eight_bits(v, cache.value_scale, q.dtype)
        rows.append(_plain_attention(q, tokens, k, v, mask, masking))
    return torch.cat(rows)[row_of_token] if len(batch.context_lengths) > 1 else rows[0]


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


def pad_to_rectangles(
    batch: AttentionBatch, by_context: bool = False
) -> tuple[list[Rectangle], Tensor]:
    """Put every sequence into a rectangle, and say where each token's result will be.

    A prompt of 500 tokens beside 31 single tokens would be mostly padding. So in a
    rectangle, the numbers of new tokens round up to the same power of two. With
    `by_context`, so do the lengths of contexts, from 256 on.

    Returns the rectangles, and for each token [T] its row among their results.
    """
    stops = batch.query_starts[1:]
    if len(stops) == 1:  # nothing to sort
        tokens = torch.arange(int(stops), device=stops.device)
        positions = tokens + (batch.context_lengths - stops)
        alone = Rectangle(stops.new_zeros(1), tokens[None], positions[None])
        return [alone], tokens
    num_new = batch.query_starts.diff()
    # The smallest exponents with number <= 2**exponent.
    new, context = (
        torch.frexp((number - 1).double()).exponent
        for number in (num_new, batch.context_lengths.clamp(min=256))
    )
    kinds = 64 * new + context * by_context
    order = batch.context_lengths.argsort(descending=True)
    rectangles = []
    for kind in kinds.unique():
        sequences = order[kinds[order] == kind]
        count = num_new[sequences, None]
        stop = stops[sequences, None]
        column = torch.arange(int(count.max()), device=count.device)
        tokens = stop - count + column.minimum(count - 1)
        # A sequence's new tokens end where its context ends.
        positions = tokens - stop + batch.context_lengths[sequences, None]
        rectangles.append(Rectangle(sequences, tokens, positions))
    # The rectangles hold all tokens in another order, and padding after the token that
    # it repeats. So after a stable sort, the first row of each token is no padding.
    tokens = torch.cat([rectangle.tokens.flatten() for rectangle in rectangles])
    tokens, rows = tokens.sort(stable=True)
    return rectangles, rows[torch.searchsorted(tokens, tokens.unique())]


class Reading(NamedTuple):
    """What is read at once: a rectangle, or some of its sequences. Letters as above."""

    tokens: Tensor  # [S, Q], its queries
    slots: Tensor | slice  # [S * P], where its K and V lie; a slice: one after another
    mask: Tensor | None  # [S, 1, Q * G, P], added to the logits: 0, or -inf to hide


def _prepare(
    q: Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    sliding_window: int | None,
    bytes_together: int,
) -> tuple[list[Reading], Tensor, Tensor, Tensor]:
    """What to read, part after part; for each token the row of its result.

    And memory for the gathered K and V of any part: [most S * P, KV heads, dim].
    """
    bytes_of_position = cache.keys[0, 0].nbytes + cache.values[0, 0].nbytes
    _, block_size, num_kv_heads, _ = cache.keys.shape
    group_size = q.shape[1] // num_kv_heads
    rectangles, row_of_token = pad_to_rectangles(batch, by_context=True)
    readings = []
    for part in _parts(rectangles, batch, bytes_together // bytes_of_position):
        contexts = batch.context_lengths[part.sequences]
        tables = batch.block_tables[part.sequences]
        slots = _slots(tables, contexts, block_size)
        mask = _mask(part, contexts, sliding_window, group_size, q.dtype)
        readings.append(Reading(part.tokens, slots, mask))
    copied = (one.slots.numel() for one in readings if isinstance(one.slots, Tensor))
    most = max(copied, default=0)
    outs = (x.new_empty(most, *x.shape[2:]) for x in (cache.keys, cache.values))
    return readings, row_of_token, *outs


def _parts(
    rectangles: list[Rectangle], batch: AttentionBatch, max_positions: int
) -> Iterator[Rectangle]:
    """The rectangles, cut so that each has at most so many positions, or one row."""
    for rectangle in rectangles:
        contexts = batch.context_lengths[rectangle.sequences].tolist()
        start = 0
        while start < len(contexts):
            stop = start + max(1, max_positions // max(1, contexts[start]))
            yield Rectangle(*(tensor[start:stop] for tensor in rectangle))
            start = stop


def _slots(tables: Tensor, contexts: Tensor, block_size: int) -> Tensor | slice:
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
    position = torch.arange(longest, device=tables.device)
    slots = tables[:, position // block_size] * block_size + position % block_size
    # Slots after a sequence's end may hold NaN, which a weight of 0 does not remove.
    # So its first slot is read in their place, and masked.
    return torch.where(position < contexts[:, None], slots, slots[:, :1]).flatten()


def _mask(
    rectangle: Rectangle,
    contexts: Tensor,
    sliding_window: int | None,
    group_size: int,
    dtype: torch.dtype,
) -> Tensor | None:
    """What hides positions: [S, 1, Q * G, P]; None if the only token sees all."""
    longest = int(contexts[0])
    if rectangle.tokens.numel() == 1 and longest <= (sliding_window or longest):
        return None
    position = torch.arange(longest, device=contexts.device)
    own = rectangle.positions[:, :, None]
    visible = position <= own  # [S, Q, P]
    if sliding_window is not None:
        visible &= position > own - sliding_window
    mask = torch.where(visible, 0.0, float("-inf")).to(dtype)
    return mask.repeat_interleave(group_size, dim=1)[:, None]


def _gather(
    blocks: Tensor, slots: Tensor | slice, num_sequences: int, out: Tensor
) -> Tensor:
    """The K or V in these slots, [S, KV heads, P, dim], a view or copied into `out`."""
    rows = blocks.flatten(0, 1)
    if isinstance(slots, slice):
        rows = rows[slots]
    else:
        rows = torch.index_select(rows, 0, slots, out=out[: len(slots)])
    return rows.view(num_sequences, -1, *rows.shape[1:]).transpose(1, 2)


def _plain_attention(
    q: Tensor,
    tokens: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    masking: Masking,
) -> Tensor:
    """Attention of a rectangle over its gathered K and V: a row for each token."""
    # Query heads that share a KV head are stacked like more queries, [S, KV, Q * G, D]:
    # to repeat K and V for each head would cost G times more.
    (num_sequences, num_new), num_kv_heads = tokens.shape, k.shape[1]
    heads = num_sequences, num_new, num_kv_heads, -1
    stacked = q[tokens].view(*heads, q.shape[2]).transpose(1, 2).flatten(2, 3)
    if masking.softcap is None and masking.sinks is None:
        out = scaled_dot_product_attention(stacked, k, v, mask, scale=masking.scale)
    else:  # a few models
        out = capped_attention(stacked, k, v, mask, masking)
    # [S * Q, num_heads, D]
    out = out.view(num_sequences, num_kv_heads, num_new, -1, v.shape[3])
    return out.transpose(1, 2).reshape(-1, q.shape[1], v.shape[3])
