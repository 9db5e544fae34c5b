"""Lesson 2: gather the blocks, then ordinary attention (paper, equation 3)."""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.capped import capped_attention
from minipaged.memory.kv_cache import LayerCache


def attend_gathered(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> Tensor:
    """Causal attention of new tokens over their sequences' blocks, gathered first.

    Simple and exact, a sequence at a time. `attention="gathered"` runs `rectangles.py`,
    which computes the same for many sequences together. Both first copy all K and V;
    lesson 5 does not.

    Args:
        q: [T, num_heads, key_dim], the new tokens of all sequences.
        cache: one layer's K and V, the new tokens' included.
        batch: which blocks belong to which sequence.
        masking: the layer's scale, window, soft cap and sinks.

    Returns: [T, num_heads, value_dim]. Letters in the comments: Q new tokens of a
    sequence, P positions of its context, H query heads, D numbers in a head.
    """
    _, block_size, num_kv_heads, _ = cache.keys.shape
    group_size = q.shape[1] // num_kv_heads  # query heads that share a KV head
    contexts = batch.context_lengths.tolist()
    spans = pairwise(batch.query_starts.tolist())  # of each sequence's new tokens
    rows = []
    for table, context, (start, stop) in zip(
        batch.block_tables, contexts, spans, strict=True
    ):
        # Gather: the slots of all positions, in order, then the K and V in them.
        position = torch.arange(context, device=q.device)  # [P]
        slots = table[position // block_size] * block_size + position % block_size
        k, v = (x.flatten(0, 1)[slots] for x in (cache.keys, cache.values))
        k, v = (x.repeat_interleave(group_size, dim=1) for x in (k, v))  # [P, H, D]
        # The new tokens end the context. Each sees all positions up to its own.
        new = position[context - (stop - start) :, None]  # [Q, 1]
        visible = position <= new  # [Q, P]
        if masking.sliding_window is not None:
            visible &= position > new - masking.sliding_window
        mask = torch.where(visible, 0.0, float("-inf")).to(q.dtype)
        # Ordinary attention, which wants the heads in front: [1, H, Q or P, D].
        new_q, k, v = (x.transpose(0, 1)[None] for x in (q[start:stop], k, v))
        if masking.softcap is None and masking.sinks is None:
            out = scaled_dot_product_attention(new_q, k, v, mask, scale=masking.scale)
        else:  # a few models
            out = capped_attention(new_q, k, v, mask, masking)
        rows.append(out[0].transpose(0, 1))  # [Q, H, D]
    return torch.cat(rows)
