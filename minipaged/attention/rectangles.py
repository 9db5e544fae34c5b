"""Lesson 2: gathered attention of many sequences together, for speed (the border)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from minipaged.attention.backend import AttentionBatch, Backend, Masking
from minipaged.attention.capped import capped_attention
from minipaged.memory.kv_cache import LayerCache


def attend_in_rectangles(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> Tensor:
    """What `attend_gathered` computes, with a few calls for all sequences.

    Args and result: those of `attend_gathered`. Letters in the comments: S sequences of
    a rectangle, Q new tokens of each, P positions of each, KV heads, G query heads that
    share a KV head, D numbers in a head.
    """
    kind = q.shape, cache.keys.shape, cache.values.shape, q.dtype, cache.keys.dtype
    key = ("gathered", *kind, masking.sliding_window)
    if key not in batch.scratch:  # prepared once for all layers of a kind
        batch.scratch[key] = _prepare(q, cache, batch, masking.sliding_window)
    readings, row_of_token = batch.scratch[key]
    rows = []
    for tokens, slots, mask, k_out, v_out in readings:
        k, v = _gather(cache.keys, slots, k_out), _gather(cache.values, slots, v_out)
        rows.append(_plain_attention(q, tokens, k, v, mask, masking))
    return torch.cat(rows)[row_of_token]


# What `PagedModel(..., attention="gathered")` uses.
gathered_attention = Backend(attend_in_rectangles)


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
    """How a rectangle is computed. Letters as in `attend_in_rectangles`."""

    tokens: Tensor  # [S, Q], its queries
    slots: Tensor  # [S, P], where the K and V of its sequences lie
    mask: Tensor  # [S, 1, Q * G, P], added to the logits: 0, or -inf to hide a position
    k_out: Tensor  # [S * P, KV heads, key_dim], memory for the gathered K
    v_out: Tensor  # [S * P, KV heads, value_dim], for V


def _prepare(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, sliding_window: int | None
) -> tuple[list[Reading], Tensor]:
    """What to read for each rectangle; and for each token the row of its result."""
    _, block_size, num_kv_heads, _ = cache.keys.shape
    rectangles, row_of_token = pad_to_rectangles(batch, by_context=True)
    readings = []
    for sequences, tokens, query_positions in rectangles:
        contexts = batch.context_lengths[sequences, None]
        position = torch.arange(int(contexts.max()), device=q.device)
        tables = batch.block_tables[sequences]
        slots = tables[:, position // block_size] * block_size + position % block_size
        # Slots after a sequence's end may hold NaN, which a weight of 0 does not
        # remove. So its first slot is read in their place, and masked.
        slots = torch.where(position < contexts, slots, slots[:, :1])
        visible = position <= query_positions[:, :, None]  # [S, Q, P]
        if sliding_window is not None:
            visible &= position > query_positions[:, :, None] - sliding_window
        mask = torch.where(visible, 0.0, float("-inf")).to(q.dtype)
        mask = mask.repeat_interleave(q.shape[1] // num_kv_heads, dim=1)[:, None]
        outs = (
            blocks.new_empty(slots.numel(), *blocks.shape[2:])
            for blocks in (cache.keys, cache.values)
        )
        readings.append(Reading(tokens, slots, mask, *outs))
    return readings, row_of_token


def _gather(blocks: Tensor, slots: Tensor, out: Tensor) -> Tensor:
    """The K or V in these slots, copied into `out`."""
    torch.index_select(blocks.flatten(0, 1), 0, slots.flatten(), out=out)
    return out.unflatten(0, slots.shape).transpose(1, 2)  # [S, KV heads, P, dim]


def _plain_attention(
    q: Tensor, tokens: Tensor, k: Tensor, v: Tensor, mask: Tensor, masking: Masking
) -> Tensor:
    """Attention of a rectangle over its gathered K and V: a row for each token."""
    # Query heads that share a KV head are stacked like more queries, [S, KV, Q * G, D]:
    # to repeat K and V for each head would cost G times more.
    stacked = q[tokens].unflatten(2, (k.shape[1], -1)).transpose(1, 2).flatten(2, 3)
    if masking.softcap is None and masking.sinks is None:
        out = scaled_dot_product_attention(stacked, k, v, mask, scale=masking.scale)
    else:  # a few models
        out = capped_attention(stacked, k, v, mask, masking)
    out = out.unflatten(2, (tokens.shape[1], -1)).transpose(1, 2)
    return out.flatten(2, 3).flatten(0, 1)  # [S * Q, num_heads, D]
