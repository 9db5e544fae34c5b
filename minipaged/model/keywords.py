"""Lesson 2: what a model may ask of attention, and what is refused (the border)."""

from inspect import signature
from typing import Any

from torch import Tensor
from torch.nn import Module
from transformers import Cache, GenerationMixin

from minipaged.attention.backend import Masking
from minipaged.errors import UnsupportedModel

# Keywords that models pass along and that leave the result of attention as it is.
_HARMLESS = {
    "cache", "cache_position", "logits_to_keep", "num_items_in_batch",
    "output_attentions", "output_hidden_states", "output_router_logits",
    "past_key_values", "position_embeddings", "position_ids", "return_dict",
    "use_cache",
}  # fmt: skip

_KNOWN = _HARMLESS | {
    "dropout", "is_causal", "s_aux", "scaling", "sliding_window", "softcap",
}  # fmt: skip

_PREPARE = signature(GenerationMixin.prepare_inputs_for_generation)


def cache_argument(cache: Cache | None) -> dict[str, Cache | None]:
    """HuggingFace's cache, as a model and its `generate` take it.

    For example: model(ids, **cache_argument(cache)). The argument is `past_key_values`
    up to transformers 5.23, and `cache` from 5.24 on. In what the model returns, the
    name has changed, too: read the cache that you passed.
    """
    return {"cache" if "cache" in _PREPARE.parameters else "past_key_values": cache}


def masking_of(
    module: Module, query: Tensor, attention_mask: Tensor | None, asked: dict[str, Any]
) -> Masking:
    """The masking that this layer asks for, besides being causal.

    query: [1, num_heads, T, dim]; `asked`: the keywords that the layer passes. Raises
    UnsupportedModel for a request that would make the text wrong in silence.
    """
    scale = asked.get("scaling")
    masking = Masking(
        query.shape[-1] ** -0.5 if scale is None else scale,
        asked.get("sliding_window"),
        asked.get("softcap"),
        sinks=asked.get("s_aux"),  # [num_heads]
    )
    has_dropout = (asked.get("dropout") or 0.0) > 0
    is_causal = asked.get("is_causal")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    unknown = [name for name in asked if name not in _KNOWN]
    unknown = sorted(name for name in unknown if asked[name] is not None)
    if attention_mask is not None:
        unknown.append("attention_mask")
    if has_dropout:
        unknown.append("dropout (call model.eval())")
    if not is_causal:
        unknown.append("is_causal=False")
    if unknown:
        raise UnsupportedModel(
            f"{type(module).__name__} asks for attention with {', '.join(unknown)}, "
            "which paged attention here does not know; its text would be wrong"
        )
    return masking
