"""Lesson 2: soft caps and sinks, which some models ask for (the border)."""

import torch
from torch import Tensor

from minipaged.attention.backend import Masking


def capped_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, masking: Masking
) -> Tensor:
    """torch's attention, with a soft cap and sinks if `masking` has them.

    q: [S, KV heads, Q * G, key_dim], where G query heads share a KV head. k, v:
    [S, KV heads, P, dim]. mask: [S, 1, Q * G, P], or the same for all, [S, 1, 1, P];
    added to the logits; or None. Returns [S, KV heads, Q * G, value_dim].
    """
    logits = q @ k.mT * masking.scale
    if (cap := masking.softcap) is not None:
        logits = cap * torch.tanh(logits / cap)
    if mask is not None:
        logits = logits + mask
    if masking.sinks is not None:  # one more logit in each row; its V is zero
        sinks = masking.sinks.to(q.dtype).view(1, k.shape[1], -1, 1)  # [1, KV, G, 1]
        sinks = sinks.repeat(len(q), 1, q.shape[2] // sinks.shape[2], 1)
        logits = torch.cat([logits, sinks], dim=-1)
    weights = logits.softmax(-1, torch.promote_types(q.dtype, torch.float32))
    return weights[..., : k.shape[2]].to(v.dtype) @ v
