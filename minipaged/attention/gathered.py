"""Lesson 2: gather the blocks, then ordinary attention (paper, equation 3)."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from minipaged.attention.interface import AttentionBatch
from minipaged.attention.padding import Group, plan_padding


def gathered_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Causal attention of new tokens over their sequences' blocks, gathered first.

    Simple and exact, at the price of a second copy of every K and V that is read:
    lesson 5 streams over the blocks instead.

    Args:
        q: [T, num_heads, key_dim], the new tokens of all sequences one after another.
        keys: [num_blocks, block_size, num_kv_heads, key_dim], one layer of the cache.
        values: [num_blocks, block_size, num_kv_heads, value_dim].
        batch: which blocks, and how many tokens, belong to which sequence.
        scale: multiplies the logits, usually key_dim ** -0.5.
        sliding_window: a token sees this many positions, itself included.
        softcap: if given, logits become softcap * tanh(logits / softcap).

    Returns: [T, num_heads, value_dim].
    """
    groups, row_of_token = plan_padding(q, keys, values, batch, sliding_window)
    rows = [_attend(q, keys, values, group, scale, softcap) for group in groups]
    return rows[0] if row_of_token is None else torch.cat(rows)[row_of_token]


def _attend(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    group: Group,
    scale: float,
    softcap: float | None,
) -> torch.Tensor:
    """Attention of one group: [S * Q, num_heads, value_dim]."""
    torch.index_select(keys.flatten(0, 1), 0, group.slots, out=group.k_rows)
    torch.index_select(values.flatten(0, 1), 0, group.slots, out=group.v_rows)
    k, v, mask = group.k, group.v, group.mask
    num_seqs, num_kv_heads = k.shape[:2]
    group_size = q.shape[1] // num_kv_heads
    # The query heads that share a KV head are stacked like more queries, so K and V are
    # used as they are: repeating them for every head would cost G times more.
    if group.queries is None:
        q = q.reshape(num_seqs, num_kv_heads, group_size, -1)
    else:
        q = q.index_select(0, group.queries)
        q = q.view(num_seqs, -1, num_kv_heads, group_size, q.shape[2])
        q = q.permute(0, 2, 3, 1, 4).flatten(2, 3)  # [S, kv heads, G * Q, key dim]
    if softcap is None:
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    else:
        logits = softcap * torch.tanh(q @ k.transpose(2, 3) * (scale / softcap))
        logits = logits if mask is None else logits + mask
        out = torch.softmax(logits, dim=-1, dtype=torch.float32).to(v.dtype) @ v
    if group.queries is None:
        return out.flatten(1, 2)
    out = out.unflatten(2, (group_size, -1))  # [S, kv heads, G, Q, value dim]
    return out.permute(0, 3, 1, 2, 4).flatten(0, 1).flatten(1, 2)
