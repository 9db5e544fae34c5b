"""Lesson 2: gather the blocks, then ordinary attention (paper, equation 3)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from minipaged.attention.backend import AttentionBatch, Backend, Masking
from minipaged.memory.kv_cache import LayerCache


def attend_gathered(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> Tensor:
    """Causal attention of new tokens over their sequences' blocks, gathered first.

    Simple and exact, at the price of a second copy of every K and V that is read:
    lesson 5 streams over the blocks instead.

    Args:
        q: [T, num_heads, key_dim], the new tokens of all sequences one after another.
        cache: one layer's K and V; those of the new tokens are already written.
        batch: which blocks, and how many tokens, belong to which sequence.
        masking: scale, window, soft cap and sinks of this layer.

    Returns: [T, num_heads, value_dim]. Letters in the comments: S sequences of one
    rectangle, Q new tokens of each, C positions of each, KV heads, G query heads that
    share one of these, D numbers in a head.
    """
    num_heads, num_kv_heads = q.shape[1], cache.keys.shape[2]
    kind = num_heads, cache.keys.shape, cache.values.shape, q.dtype, cache.keys.dtype
    key = ("gathered", *kind, masking.sliding_window)
    if key not in batch.scratch:  # layers of one kind share the plan, and its memory
        batch.scratch[key] = _plan(q, cache, batch, masking.sliding_window)
    plan, row_of_token = batch.scratch[key]
    rows = []
    for rectangle, slots, mask, k_rows, v_rows in plan:
        k, v = _gather(cache.keys, slots, k_rows), _gather(cache.values, slots, v_rows)
        # Query heads that share a KV head are stacked like more queries: repeating K
        # and V for each of them would cost G times more.
        stacked = q[rectangle.tokens].unflatten(2, (num_kv_heads, -1))  # [S Q KV G D]
        stacked = stacked.permute(0, 2, 3, 1, 4).flatten(2, 3)  # [S, KV, G * Q, D]
        out = _attend(stacked, k, v, mask, masking)
        out = out.unflatten(2, (num_heads // num_kv_heads, -1)).permute(0, 3, 1, 2, 4)
        rows.append(out.flatten(0, 1).flatten(1, 2))  # [S * Q, num_heads, value_dim]
    return torch.cat(rows)[row_of_token]


gathered_attention = Backend(attend_gathered)


class Rectangle(NamedTuple):
    """Sequences with similarly many new tokens, padded to the longest of them.

    Letters: S sequences, Q new tokens of the one that has most.
    """

    sequences: Tensor  # [S]: their numbers in the batch, the longest context first
    tokens: Tensor  # [S, Q]: which token of the batch; padding repeats the last one
    positions: Tensor  # [S, Q]: where it stands in its sequence


def pad_to_rectangles(batch: AttentionBatch) -> tuple[list[Rectangle], Tensor]:
    """Put every sequence into a rectangle, and say where each token's result will be.

    A prompt of 500 tokens beside 31 single tokens would be mostly padding in one
    rectangle. So sequences are put together by their number of new tokens, rounded up
    to a power of two: at most half of a rectangle is padding.

    Returns the rectangles, and for each token [T] its row among those of all of them.
    """
    stops, lengths = batch.query_starts[1:], batch.query_starts.diff()
    power = torch.frexp((lengths - 1).double()).exponent  # least, lengths <= 2**power
    by_context = batch.context_lengths.argsort(descending=True)
    rectangles = []
    for each in power.unique():
        own = by_context[power[by_context] == each]
        offset = torch.arange(int(lengths[own].max()), device=own.device)
        tokens = (stops - lengths)[own, None] + offset.minimum(lengths[own, None] - 1)
        # A sequence's tokens are its last ones: they end where its context ends.
        positions = tokens + (batch.context_lengths - stops)[own, None]
        rectangles.append(Rectangle(own, tokens, positions))
    tokens, rows = torch.cat([r.tokens.flatten() for r in rectangles]).sort(stable=True)
    # Padding repeats a token. The sort is stable: the first of equals is the real one.
    first = torch.searchsorted(tokens, tokens.unique())
    return rectangles, rows[first]


def _plan(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, sliding_window: int | None
) -> tuple[list[tuple[Rectangle, Tensor, Tensor, Tensor, Tensor]], Tensor]:
    """How each rectangle is computed; and for each token the row of its result.

    For each: the slots [S, C] where its K and V lie, a mask [S, 1, G * Q, C] that is
    added to the logits, and memory to gather K and V into. C: positions of the longest
    context; G: query heads that share a KV head.
    """
    _, block_size, num_kv_heads, _ = cache.keys.shape
    plan, (rectangles, row_of_token) = [], pad_to_rectangles(batch)
    for rectangle in rectangles:
        contexts = batch.context_lengths[rectangle.sequences, None]
        position = torch.arange(int(contexts.max()), device=q.device)
        tables = batch.block_tables[rectangle.sequences]
        slots = tables[:, position // block_size] * block_size + position % block_size
        # Past a sequence's end lie slots that nobody wrote. They may hold NaN, which a
        # weight of 0 does not remove; and its table may say anything. So its first slot
        # is read in their place, and masked.
        slots = torch.where(position < contexts, slots, slots[:, :1])
        last_seen = rectangle.positions[:, :, None]
        visible = position <= last_seen  # [S, Q, C]
        if sliding_window is not None:
            visible &= position > last_seen - sliding_window
        mask = torch.where(visible, 0.0, float("-inf")).to(q.dtype)[:, None]
        mask = mask.repeat(1, 1, q.shape[1] // num_kv_heads, 1)
        both = cache.keys, cache.values
        memory = [each.new_empty(slots.numel(), *each.shape[2:]) for each in both]
        plan.append((rectangle, slots, mask, *memory))
    return plan, row_of_token


def _gather(blocks: Tensor, slots: Tensor, rows: Tensor) -> Tensor:
    torch.index_select(blocks.flatten(0, 1), 0, slots.flatten(), out=rows)
    return rows.unflatten(0, slots.shape).transpose(1, 2)  # [S, KV heads, C, dim]


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, masking: Masking) -> Tensor:
    """Ordinary attention: [S, KV heads, G * Q, value_dim]."""
    if masking.softcap is None and masking.sinks is None:
        return scaled_dot_product_attention(q, k, v, mask, scale=masking.scale)
    logits = q @ k.transpose(2, 3) * masking.scale
    if (cap := masking.softcap) is not None:
        logits = cap * torch.tanh(logits / cap)
    logits = logits + mask
    if masking.sinks is not None:  # in each row one logit more, of a value of zero
        sinks = masking.sinks.to(q.dtype).view(1, k.shape[1], -1, 1)
        sinks = sinks.repeat_interleave(q.shape[2] // sinks.shape[2], dim=2)
        logits = torch.cat([logits, sinks.expand(len(q), -1, -1, -1)], dim=-1)
    weights = logits.softmax(-1, torch.promote_types(q.dtype, torch.float32))
    return weights[..., : k.shape[2]].to(v.dtype) @ v
