"""Lesson 2: what every attention is given, so that backends can be exchanged."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from minipaged.memory.eight_bits import EightBitKVCache
from minipaged.memory.kv_cache import KVCache, LayerCache


class AttentionBatch(Protocol):
    """What attention must know of a batch: which blocks belong to which sequence.

    Letters: T tokens to compute, S sequences, M blocks of the longest table.
    """

    block_tables: torch.Tensor  # [S, M] int64; after a table's end come any numbers
    context_lengths: torch.Tensor  # [S] int64: tokens to read, the new ones included
    query_starts: torch.Tensor  # [S + 1] int64: where each one's start; at the end, T
    max_query_length: int
    min_context_length: int
    max_context_length: int
    scratch: dict[Any, Any]  # what a layer computed, for the next layers of the step
    rows_share: bool  # do several rows belong to one sequence?


class Masking(NamedTuple):
    """What a model's layer asks of attention, besides being causal."""

    scale: float  # multiplies the logits, usually key_dim ** -0.5
    sliding_window: int | None = None  # positions that a token sees, its own included
    softcap: float | None = None  # logits become softcap * tanh(logits / softcap)
    sinks: torch.Tensor | None = None  # [num_heads]: one more logit, its value is zero


# attend(q, cache, batch, masking)
#   q:      [T, num_heads, key_dim], the new tokens of all sequences, one after another
#   cache:  one layer's K and V in blocks; those of the new tokens are already written
#   result: [T, num_heads, value_dim]
Attend = Callable[[torch.Tensor, LayerCache, AttentionBatch, Masking], torch.Tensor]


class Backend(NamedTuple):
    """One way to compute attention over blocks; called as its `attend` is.

    `step(q, k, v, cache, batch, masking)`, if given, writes the new K and V and
    attends, both in one call. `in_eight_bits` is the cache for K and V in 8 bits, whose
    scales `attend` and `step` must heed; None, if they do not. `prompts_by(cache,
    dtype)`, if given, names what computes prompts of this type over a layer's cache.
    """

    attend: Attend
    cache_class: type[KVCache] = KVCache
    step: Callable[..., torch.Tensor] | None = None
    in_eight_bits: type[EightBitKVCache] | None = None
    prompts_by: Callable[[LayerCache, torch.dtype], str] | None = None

    def __call__(
        self,
        q: torch.Tensor,
        cache: LayerCache,
        batch: AttentionBatch,
        masking: Masking,
    ) -> torch.Tensor:
        """Attention of the new tokens: [T, num_heads, value_dim]."""
        return self.attend(q, cache, batch, masking)


def resolve_attention(attention: str | Backend | Attend) -> Backend:
    """The backend of this name; a function becomes a backend; a backend stays."""
    if isinstance(attention, Backend):
        return attention
    if callable(attention):
        return Backend(attention)
    if attention == "gathered":
        from minipaged.attention.rectangles import gathered_in_turns as backend
    elif attention == "streamed":  # lesson 5
        from minipaged.attention.streamed import streamed_attention as backend
    elif attention == "triton":  # lesson 6
        from minipaged.attention.kernels.attention import triton_attention as backend
    else:
        raise ValueError(
            f"no attention named {attention!r}; choose from 'gathered', 'streamed' and "
            "'triton', or pass a function with the signature of attend_gathered"
        )
    return backend


def resolve_deterministic(attention: str | Backend | Attend) -> Backend:
    """As `resolve_attention`, by name: the backend whose sums have a fixed order."""
    if attention == "gathered":
        from minipaged.attention.fixed_order import fixed_order_attention

        return fixed_order_attention
    if attention == "triton":  # both of appendix D
        from minipaged.attention.kernels.fixed_order import fixed_order_kernels

        return fixed_order_kernels
    raise ValueError(
        "with deterministic=True, attention must be 'gathered' or 'triton', got "
        f"{attention!r:.60}"
    )


def exchange_attention(attention: str | Backend | Attend, cache: KVCache) -> Backend:
    """As `resolve_attention`, for an existing cache; ValueError if it does not fit.

    A function that the reader wrote takes a cache of any class.
    """
    backend = resolve_attention(attention)
    cache_class = type(cache)
    if isinstance(cache, EightBitKVCache):
        refuse_without_scales(backend)
        if backend.in_eight_bits is cache_class:
            return backend
    if backend.cache_class is not cache_class and backend.attend is not attention:
        raise ValueError(
            f"the cache is a {cache_class.__name__}, and that attention wants a "
            f"{backend.cache_class.__name__}; wrap the model once more: "
            "mp.PagedModel(model, attention=...)"
        )
    return backend._replace(cache_class=cache_class)


def refuse_without_scales(backend: Backend) -> None:
    """Raise ValueError if it would take K and V in 8 bits for what they are not."""
    if backend.in_eight_bits is None:
        raise ValueError(
            "K and V in 8 bits have scales, which that attention does not heed: use "
            "'gathered', 'streamed' or 'triton', without deterministic=True, or let "
            "the function convert them by from_eight_bits: "
            "Backend(function, in_eight_bits=EightBitKVCache)"
        )


def check_result(out: Any, expected: tuple[int, ...]) -> None:
    """Raise ValueError unless `out` is a tensor of the expected shape."""
    if not isinstance(out, torch.Tensor) or out.shape != expected:
        raise ValueError(
            f"attention must return a tensor of shape {expected}, got "
            f"{getattr(out, 'shape', out)!r:.60}"
        )
