"""Lesson 2: how many positions a model has, as its config says (the border)."""

from collections.abc import Iterator
from math import isfinite

from transformers import PreTrainedConfig

# Rotary scalings that rotate a position in one way, whatever is computed beside it.
# (The angles of "dynamic" change with the longest sequence of a forward.)
_FIXED = {"linear", "llama3", "proportional", "yarn"}


def num_positions(config: PreTrainedConfig) -> int | None:
    """How many positions the model has, or None if its config does not say.

    If rotary positions are scaled, max_position_embeddings is their number before
    scaling in some configs, and after scaling in others. Here it is the number before,
    unless the config says that number, too. So all positions that the model was made
    for can be used. For example: with YaRN and a factor of 4, Qwen2.5 has 4 times
    max_position_embeddings; Llama 3.1 has no more than max_position_embeddings.
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
    """The config's ways to rotate positions: for all layers, or for each type."""
    scaling = getattr(config, "rope_parameters", None) or {}
    yield scaling
    yield from (value for value in scaling.values() if isinstance(value, dict))
