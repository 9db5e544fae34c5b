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

    Args and result: as of `attend_gathered`. Letters in the comments: S sequences of
    one rectangle, Q new tokens of each, P positions of each, KV heads, G query heads
    that share one of these, D numbers in a head.
    """
    kind = q.shape, cache.keys.shape, cache.values.shape, q.dtype, cache.keys.dtype
    key = ("gathered", *kind, masking.sliding_window)
    if key not in batch.scratch:  # once for all layers of a kind
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
    """S sequences with similarly many new tokens, padded to Q, the most."""

    sequences: Tensor  # [S]: numbers in the batch, longest context first (lesson 5)
    tokens: Tensor  # [S, Q]: which token of the batch; padding repeats the last one
    positions: Tensor  # [S, Q]: where it stands in its sequence


def pad_to_rectangles(
    batch: AttentionBatch, by_context: bool = False
) -> tuple[list[Rectangle], Tensor]:
    """Put every sequence into a rectangle, and say where each token's result will be.

    500 tokens beside 31 single ones would be mostly padding. So in one rectangle new
    tokens round up to one power of two; `by_context`, contexts from 256 on, too.

    Returns the rectangles, and for each token [T] its row among those of all of them.
    """
    stops, num_new = batch.query_starts[1:], batch.query_starts.diff()
    # number <= 2**exponent
    new, context = (
        torch.frexp((number - 1).double()).exponent
        for number in (num_new, batch.context_lengths.clamp(min=256))
    )
    kinds = 64 * new + context * by_context
    order = batch.context_lengths.argsort(descending=True)
    rectangles = []
    for kind in kinds.unique():
        sequences = order[kinds[order] == kind]
        count, stop = num_new[sequences, None], stops[sequences, None]
        column = torch.arange(int(count.max()), device=count.device)
        tokens = stop - count + column.minimum(count - 1)
        # A sequence's new tokens end where its context ends.
        positions = tokens - stop + batch.context_lengths[sequences, None]
        rectangles.append(Rectangle(sequences, tokens, positions))
    # The rectangles hold all tokens in another order, and padding behind the token
    # that it repeats. Sorted stably, the first row of each token is the real one.
    tokens, rows = torch.cat([r.tokens.flatten() for r in rectangles]).sort(stable=True)
    return rectangles, rows[torch.searchsorted(tokens, tokens.unique())]


class Reading(NamedTuple):
    """How one rectangle is computed. Letters as in `attend_in_rectangles`."""

    tokens: Tensor  # [S, Q], its queries
    slots: Tensor  # [S, P], where K and V of its sequences' positions lie
    mask: Tensor  # [S, 1, Q * G, P], added: 0, and -inf for what is not seen
    k_out: Tensor  # [S * P, KV heads, key_dim], for K
    v_out: Tensor  # [S * P, KV heads, value_dim]


def _prepare(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, sliding_window: int | None
) -> tuple[list[Reading], Tensor]:
    """What to read for each rectangle; and for each token the row of its result."""
    _, block_size, num_kv_heads, _ = cache.keys.shape
    readings, (rectangles, row_of_token) = [], pad_to_rectangles(batch, by_context=True)
    for sequences, tokens, query_positions in rectangles:
        contexts = batch.context_lengths[sequences, None]
        position = torch.arange(int(contexts.max()), device=q.device)
        tables = batch.block_tables[sequences]
        slots = tables[:, position // block_size] * block_size + position % block_size
        # Slots past a sequence's end may hold NaN, which a weight of 0 does not remove.
        # So its first slot is read in their place, and masked.
        slots = torch.where(position < contexts, slots, slots[:, :1])
        visible = position <= query_positions[:, :, None]  # [S, Q, P]
        if sliding_window is not None:
            visible &= position > query_positions[:, :, None] - sliding_window
        mask = torch.where(visible, 0.0, float("-inf")).to(q.dtype)
        mask = mask.repeat_interleave(q.shape[1] // num_kv_heads, dim=1)[:, None]
        outs = (
            each.new_empty(slots.numel(), *each.shape[2:])
            for each in (cache.keys, cache.values)
        )
        readings.append(Reading(tokens, slots, mask, *outs))
    return readings, row_of_token


def _gather(blocks: Tensor, slots: Tensor, out: Tensor) -> Tensor:
    """What lies in these slots, end to end."""
    torch.index_select(blocks.flatten(0, 1), 0, slots.flatten(), out=out)
    return out.unflatten(0, slots.shape).transpose(1, 2)  # [S, KV heads, P, dim]


def _plain_attention(
    q: Tensor, tokens: Tensor, k: Tensor, v: Tensor, mask: Tensor, masking: Masking
) -> Tensor:
    """Attention of a rectangle, once gathered: a row for each token."""
    # Query heads that share a KV head are stacked like more queries, [S, KV, Q * G, D]:
    # repeating K and V would cost G times more.
    stacked = q[tokens].unflatten(2, (k.shape[1], -1)).transpose(1, 2).flatten(2, 3)
    if masking.softcap is None and masking.sinks is None:
        out = scaled_dot_product_attention(stacked, k, v, mask, scale=masking.scale)
    else:  # some models
        out = capped_attention(stacked, k, v, mask, masking)
    out = out.unflatten(2, (tokens.shape[1], -1)).transpose(1, 2)
    return out.flatten(2, 3).flatten(0, 1)  # [S * Q, num_heads, D]
