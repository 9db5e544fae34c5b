"""Lesson 2: what a model may ask of attention, and what is refused (the border)."""

from typing import Any

from torch import Tensor
from torch.nn import Module

from minipaged.errors import UnsupportedModel

# Keywords that models pass along and that leave the result of attention as it is.
_HARMLESS = {
    "cache_position", "logits_to_keep", "num_items_in_batch", "output_attentions",
    "output_hidden_states", "output_router_logits", "past_key_values",
    "position_embeddings", "position_ids", "return_dict", "use_cache",
}  # fmt: skip


def refuse_keywords(
    module: Module,
    attention_mask: Tensor | None,
    dropout: float,
    is_causal: bool,
    others: dict[str, Any],
) -> None:
    """Raise UnsupportedModel for whatever would make the text wrong in silence."""
    given = {name for name, option in others.items() if option is not None}
    unknown = sorted(given - _HARMLESS)
    if attention_mask is not None:
        unknown.append("attention_mask")
    if dropout:
        unknown.append("dropout (call model.eval())")
    if not is_causal:
        unknown.append("is_causal=False")
    if unknown:
        raise UnsupportedModel(
            f"{type(module).__name__} asks for attention with {', '.join(unknown)}, "
            "which paged attention here does not know; its text would be wrong"
        )
