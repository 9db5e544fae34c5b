"""Lesson 2: a HuggingFace model over a pool of blocks (paper, section 4.3)."""

from importlib import import_module
from typing import Any

import torch
from transformers import PreTrainedModel

from minipaged.attention.interface import Attention
from minipaged.errors import UnsupportedModel
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.kv_cache import KVCache
from minipaged.model.bridge import attention_replaced, configs_of
from minipaged.model.probe import attention_layers, check_logits, refuse_unsupported
from minipaged.model.ragged_batch import RaggedBatch

# By name, so that lesson 2 need not import what lessons 5 and 6 add.
ATTENTION = {
    "gathered": "minipaged.attention.gathered:gathered_attention",
    "streamed": "minipaged.attention.streamed:streamed_attention",
    "triton": "minipaged.attention.kernels.attention:triton_attention",
}
TRITON_CACHE = "minipaged.attention.kernels.cache:TritonKVCache"


class PagedModel:
    """One forward over a ragged batch, with K and V in blocks.

    Embedding, projections, positions, norms, MLP and logits are the model's own and
    stay unmodified. Ours are the memory (`pool`, `cache`) and the attention over it.

    Attributes: model; pool (BlockPool); cache (KVCache); attention (the function).
    Source: PagedAttention paper, section 4.3.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        num_blocks: int = 512,
        block_size: int = 16,
        attention: str | Attention = "gathered",
    ):
        """Allocate the cache, and prove on a small ragged batch that the model fits.

        Args:
            model: a causal language model of `transformers`, in eval mode.
            num_blocks, block_size: the pool; num_blocks * block_size tokens in all.
            attention: "gathered", "streamed", "triton", or a function with the
                signature of `gathered_attention`.

        Raises UnsupportedModel if the model would generate wrong text.
        """
        refuse_unsupported(model)
        self.model = model
        self._configs = configs_of(model)
        self._workspace: dict[str, torch.Tensor] = {}
        self.attention = resolve_attention(attention)
        by_kernels = attention == "triton"
        self._cache_class = _imported(TRITON_CACHE) if by_kernels else KVCache
        # Modules in the order in which a forward calls them, and the shapes of their K
        # and V as they really arrive: config fields do not tell either reliably.
        layers = attention_layers(model)
        self._layer = {module: index for index, (module, _) in enumerate(layers)}
        self._shapes = [shape for _, shape in layers]
        # A small pool for the probe, which may find that the model must be refused.
        self._use_pool(num_blocks=80, block_size=block_size)
        check_logits(self)
        self._use_pool(num_blocks, block_size)

    def _use_pool(self, num_blocks: int, block_size: int) -> None:
        where = {"dtype": self.model.dtype, "device": self.model.device}
        # The cache first: a pool too large for memory fails here, and at once.
        self.cache = self._cache_class(self._shapes, num_blocks, block_size, **where)
        self.pool = BlockPool(num_blocks, block_size)

    @property
    def device(self) -> torch.device:
        """Where the model and the cache are."""
        return self.model.device

    def forward(self, batch: RaggedBatch) -> torch.Tensor:
        """Write the batch's K and V into their slots; return the logits it asks for.

        Block copies come first: copy-on-write is done before anything is written.
        Returns [number of chunks that want logits, vocabulary] in float32.
        """

        def attend(
            module: torch.nn.Module,
            q: torch.Tensor,
            k: torch.Tensor,
            v: torch.Tensor,
            scale: float,
            sliding_window: int | None,
            softcap: float | None,
        ) -> torch.Tensor:
            layer = self._layer[module]
            # Write, then attend: a token sees itself.
            self.cache.write(layer, batch.slots, k, v)
            keys, values = self.cache.keys[layer], self.cache.values[layer]
            options = {"sliding_window": sliding_window, "softcap": softcap}
            out = self.attention(q, keys, values, batch, scale=scale, **options)
            expected = (*q.shape[:2], values.shape[3])
            if getattr(out, "shape", None) != expected:
                raise ValueError(
                    f"attention must return a tensor of shape {expected}, got "
                    f"{getattr(out, 'shape', out)!r:.60}"
                )
            return out

        if self.model.training:
            raise UnsupportedModel("the model is in training mode; call model.eval()")
        keys = self.cache.keys[0]
        if (keys.dtype, keys.device) != (self.model.dtype, self.model.device):
            raise ValueError(
                f"the model has moved to {self.model.dtype} on {self.model.device} "
                "since it was wrapped; wrap it again: mp.PagedModel(model)"
            )
        batch.workspace = self._workspace
        with torch.inference_mode(), attention_replaced(self._configs, attend):
            self.cache.copy(batch.copies)
            return last_logits(self.model, batch)

    def __repr__(self) -> str:
        name = type(self.model).__name__
        return f"PagedModel({name}, {self.pool}, {len(self._shapes)} layers)"


def last_logits(model: PreTrainedModel, batch: RaggedBatch) -> torch.Tensor:
    """Run the model over the flattened tokens; logits only where the batch wants them.

    The model takes the whole batch for one row of T tokens; only positions and
    attention tell sequences apart. Returns [number wanted, vocabulary] in float32.
    """
    out = model(
        input_ids=batch.tokens[None],
        position_ids=batch.positions[None],
        use_cache=False,
        logits_to_keep=batch.logits_at,
    )
    return out.logits[0].float()


def resolve_attention(attention: str | Attention) -> Attention:
    """The attention function of this name, or the function itself."""
    if callable(attention):
        return attention
    if attention not in ATTENTION:
        raise ValueError(
            f"no attention named {attention!r}; choose from {sorted(ATTENTION)}, or "
            "pass a function with the signature of gathered_attention"
        )
    return _imported(ATTENTION[attention])


def _imported(path: str) -> Any:
    """What has this name in this module, "module:name"."""
    module, name = path.split(":")
    return getattr(import_module(module), name)
