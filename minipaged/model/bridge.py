"""Lesson 2: how an unmodified HuggingFace model calls an attention function of ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel

from minipaged.errors import UnsupportedModel

# attend(module, q, k, v, scale, sliding_window, softcap) -> [T, num_heads, value_dim]
Attend = Callable[..., torch.Tensor]

_NAME = "minipaged"
_attend: ContextVar[Attend] = ContextVar("minipaged attention")
# The name stands in the model's config, which all threads share: without the lock, one
# thread would switch it back while another is between two layers.
_switched = RLock()  # re-entrant: an attention function may generate

# Keywords that models pass along and that leave the result of attention as it is.
_HARMLESS = {
    "cache_position", "num_items_in_batch", "output_attentions",
    "output_hidden_states", "output_router_logits", "past_key_values",
    "position_embeddings", "position_ids", "return_dict", "use_cache",
}  # fmt: skip


def configs_of(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """All config objects that the model's modules look at, each once."""
    configs = (getattr(module, "config", None) for module in model.modules())
    return list({id(c): c for c in configs if c is not None}.values())


@contextmanager
def attention_replaced(
    configs: list[PreTrainedConfig], attend: Attend
) -> Iterator[None]:
    """Within this block, and only there, the model's attention layers call `attend`.

    Every attention layer of a current HuggingFace model looks up its function by a name
    in its config at each call. So the name is switched in `configs`, and switched back:
    the model's own `generate` works before, between and after.
    """
    AttentionInterface.register(_NAME, _call)
    with _switched:
        token = _attend.set(attend)
        names = [config._attn_implementation_internal for config in configs]
        try:
            for config in configs:
                config._attn_implementation_internal = _NAME
            yield
        finally:
            for config, name in zip(configs, names, strict=True):
                config._attn_implementation_internal = name
            _attend.reset(token)


def _call(
    module: torch.nn.Module,
    query: torch.Tensor,  # [1, num_heads, T, dim]: rotated, normed, ready
    key: torch.Tensor,  # [1, num_kv_heads, T, dim]
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """What HuggingFace's layers call; refuses whatever would be silently wrong."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    given = {name for name, option in kwargs.items() if option is not None}
    unknown = sorted(given - _HARMLESS)
    if attention_mask is not None:
        unknown.append("attention_mask")
    if dropout:
        unknown.append("dropout (call model.eval())")
    if not causal:
        unknown.append("is_causal=False")
    if unknown:
        raise UnsupportedModel(
            f"{type(module).__name__} asks for attention with {', '.join(unknown)}, "
            "which paged attention here does not know; its text would be wrong"
        )
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # [T, heads, dim]
    out = _attend.get()(module, q, k, v, scaling, sliding_window, softcap)
    return out[None], None
