"""Lesson 6: attention by kernels, with the signature of lesson 2's gathered one."""

import torch

from minipaged.attention.interface import AttentionBatch
from minipaged.attention.kernels.decode import paged_decode
from minipaged.attention.kernels.prefill import paged_prefill


def triton_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Causal attention of new tokens over their sequences' blocks, read in place.

    Nothing waits for the GPU, so a CUDA graph may hold it: with the sizes that suit the
    shortest and the longest context that the batch named at capture. torch.compile
    passes it through as it is. For inference: no gradients.

    Args:
        q: [T, num_heads, key_dim], the new tokens of all sequences one after another.
        keys: [num_blocks, block_size, num_kv_heads, key_dim], one layer of the cache,
            contiguous; float32, float16 or bfloat16, as q.
        values: [num_blocks, block_size, num_kv_heads, value_dim].
        batch: which blocks, and how many tokens, belong to which sequence.
        scale: multiplies the logits, usually key_dim ** -0.5.
        sliding_window: a token sees this many positions, itself included.
        softcap: if given, logits become softcap * tanh(logits / softcap).

    Returns: [T, num_heads, value_dim]; zeros for a token that sees nothing.
    Raises ValueError for tensors that the kernels cannot take; it says what can.
    """
    out = q.new_empty(*q.shape[:2], values.shape[-1])
    where = (batch.block_tables, batch.context_lengths, batch.query_starts)
    lengths = (batch.min_context_length, batch.max_context_length)
    options = (scale, sliding_window, softcap)
    only_prompt = len(batch.context_lengths) == 1 and batch.max_query_length > 1
    # Which of several sequences have one new token, only the GPU knows. They have a
    # kernel of their own, for most rows of a prefill program would stay empty.
    if not only_prompt:
        paged_decode(out, q, keys, values, *where, *lengths, *options)
    if batch.max_query_length > 1:
        paged_prefill(out, q, keys, values, *where, *options, skip_single=True)
    return out
