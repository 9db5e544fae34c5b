"""Lesson 6: attention by kernels, with the signature of `attend_gathered`."""

import torch

from minipaged.attention.backend import AttentionBatch, Backend, Masking
from minipaged.attention.kernels.cache import EightBitTritonKVCache, TritonKVCache
from minipaged.attention.kernels.decode import paged_decode
from minipaged.attention.kernels.prefill import paged_prefill
from minipaged.attention.kernels.write import write_kv
from minipaged.memory.kv_cache import LayerCache


def attend_by_kernels(
    q: torch.Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> torch.Tensor:
    """Causal attention of new tokens over their sequences' blocks, read in place.

    Nothing waits for the GPU, so a CUDA graph may hold this call. The graph keeps the
    sizes that suit the shortest and the longest context of the batch at capture. For
    inference only: no gradients.

    Args:
        q: [T, num_heads, key_dim], the new tokens of all sequences one after another.
        cache: one layer's K and V, contiguous; float32, float16 or bfloat16, as q, or
            in 8 bits with scales.
        batch: which blocks, and how many tokens, belong to which sequence.
        masking: scale, window, soft cap and sinks of this layer.

    Returns: [T, num_heads, value_dim]; zeros for a token that sees nothing.
    Raises ValueError for tensors that the kernels cannot take, and says what can.
    """
    keys, values = cache.keys, cache.values
    out = q.new_empty(*q.shape[:2], values.shape[-1])
    only_prompt = len(batch.context_lengths) == 1 and batch.max_query_length > 1
    # Only the GPU knows which of several sequences have a single new token. A separate
    # kernel computes these, for most rows of a prefill program would stay empty.
    scales = cache.key_scale, cache.value_scale
    is_plain = masking.sinks is None and scales == (None, None)
    if is_plain and batch.max_query_length <= 1:
        where = (batch.block_tables, batch.context_lengths, batch.query_starts)
        lengths = (batch.min_context_length, batch.max_context_length)
        paged_decode(out, q, keys, values, *where, *lengths, *masking[:3])
    elif not only_prompt:
        from minipaged.attention.kernels.step import decode_written  # appendix D

        decode_written(out, q, cache, batch, masking)
    if batch.max_query_length > 1:
        _attend_prompts(out, q, cache, batch, masking)
    return out


def _attend_prompts(
    out: torch.Tensor,
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> None:
    """Attention of every sequence that has several new tokens; the rest of `out` stays.

    On a Hopper GPU, another kernel does it, where it can.
    """
    from minipaged.attention.kernels import hopper  # appendix C

    if hopper.takes_prompts(q, cache, masking):
        hopper.attend_prompts(out, q, cache, batch, masking)
        return
    where = (batch.block_tables, batch.context_lengths, batch.query_starts)
    keys, values = cache.keys, cache.values
    scales = {"key_scale": cache.key_scale, "value_scale": cache.value_scale}
    paged_prefill(out, q, keys, values, *where, *masking, skip_single=True, **scales)


def step_by_kernels(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> torch.Tensor:
    """Write the new tokens' K and V, and attend: one launch if all sequences decode.

    Arguments and result are those of `attend_by_kernels`; k and v belong to the new
    tokens, [T, num_kv_heads, dim], and batch has their slots. If rows share a sequence,
    a row reads what another writes, and that needs two launches.
    """
    from minipaged.attention.kernels import step  # appendix D

    num_tokens, num_seqs = q.shape[0], batch.context_lengths.shape[0]
    all_decode = batch.max_query_length == 1 and num_tokens == num_seqs
    if all_decode and not batch.rows_share:
        return step.decode_step(q, k, v, cache, batch, masking)
    keys, values = cache.keys, cache.values
    scales = cache.key_scale, cache.value_scale
    write_kv(keys, values, batch.slots, k, v, *scales)
    out = q.new_empty(*q.shape[:2], values.shape[-1])
    if num_seqs > 1:
        step.decode_written(out, q, cache, batch, masking)
    if not all_decode:
        _attend_prompts(out, q, cache, batch, masking)
    return out


def prompts_by(cache: LayerCache, dtype: torch.dtype) -> str:
    """The name of the kernel that computes prompts of this type over this layer."""
    from minipaged.attention.kernels import hopper  # appendix C

    if hopper.takes_cache(cache, dtype):
        return "hopper_kernel.prompts_kernel"
    return "prefill.paged_prefill"


triton_attention = Backend(
    attend_by_kernels,
    TritonKVCache,
    step_by_kernels,
    EightBitTritonKVCache,
    prompts_by,
)
