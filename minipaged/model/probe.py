"""Lesson 2: find out what a model's attention needs, and refuse what would go wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from minipaged.errors import UnsupportedModel
from minipaged.memory.block_table import BlockTable
from minipaged.model.bridge import attention_replaced, configs_of
from minipaged.model.ragged_batch import Chunk, RaggedBatch

if TYPE_CHECKING:
    from minipaged.model.paged_model import PagedModel

KNOWN_LAYERS = {"full_attention", "sliding_attention"}
# Largest difference of logits that is rounding, as a share of the largest logit.
# In float32, tiny models have been seen to differ by less than 3e-6. In half precision,
# or with TF32, rounding hides small mistakes: only gross ones are found.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
COARSE_TOLERANCE = 0.05


def refuse_unsupported(model: PreTrainedModel) -> None:
    """Raise UnsupportedModel for what can be seen without running the model."""
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel) or not model.can_generate():
        raise UnsupportedModel(
            f"{name} is no causal language model of transformers; load one with "
            "model, tokenizer = mp.load(...), or AutoModelForCausalLM.from_pretrained"
        )
    if model.config.is_encoder_decoder:
        raise UnsupportedModel(f"{name} has an encoder; only decoders are served here")
    if not getattr(model, "_supports_attention_backend", False):
        raise UnsupportedModel(
            f"{name} does not call its attention through transformers' "
            "AttentionInterface, so paged attention would never be used"
        )
    if "logits_to_keep" not in signature(model.forward).parameters:
        raise UnsupportedModel(
            f"{name}.forward takes no logits_to_keep, so it would compute the logits "
            "of every token of every prompt"
        )
    layer_types = getattr(model.config.get_text_config(), "layer_types", None) or []
    if unknown := sorted(set(layer_types) - KNOWN_LAYERS):
        raise UnsupportedModel(
            f"{name} has layers of type {', '.join(unknown)}; only full and sliding "
            "attention can be paged here"
        )
    if "longrope" in _rope_types(model.config.get_text_config()):
        raise UnsupportedModel(
            f"{name} rotates all positions of a forward by its longest one (longrope): "
            "in a batch, one long sequence would change the text of the others"
        )
    if model.training:
        raise UnsupportedModel(f"{name} is in training mode; call model.eval() first")


def attention_layers(
    model: PreTrainedModel,
) -> list[tuple[torch.nn.Module, tuple[int, int, int]]]:
    """The attention modules as called, each with (num_kv_heads, key_dim, value_dim).

    Read from one forward of one token. Raises UnsupportedModel unless every layer calls
    attention exactly once.
    """
    calls = []

    def record(module, q, k, v, *_options):
        calls.append((module, (k.shape[1], k.shape[2], v.shape[2])))
        return q.new_zeros(q.shape[0], q.shape[1], v.shape[2])

    token = torch.zeros(1, 1, dtype=torch.int64, device=model.device)
    with torch.inference_mode(), attention_replaced(configs_of(model), record):
        model(input_ids=token, position_ids=token, use_cache=False)
    num_layers = model.config.get_text_config().num_hidden_layers
    num_modules = len({module for module, _ in calls})
    if not len(calls) == num_modules == num_layers:
        raise UnsupportedModel(
            f"{type(model).__name__} has {num_layers} layers but called attention "
            f"{len(calls)} times, from {num_modules} modules; each layer must have its "
            "own and call it exactly once"
        )
    return calls


def check_logits(paged: "PagedModel") -> None:
    """Compare two ragged sequences with the model's own logits, in two steps each.

    The second step mixes a single token with several, over what the first one left in
    the blocks; sliding windows are shrunk meanwhile, so that they matter. Raises
    UnsupportedModel when the difference is more than rounding.
    """
    model = paged.model
    vocabulary = model.get_input_embeddings().num_embeddings
    long = min(paged.pool.block_size, 64) + 3  # more than a block, if blocks are usual
    tokens = ((torch.arange(long + 8) * 37 + 11) % vocabulary).tolist()
    sequences, split = [tokens[:long], tokens[long:]], [long - 1, 3]
    tables = [BlockTable(paged.pool) for _ in sequences]
    ours, expected = [], []
    with _windows_shrunk(model, to=3):
        for starts, stops in (([0, 0], split), (split, [long, 8])):
            spans = list(zip(sequences, tables, starts, stops, strict=True))
            for _, table, start, stop in spans:
                table.append(stop - start)
            chunks = [
                Chunk(seq[start:stop], table) for seq, table, start, stop in spans
            ]
            batch = RaggedBatch.build(chunks, device=model.device)
            ours.append(paged.forward(batch))
            with torch.inference_mode():
                for seq, _, _, stop in spans:
                    ids = torch.tensor([seq[:stop]], device=model.device)
                    alone = model(ids, use_cache=False).logits[:, -1]
                    expected.append(alone.float())
    ours, expected = torch.cat(ours), torch.cat(expected)
    error = (ours - expected).abs().max() / expected.abs().max()
    tolerance = TOLERANCE.get(model.dtype, COARSE_TOLERANCE)
    if torch.get_float32_matmul_precision() != "highest":
        tolerance = COARSE_TOLERANCE
    if not error <= tolerance:  # also when it is NaN
        raise UnsupportedModel(
            f"{type(model).__name__}: logits through blocks differ from its own by "
            f"{error:.1e} of the largest one (rounding: {tolerance:.0e}), so its "
            "attention does something that ours does not. If it has a soft cap, "
            "transformers' sdpa may skip it: try model.set_attn_implementation('eager')"
        )


def _rope_types(config: PreTrainedConfig) -> set[str]:
    """The kinds of rotary scaling that a config names, per layer type or for all."""
    scaling = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in scaling.values() if isinstance(value, dict)]
    return {kind for each in (scaling, *nested) if (kind := each.get("rope_type"))}


@contextmanager
def _windows_shrunk(model: PreTrainedModel, to: int) -> Iterator[None]:
    """Make every sliding window `to` tokens wide: real ones are too wide to probe."""
    windows = [
        (owner, window)
        for owner in (*configs_of(model), *model.modules())
        if isinstance(window := getattr(owner, "sliding_window", None), int)
    ]
    try:
        for owner, _ in windows:
            owner.sliding_window = to
        yield
    finally:
        for owner, window in windows:
            owner.sliding_window = window
