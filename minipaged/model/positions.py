"""Lesson 2: how many positions a model has, as its config says (the border)."""

from collections.abc import Iterator
from math import isfinite

from transformers import PreTrainedConfig

# Rotary scalings with which a position is rotated in one way, whatever else is computed
# beside it. (The angles of "dynamic" change with the longest sequence of a forward.)
_FIXED = {"linear", "llama3", "proportional", "yarn"}


def num_positions(config: PreTrainedConfig) -> int | None:
    """How many positions the model has, or None if its config does not say.

    With scaled rotary positions, max_position_embeddings may be their number before or
    after scaling: both are found in use. It is taken for the one before, unless the
    config says what that was: 4 times max_position_embeddings for Qwen2.5 with YaRN, no
    more than it for Llama 3.1. So nothing is cut off that the model was made for.
    """
    config = config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    if not positions or positions < 0:
        return None
    scaled = [
        (scaling.get("original_max_position_embeddings") or positions) * factor
        for scaling in rope_scalings(config)
        if scaling.get("rope_type") in _FIXED and (factor := scaling.get("factor"))
    ]
    return int(max([positions, *filter(isfinite, scaled)]))


def rope_scalings(config: PreTrainedConfig) -> Iterator[dict]:
    """How positions are rotated, as a config says it: for all layers, or each type."""
    scaling = getattr(config, "rope_parameters", None) or {}
    yield scaling
    yield from (value for value in scaling.values() if isinstance(value, dict))
