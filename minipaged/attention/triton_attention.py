"""Lesson 6: attention by kernels, with the signature of lesson 2's gathered one."""

import torch

from minipaged.attention.interface import AttentionBatch
from minipaged.attention.triton_decode import paged_decode
from minipaged.attention.triton_prefill import paged_prefill
from minipaged.attention.triton_setup import INTERPRETED

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


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

    Nothing waits for the GPU and all sizes come from shapes, so a CUDA graph may hold
    it; torch.compile passes it through as it is.

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
    _check(q, keys, values)
    if q.stride(2) != 1:
        q = q.contiguous()
    out = q.new_empty(*q.shape[:2], values.shape[3])
    where = (batch.block_tables, batch.context_lengths, batch.query_starts)
    lengths = (batch.min_context_length, batch.max_context_length)
    options = (scale, sliding_window, softcap)
    only_prompt = len(batch.context_lengths) == 1 and batch.max_query_length > 1
    # Single tokens among prompts would leave most rows of a prefill program empty.
    if not only_prompt:
        paged_decode(out, q, keys, values, *where, *lengths, *options)
    if batch.max_query_length > 1:
        paged_prefill(out, q, keys, values, *where, *options, skip_single=True)
    return out


def _check(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
    """Refuse what the kernels would get wrong, and name the alternative."""
    other = "or use attention='gathered'"
    if q.dtype not in DTYPES:
        raise ValueError(
            f"the kernels compute in float32, float16 and bfloat16, not {q.dtype}: "
            f"convert the model with model.float(), {other}"
        )
    if not keys.dtype == values.dtype == q.dtype:
        raise ValueError(
            f"queries are {q.dtype}, keys {keys.dtype}, values {values.dtype}; "
            "the kernels want all the same"
        )
    if INTERPRETED and q.dtype == torch.bfloat16:
        raise ValueError(
            "Triton's interpreter multiplies bfloat16 matrices wrongly: convert the "
            f"model to float32 or float16, {other}"
        )
    if not INTERPRETED and not (q.is_cuda and keys.is_cuda and values.is_cuda):
        raise ValueError(
            f"queries are on {q.device} and K and V on {keys.device}, but the kernels "
            f"run on the GPU: move the model with model.to('cuda'), {other}; or set "
            "TRITON_INTERPRET=1 before Python starts, to run them slowly on the CPU"
        )
    if q.shape[1] % keys.shape[2]:
        raise ValueError(
            f"{q.shape[1]} query heads cannot share {keys.shape[2]} KV heads evenly"
        )
    if not (keys.is_contiguous() and values.is_contiguous()):
        raise ValueError(
            "the kernels want keys and values [num_blocks, block_size, num_kv_heads, "
            f"dim] to be contiguous, as KVCache makes them; {other}"
        )
