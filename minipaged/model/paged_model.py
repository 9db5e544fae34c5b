"""Lesson 2: a HuggingFace model over a pool of blocks (paper, section 4.3)."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from minipaged.attention.backend import (
    Attend,
    Backend,
    Masking,
    check_result,
    exchange_attention,
    resolve_attention,
    resolve_deterministic,
)
from minipaged.errors import Unpicklable, UnsupportedModel, require_counts
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.eight_bits import LayerScales
from minipaged.memory.kv_cache import KVCache
from minipaged.model.alone import Alone
from minipaged.model.bridge import attending, connect
from minipaged.model.direct_calls import call_directly
from minipaged.model.inputs import RaggedBatch
from minipaged.model.original import Original
from minipaged.model.probe import (
    attention_layers,
    check_logits,
    num_embeddings,
    refuse_unsupported,
)
from minipaged.model.settings import Settings
from minipaged.model.twin import make_twin
from minipaged.scheduling.observer import Observer, Observers, check_observers
from minipaged.scheduling.plan import Plan

if TYPE_CHECKING:
    from minipaged.model.kv_scales import EightBits, KVScales
    from minipaged.model.ranks import Ranks


class PagedModel(Unpicklable):
    """A model that computes ragged batches, with K and V in blocks.

    Except for attention and its memory, the model's code runs unmodified. Only on a
    CPU, an RMSNorm may be computed by fewer calls of torch, to the same bits: see
    `direct_calls.py`.

    Attributes:
        model: the user's, which stays as it is.
        twin: what runs: the same weights under other modules.
        pool, cache: the blocks, and the K and V in them.
        attention: a Backend.
        deterministic: does a text not depend on what else is computed?
        kv_scales: of K and V in 8 bits, and what they cost; None without.
        num_embeddings: the number of token ids.
        observers: they are told what happens; `observers.append(...)` adds one.
        alone: lets one thread in at a time.
        ranks: the processes that share the model's heads; None if it has one process.

    Source: PagedAttention paper, section 4.3.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        num_blocks: int | Literal["auto"] = 512,
        block_size: int = 16,
        attention: str | Backend | Attend = "gathered",
        *,
        deterministic: bool = False,
        gpu_memory_utilization: float = 0.9,
        kv_dtype: "str | EightBits | None" = None,
    ):
        """Allocate the cache; check that a batch's logits agree with the model's.

        Args:
            model: a causal language model of `transformers`, in eval mode.
            num_blocks, block_size: of the pool; "auto": as many as fit on the GPU.
            attention: "gathered", "streamed", "triton", a Backend, or a function with
                the signature of `attend_gathered`.
            deterministic: compute each token as if it were alone, to the bit. So a text
                does not depend on its batch, in half precision, too. It takes longer,
                and attention must be "gathered" or "triton".
            gpu_memory_utilization: of "auto": the share of the GPU's memory that
                weights, blocks and the largest step may take.
            kv_dtype: "fp8" stores K and V in 8 bits, "fp8_v" V alone; None: both in the
                model's type. EightBits says more: see `minipaged/model/kv_scales.py`.

        Raises UnsupportedModel if the text would be wrong, and MemoryError if there is
        no room for the pool.
        """
        refuse_unsupported(model)
        self.model = model
        self.ranks: Ranks | None = None
        if getattr(model, "tp_size", None) is not None:
            from minipaged.model.parallel import ranks_of  # appendix H

            self.ranks = ranks_of(model)
        self.deterministic = deterministic
        alike = nullcontext() if self.ranks is None else self.ranks.alike("PagedModel")
        with alike:
            self._wrap(
                num_blocks, block_size, attention, gpu_memory_utilization, kv_dtype
            )

    def _wrap(
        self,
        num_blocks: int | Literal["auto"],
        block_size: int,
        attention: str | Backend | Attend,
        gpu_memory_utilization: float,
        kv_dtype: "str | EightBits | None",
    ) -> None:
        model = self.model
        deterministic = self.deterministic
        if self.ranks is not None and (deterministic or kv_dtype is not None):
            asked = "deterministic=True" if deterministic else f"{kv_dtype=}"
            raise UnsupportedModel(
                f"{asked} is not offered for a model on several ranks"
            )
        resolve = resolve_deterministic if deterministic else resolve_attention
        self._attention = resolve(attention)
        self._original = Original(model)
        self.twin = self.new_twin()
        if deterministic:
            from minipaged.model.fixed_order import fix_order  # appendix D

            fix_order(self.twin)
        elif model.device.type == "cpu":
            call_directly(self.twin)
        settings = Settings(self.twin)
        layers = attention_layers(self.twin)  # by a forward of one token
        try:
            self.refuse_replaced_weights()
        except ValueError as error:
            raise UnsupportedModel(
                f"{type(model).__name__} writes to its own weights in its forward; if "
                "an adapter does, merge it before: peft_model.merge_and_unload()"
            ) from error
        self._index_of = {layer.number: index for index, layer in enumerate(layers)}
        self._shapes = [layer.shape for layer in layers]
        self.dtype = layers[0].dtype
        self.device = layers[0].device
        self.num_embeddings = num_embeddings(model)
        self._observers = Observers()
        self.alone = Alone()
        self.kv_scales: KVScales | None = None
        require_counts(block_size=block_size)
        check_logits(self, block_size)
        if deterministic:
            from minipaged.model.fixed_order import refuse_dependence

            refuse_dependence(self, block_size, self.twin)
        # Some modules write to their settings whenever they run, so the probe saw it.
        self._original.overlook(settings.changes())
        if kv_dtype is not None:
            from minipaged.model.kv_scales import find_scales  # appendix C

            self.kv_scales = find_scales(self, kv_dtype, block_size)
        if num_blocks == "auto":
            from minipaged.model.room import blocks_with_room  # appendix D

            num_blocks = blocks_with_room(self, block_size, gpu_memory_utilization)
        if self.ranks is not None:
            num_blocks = self.ranks.least(num_blocks)
        # The cache first: a pool too large for memory fails at once.
        self.cache = self.new_cache(num_blocks, block_size)
        self.pool = BlockPool(num_blocks, block_size)

    def new_twin(self) -> PreTrainedModel:
        """A connected twin of the model; on several ranks, of this rank's share."""
        twin = make_twin(self.model)
        if self.ranks is not None:
            from minipaged.model.shares import compute_on_shares  # appendix H

            compute_on_shares(twin, self.ranks.rank, self.ranks.count)
        connect(twin)
        return twin

    def new_cache(
        self,
        num_blocks: int,
        block_size: int,
        scales: Sequence[LayerScales] | None = None,
    ) -> KVCache:
        """A cache for the K and V of its layers, of the class that its attention needs.

        `scales`: of K and V in 8 bits, instead of its own. Raises MemoryError, before
        any memory is taken, if there is no room for it.
        """
        make: Callable[..., KVCache] = self.attention.cache_class
        if self.kv_scales is not None:
            scales = scales or self.kv_scales.layers
        if scales is not None:
            make = partial(self.attention.in_eight_bits, scales)
        return make(self._shapes, num_blocks, block_size, self.dtype, self.device)

    @property
    def attention(self) -> Backend:
        """The backend that reads blocks. Set it to anything that `__init__` takes.

        The new one is not probed. ValueError if it needs a cache of another class.
        """
        return self._attention

    @attention.setter
    def attention(self, attention: str | Backend | Attend) -> None:
        if self.deterministic:
            attention = resolve_deterministic(attention)
        self._attention = exchange_attention(attention, self.cache)

    @property
    def observers(self) -> Observers:
        """They are told what happens: a list, to which you append, or which you set.

        Engines that were made before are watched by those that were set, too.
        """
        return self._observers

    @observers.setter
    def observers(self, observers: Iterable[Observer]) -> None:
        self._observers[:] = check_observers(observers)

    def compute(self, plan: Plan) -> tuple[RaggedBatch, Tensor]:
        """The plan's batch, and the logits that it asks for: see `forward`."""
        batch = RaggedBatch.of_plan(plan, self.device)
        return batch, self.forward(batch)

    def forward(self, batch: RaggedBatch) -> Tensor:
        """Write the batch's K and V into their slots; return the logits it asks for.

        Block copies come first: copy-on-write is done before anything is written.
        Returns [number of rows wanted, vocabulary] in float32. Raises ValueError if
        weights of the model have been replaced.
        """
        return self.forward_over(batch, self.cache)

    def forward_over(self, batch: RaggedBatch, cache: KVCache) -> Tensor:
        """As `forward`, over a cache that `new_cache` made: the probe has its own."""
        self._original.refuse_if_changed()
        with torch.inference_mode(), self.attending(batch, cache):
            cache.copy(batch.copies)
            return last_logits(self.twin, batch)

    def attending(
        self, batch: RaggedBatch, cache: KVCache | None = None
    ) -> AbstractContextManager[None]:
        """Inside this `with`, a step runs: the layers of twins attend over the batch.

        For runners, which call a twin themselves. `cache`: instead of `self.cache`.
        """
        batch.scratch.clear()  # in case the batch was computed before
        cache = self.cache if cache is None else cache
        return attending(partial(self._attend, batch, cache))

    def _attend(
        self,
        batch: RaggedBatch,
        cache: KVCache,
        number: int,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        masking: Masking,
    ) -> Tensor:
        """The layers call this: write, then attend, so that a token sees itself.

        A backend's `step`, if it has one, does both in one call (lesson 6).
        """
        index = self._index_of[number]
        layer = cache.layer(index)
        if self.attention.step is not None:
            out = self.attention.step(q, k, v, layer, batch, masking)
        else:
            cache.write(index, batch.slots, k, v)
            out = self.attention(q, layer, batch, masking)
        check_result(out, expected=(*q.shape[:2], v.shape[2]))
        return out

    def refuse_replaced_weights(self) -> None:
        """Raise ValueError if weights or modules were replaced, moved or written to.

        It also raises within torch.autocast. Each step calls it, which costs about a
        microsecond for each weight.
        """
        self._original.refuse_if_changed()

    def refuse_altered_modules(self) -> None:
        """Raise ValueError if hooks, adapters, flags or configs are not as they were.

        An engine calls it for each new request. It costs about as much as
        `refuse_replaced_weights`.
        """
        if self.ranks is not None:
            self.ranks.ask("refuse_altered_modules")
        self._original.refuse_if_altered()

    def refuse_changes(self) -> None:
        """Raise ValueError as both methods above do, and if any weight has a new value.

        So it sees what was written through `.data`, too. It reads all weights, and
        waits for the device.
        """
        if self.ranks is not None:
            self.ranks.ask("refuse_changes")
        self._original.refuse_if_changed()
        self._original.refuse_if_altered()
        self._original.refuse_if_written_to()

    def note_weights(self) -> None:
        """Note where the weights are now, after we have moved them."""
        self._original.note_weights()

    def __repr__(self) -> str:
        parts = [type(self.model).__name__, f"{self.pool}"]
        parts.append(f"{len(self._shapes)} layers")
        if self.kv_scales is not None:
            parts.append(f"{self.kv_scales}")
        if self.attention.prompts_by is not None:
            kernel = self.attention.prompts_by(self.cache.layer(0), self.dtype)
            parts.append(f"prompts by {kernel}")
        return f"PagedModel({', '.join(parts)})"


def last_logits(model: PreTrainedModel, batch: RaggedBatch) -> torch.Tensor:
    """Run the model over the flattened tokens; logits only where the batch wants them.

    The model sees one row of T tokens; only positions and attention tell sequences
    apart. Returns [number wanted, vocabulary] in float32.
    """
    num_wanted = len(batch.logits_at)
    # If no row is wanted, row 0 is taken, and dropped: for none, a compiler would
    # compile a second program.
    rows = batch.logits_at if num_wanted else batch.query_starts[:1]
    out = model(
        input_ids=batch.tokens[None],
        position_ids=batch.positions[None],
        use_cache=False,
        logits_to_keep=rows,
    )
    return out.logits[0, :num_wanted].float()
