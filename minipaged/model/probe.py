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
    """Raise UnsupportedModel for what can be seen without running the model."""
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
    if not any(each.is_floating_point for each in types):
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
    """An attention module of a twin, and what it hands over to be cached."""

    number: int  # the module's, see `bridge.connect`
    shape: tuple[int, int, int]  # num_kv_heads, key_dim, value_dim
    dtype: torch.dtype
    device: torch.device
    sliding_window: int | None


def attention_layers(twin: PreTrainedModel) -> list[AttentionLayer]:
    """The attention layers of a connected twin, in the order in which they are called.

    Read from one forward of one token: fields of a config do not tell it reliably.
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

    name, config = type(twin).__name__, twin.config.get_text_config()
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


def _own_logits(own: PreTrainedModel, tokens: list[int], cached: int) -> Tensor:
    """[1, vocabulary]: the model's logits after these; so many go through its cache."""
    if cached:
        cache = cache_argument(DynamicCache(config=own.config))
        with suppress(Exception):  # a model may want a cache of its own kind
            _run(own, tokens[:cached], 0, use_cache=True, **cache)
            return _run(own, tokens[cached:], cached, use_cache=True, **cache)
    return _run(own, tokens, 0, use_cache=False)


def _run(own: PreTrainedModel, tokens: list[int], start: int, **options: Any) -> Tensor:
    """Logits of the last; positions are told, since some models count otherwise."""
    ids = torch.tensor([tokens], device=own.device)
    positions = torch.arange(start, start + len(tokens), device=own.device)[None]
    out = own(input_ids=ids, position_ids=positions, **options)
    return out.logits[:, -1].float()


def refuse_no_numbers(model: PreTrainedModel) -> None:
    """Raise UnsupportedModel if weights hold NaN or infinity, and say which."""
    bad = [n for n, w in model.named_parameters() if not w.isfinite().all()]
    if bad:
        raise UnsupportedModel(
            f"{type(model).__name__} has weights that hold NaN or infinity: "
            f"{', '.join(bad[:3])}; load or train it anew"
        )


def _replaced(twin: PreTrainedModel) -> str:
    """A hint, if a module's forward is a function that may call the user's modules."""
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
    # Around them may be an adapter, which has a weight and no number.
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
    """Tokens of the probe's first sequence: more than a block, for sizes up to 64."""
    return min(block_size, 64) + 4


def blocks_of_probe(block_size: int) -> int:
    """How many blocks `check_logits` takes."""
    return sum(-(-count // block_size) for count in (_long(block_size), SHORT))


def check_logits(paged: "PagedModel", block_size: int) -> None:
    """Compare two ragged sequences with the model's own logits, in three steps each.

    The second step mixes a single token with several, over what the first one left in
    the blocks; sliding windows are shrunk meanwhile, so that they matter. The third
    decodes: it is compared with HuggingFace's own decoding, over its cache, which what
    looks at the length of a forward tells apart. All this in a small cache of its own.

    Raises UnsupportedModel when the difference is more than rounding.
    """
    size = blocks_of_probe(block_size), block_size
    cache, pool = paged.new_cache(*size), BlockPool(*size)
    own = make_twin(paged.model)  # which attends as HuggingFace does
    long = _long(block_size)
    tokens = [(n * 37 + 11) % paged.num_embeddings for n in range(long + SHORT)]
    sequences, split = [tokens[:long], tokens[long:]], [long - 2, 3]
    ends = [long, SHORT]
    tables = [BlockTable(pool) for _ in sequences]
    ours, expected = [], []
    with everything_near(own), everything_near(paged.twin), torch.inference_mode():
        before = [end - 1 for end in ends]
        for starts, stops in (([0, 0], split), (split, before), (before, ends)):
            spans = list(zip(sequences, tables, starts, stops, strict=True))
            for _, table, start, stop in spans:
                table.append(stop - start)
            chunks = [
                Chunk(seq[start:stop], table) for seq, table, start, stop in spans
            ]
            batch = RaggedBatch.build(chunks, device=paged.device)
            ours.append(paged.forward_over(batch, cache))
            for seq, _, start, stop in spans:
                cached = start if starts is before else 0
                expected.append(_own_logits(own, seq[:stop], cached))
    ours, expected = torch.cat(ours), torch.cat(expected)
    if ours.shape[1] > paged.num_embeddings:
        raise UnsupportedModel(
            f"{type(own).__name__} may choose among {ours.shape[1]} tokens, but knows "
            f"only {paged.num_embeddings}: call model.resize_token_embeddings(...)"
        )
    if not expected.isfinite().all():
        refuse_no_numbers(own)
        raise UnsupportedModel(
            f"{type(own).__name__}: its own logits are not finite numbers; are its "
            "weights right, and does its dtype hold them?"
        )
    error = (ours - expected).abs().max() / expected.abs().max()
    tolerance = TOLERANCE.get(own.dtype, COARSE_TOLERANCE)
    # Asked only now: some versions of torch warn whoever asks.
    if not error <= tolerance and torch.get_float32_matmul_precision() != "highest":
        tolerance = COARSE_TOLERANCE
    if not error <= tolerance:  # also when it is NaN
        soft_cap = ""
        if getattr(own.config.get_text_config(), "attn_logit_softcapping", None):
            soft_cap = (
                "; transformers' sdpa may skip its soft cap: try "
                "model.set_attn_implementation('eager') before you wrap it"
            )
        raise UnsupportedModel(
            f"{type(own).__name__}: logits through blocks differ from its own by "
            f"{error:.1e} of the largest one (rounding: {tolerance:.0e}). Either the "
            "attention that you gave is wrong, or the model's does something that ours "
            "does not, or it counts positions for itself, or a layer, or a hook of "
            "one, looks at all tokens of a batch (as a layer that quantises "
            f"activations does){soft_cap}"
        )
