"""Lesson 2: find out what a model's attention needs, and refuse what would go wrong."""

from contextlib import suppress
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from transformers import (
    DynamicCache,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
)

from minipaged.attention.backend import Masking
from minipaged.errors import UnsupportedModel
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.model.bridge import attending
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.model.keywords import cache_argument
from minipaged.model.original import refuse_autocast
from minipaged.model.positions import rope_scalings
from minipaged.model.twin import (
    everything_near,
    has_own_forward,
    is_own_method,
    make_twin,
)

if TYPE_CHECKING:
    from minipaged.model.paged_model import PagedModel

KNOWN_LAYERS = {"full_attention", "sliding_attention"}
# Largest difference of logits that is rounding, as a share of the largest logit.
# In float32, tiny models have been seen to differ by less than 3e-6. In half precision,
# or with TF32, rounding hides small mistakes: only gross ones are found.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
COARSE_TOLERANCE = 0.05


def refuse_unsupported(model: PreTrainedModel) -> None:
    """Raise UnsupportedModel for faults that are seen without running the model."""
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel) or not model.can_generate():
        for inside in ("_orig_mod", "module"):  # torch.compile, DataParallel
            if isinstance(getattr(model, inside, None), PreTrainedModel):
                raise UnsupportedModel(
                    f"{name} is a wrapper; wrap the model inside: "
                    f"mp.PagedModel(model.{inside})"
                )
        if hasattr(model, "get_base_model"):  # of the library peft
            if getattr(model.active_peft_config, "alora_invocation_tokens", None):
                raise UnsupportedModel(
                    f"{name} has an adapter that acts from certain tokens on (aLoRA), "
                    "which is not served here: the model inside it never uses it"
                )
            if getattr(model.active_peft_config, "is_prompt_learning", False):
                raise UnsupportedModel(
                    f"{name} puts a soft prompt before each text, which is not served "
                    "here: the model inside it knows nothing of that prompt"
                )
            raise UnsupportedModel(
                f"{name} is a wrapper; wrap the model inside: model.get_base_model()"
            )
        raise UnsupportedModel(
            f"{name} is no causal language model of transformers; load one with "
            "model, tokenizer = mp.load(...), or AutoModelForCausalLM.from_pretrained"
        )
    if model.config.is_encoder_decoder:
        raise UnsupportedModel(f"{name} has an encoder; only decoders are served here")
    if "logits_to_keep" not in signature(model.forward).parameters:
        raise UnsupportedModel(
            f"{name}.forward takes no logits_to_keep, so it would compute the logits "
            f"of every token of every prompt{_replaced(model)}"
        )
    if type(model).generate is not GenerationMixin.generate or any(
        method in vars(model) and not is_own_method(model, method)
        for method in ("generate", "prepare_inputs_for_generation")
    ):
        raise UnsupportedModel(
            f"{name} has a generate of its own, and here it would be passed over"
        )
    layer_types = getattr(model.config.get_text_config(), "layer_types", None) or []
    if unknown := sorted(set(layer_types) - KNOWN_LAYERS):
        raise UnsupportedModel(
            f"{name} has layers of type {', '.join(unknown)}; only full and sliding "
            "attention can be paged here"
        )
    scalings = rope_scalings(model.config.get_text_config())
    if "longrope" in [scaling.get("rope_type") for scaling in scalings]:
        raise UnsupportedModel(
            f"{name} rotates all positions of a forward by its longest one (longrope): "
            "in a batch, one long sequence would change the text of the others"
        )
    types = {weight.dtype for weight in model.parameters()}
    if not any(dtype.is_floating_point for dtype in types):
        raise UnsupportedModel(
            f"{name} has weights of type {', '.join(map(str, types)) or 'none'}; load "
            "it with dtype=torch.float32"
        )
    if model.training:
        raise UnsupportedModel(f"{name} is in training mode; call model.eval() first")
    devices = sorted({str(weight.device) for weight in model.parameters()})
    if len(devices) != 1 or devices == ["meta"]:
        raise UnsupportedModel(
            f"{name} lies on {', '.join(devices) or 'no device'}; only a model that "
            "lies on one device is served here: load it with device_map=None, and "
            "model.to(device)"
        )
    refuse_autocast(model.device.type)


class AttentionLayer(NamedTuple):
    """An attention module of a twin, and the K and V that it hands over."""

    number: int  # of the module: see `bridge.connect`
    shape: tuple[int, int, int]  # num_kv_heads, key_dim, value_dim
    dtype: torch.dtype
    device: torch.device
    sliding_window: int | None


def attention_layers(twin: PreTrainedModel) -> list[AttentionLayer]:
    """The attention layers of a connected twin, in the order in which they are called.

    A forward of one token shows them: fields of a config are not reliable.
    Raises UnsupportedModel unless every layer calls attention exactly once.
    """
    layers: list[AttentionLayer] = []

    def record(
        number: int, q: Tensor, k: Tensor, v: Tensor, masking: Masking
    ) -> Tensor:
        shape = (k.shape[1], k.shape[2], v.shape[2])
        window = masking.sliding_window
        layers.append(AttentionLayer(number, shape, k.dtype, k.device, window))
        return q.new_zeros(q.shape[0], q.shape[1], v.shape[2])

    name = type(twin).__name__
    config = twin.config.get_text_config()
    token = torch.zeros(1, 1, dtype=torch.int64, device=twin.device)
    try:
        with torch.inference_mode(), attending(record):
            twin(input_ids=token, position_ids=token, use_cache=False)
    except UnsupportedModel:
        raise
    except Exception as error:
        raise UnsupportedModel(
            f"{name} fails on a single token when its attention is ours: {error!r:.200}"
        ) from error
    if not layers:
        raise UnsupportedModel(
            f"{name} does not call its attention through transformers' "
            "AttentionInterface, so paged attention would never be used"
            f"{_replaced(twin)}"
        )
    num_layers = config.num_hidden_layers
    num_modules = len({layer.number for layer in layers})
    if not len(layers) == num_modules == num_layers:
        raise UnsupportedModel(
            f"{name} has {num_layers} layers but called attention {len(layers)} times, "
            f"from {num_modules} modules; each layer must have its own and call it "
            f"exactly once{_replaced(twin)}"
        )
    if any(layer.sliding_window == 1 for layer in layers):
        raise UnsupportedModel(
            f"{name} has a sliding window of one token; transformers' cache forgets "
            "nothing then, so its text with a cache is not its text without one"
        )
    if any(layer.sliding_window is None for layer in _forgetful(layers, config)):
        raise UnsupportedModel(
            f"{name}: its cache forgets what leaves the sliding window of its config, "
            "but its attention is not told of a window, so its text with a cache is "
            "not its text without one"
        )
    return layers


def _expected_logits(twin: PreTrainedModel, tokens: list[int], cached: int) -> Tensor:
    """[1, vocabulary]: HuggingFace's logits after these tokens.

    A first forward puts `cached` of the tokens into its cache; 0: there is no cache.
    """
    if cached:
        cache = cache_argument(DynamicCache(config=twin.config))
        with suppress(Exception):  # a model may want another class of cache
            _run(twin, tokens[:cached], 0, use_cache=True, **cache)
            return _run(twin, tokens[cached:], cached, use_cache=True, **cache)
    return _run(twin, tokens, 0, use_cache=False)


def _run(
    twin: PreTrainedModel, tokens: list[int], start: int, **options: Any
) -> Tensor:
    """Logits of the last token. Positions are given: some models count otherwise."""
    ids = torch.tensor([tokens], device=twin.device)
    positions = torch.arange(start, start + len(tokens), device=twin.device)[None]
    out = twin(input_ids=ids, position_ids=positions, **options)
    return out.logits[:, -1].float()


def refuse_no_numbers(model: PreTrainedModel) -> None:
    """Raise UnsupportedModel if weights hold NaN or infinity, and say which."""
    parameters = model.named_parameters()
    bad = [name for name, weight in parameters if not weight.isfinite().all()]
    if bad:
        raise UnsupportedModel(
            f"{type(model).__name__} has weights that hold NaN or infinity: "
            f"{', '.join(bad[:3])}; load or train it anew"
        )


def _replaced(twin: PreTrainedModel) -> str:
    """A hint if a module's forward is a function that may call the user's modules."""
    replaced = [
        f"{path or 'model'}.forward"
        for path, module in twin.named_modules()
        if has_own_forward(module)
    ]
    if not replaced:
        return ""
    return (
        f"; {', '.join(replaced[:3])} was replaced in this object, by a function that "
        "may call the modules of your model, where a copy of them is run: take it back "
        "(del module.forward), and replace the method of the class"
    )


def num_embeddings(model: PreTrainedModel) -> int:
    """How many token ids the model knows."""
    embeddings = model.get_input_embeddings()
    # An adapter around them has a weight, but no such number.
    return getattr(embeddings, "num_embeddings", None) or len(embeddings.weight)


def _forgetful(
    layers: list[AttentionLayer], config: PreTrainedConfig
) -> list[AttentionLayer]:
    """The layers whose K and V HuggingFace's cache drops behind a window."""
    caches = DynamicCache(config=config).layers
    pairs = zip(layers, caches, strict=False)
    return [layer for layer, cache in pairs if getattr(cache, "is_sliding", False)]


SHORT = 9  # tokens of the probe's second sequence


def _long(block_size: int) -> int:
    """Tokens of the probe's first sequence: more than a block of up to 64 tokens."""
    return min(block_size, 64) + 4


def blocks_of_probe(block_size: int) -> int:
    """How many blocks `check_logits` needs."""
    return sum(-(-count // block_size) for count in (_long(block_size), SHORT))


def check_logits(paged: "PagedModel", block_size: int) -> None:
    """Compare the logits of two sequences with HuggingFace's, in three steps.

    The second step mixes a single token with several, over the blocks that the first
    has filled. The third decodes. It is compared with HuggingFace's decoding over a
    cache, because a module may compute something else in a forward of one token. For
    example, in blocks of 16: 18 and 3 tokens, then 1 and 5, then 1 and 1. Meanwhile,
    sliding windows are shrunk, so that they matter. The blocks are in a small cache
    that is made for this.

    Raises UnsupportedModel when the difference is more than rounding.
    """
    num_blocks = blocks_of_probe(block_size)
    cache = paged.new_cache(num_blocks, block_size)
    pool = BlockPool(num_blocks, block_size)
    theirs = make_twin(paged.model)  # which attends as HuggingFace does
    name = type(theirs).__name__
    long = _long(block_size)
    tokens = [(n * 37 + 11) % paged.num_embeddings for n in range(long + SHORT)]
    texts = [tokens[:long], tokens[long:]]
    split = [long - 2, 3]
    ends = [long, SHORT]
    tables = [BlockTable(pool) for _ in texts]
    ours = []
    expected = []
    with everything_near(theirs), everything_near(paged.twin), torch.inference_mode():
        before = [end - 1 for end in ends]
        for starts, stops in (([0, 0], split), (split, before), (before, ends)):
            spans = list(zip(texts, tables, starts, stops, strict=True))
            for _, table, start, stop in spans:
                table.append(stop - start)
            chunks = [
                Chunk(text[start:stop], table) for text, table, start, stop in spans
            ]
            batch = RaggedBatch.build(chunks, device=paged.device)
            ours.append(paged.forward_over(batch, cache))
            for text, _, start, stop in spans:
                cached = start if starts is before else 0
                expected.append(_expected_logits(theirs, text[:stop], cached))
    ours = torch.cat(ours)
    expected = torch.cat(expected)
    if ours.shape[1] > paged.num_embeddings:
        raise UnsupportedModel(
            f"{name} may choose among {ours.shape[1]} tokens, but knows "
            f"only {paged.num_embeddings}: call model.resize_token_embeddings(...)"
        )
    if not expected.isfinite().all():
        refuse_no_numbers(theirs)
        raise UnsupportedModel(
            f"{name}: its own logits are not finite numbers; are its "
            "weights right, and does its dtype hold them?"
        )
    error = (ours - expected).abs().max() / expected.abs().max()
    tolerance = TOLERANCE.get(theirs.dtype, COARSE_TOLERANCE)
    # Last, because some versions of torch warn when they are asked this.
    if not error <= tolerance and torch.get_float32_matmul_precision() != "highest":
        tolerance = COARSE_TOLERANCE
    if not error <= tolerance:  # also when it is NaN
        soft_cap = ""
        if getattr(theirs.config.get_text_config(), "attn_logit_softcapping", None):
            soft_cap = (
                "; transformers' sdpa may skip its soft cap: try "
                "model.set_attn_implementation('eager') before you wrap it"
            )
        raise UnsupportedModel(
            f"{name}: logits through blocks differ from its own by "
            f"{error:.1e} of the largest one (rounding: {tolerance:.0e}). Either the "
            "attention that you gave is wrong, or the model's does something that ours "
            "does not, or it counts positions for itself, or a layer, or a hook of "
            "one, looks at all tokens of a batch (as a layer that quantises "
            f"activations does){soft_cap}"
        )
