"""Lab: a tape of torch's calls, replayed on the same tensors, as a CUDA graph would."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import PreTrainedModel

from minipaged.attention.backend import Backend
from minipaged.attention.rectangles import gathered_attention
from minipaged.memory.kv_cache import KVCache
from minipaged.model.graphs import Graph, GraphRunner
from minipaged.model.inputs import RaggedBatch
from minipaged.model.paged_model import PagedModel


class Tape(TorchDispatchMode):
    """Inside `with tape:`, notes each call of torch; `replay` makes all calls again."""

    def __init__(self) -> None:
        """Nothing is noted yet."""
        super().__init__()
        self.calls: list[tuple] = []

    def __torch_dispatch__(self, func: Any, types: Any, args=(), kwargs=None) -> Any:
        """Torch calls this in place of the operation `func`."""
        out = func(*args, **(kwargs or {}))
        if isinstance(out, bool | int | float):  # a GPU would have to be waited for
            raise RuntimeError("a capture cannot read a number, as .item() and `if` do")
        self.calls.append((func, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        """The same operations, from the same tensors into the same tensors."""
        for func, args, kwargs, out in self.calls:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if new.data_ptr() != old.data_ptr():  # a view is where it was
                    old.copy_(new)


def on_tape(compute: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Call `compute` once. Returns `replay`, and what `compute` has returned.

    Each replay writes its results to the tensors that were returned.
    """
    tape = Tape()
    with tape:
        out = compute()
    return tape.replay, out


class TapedStep:
    """In place of a torch.cuda.CUDAGraph: a step on tape."""

    def __init__(self, paged: PagedModel, batch: RaggedBatch, tape: Tape):
        """The step is on tape already; it has computed this batch."""
        self.paged, self.batch, self.tape, self.count = paged, batch, tape, 0

    def replay(self) -> None:
        """Compute the step again, from and to the places that it has always used."""
        self.count += 1
        with torch.inference_mode(), self.paged.attending(self.batch):
            self.tape.replay()


class TapedRunner(GraphRunner):
    """A GraphRunner without a GPU: its steps are on tape, and of few sizes.

    Its PagedModel must have an attention that knows padding: `padded_attention`.
    """

    _prompt_tokens = 16, 40

    def __init__(
        self,
        paged: PagedModel,
        max_sequences: int,
        max_tokens: int = 8192,
        twin: PreTrainedModel | None = None,
    ):
        """As GraphRunner. `twin`: to run in place of the PagedModel's."""
        self._twin = twin
        super().__init__(paged, max_sequences, max_tokens)

    def _capture_all(self) -> None:
        for size in self._sizes:
            self._fixed.send(size)
            tape = Tape()
            with tape:
                batch = self._forward(size)
            self._graphs[size] = Graph(TapedStep(self.paged, batch, tape), batch)

    @property
    def num_replays(self) -> int:
        """Of all steps together."""
        return sum(each.graph.count for each in self._graphs.values())


class SkippingCache(KVCache):
    """As the kernels' cache: a slot of -1 stores nothing."""

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """As `KVCache.write`, but for the tokens that only pad."""
        real = slots >= 0
        super().write(layer, slots[real], keys[real], values[real])

    def load_kernels(self) -> None:
        """There are none."""


def _attend_present(q: Tensor, cache: Any, batch: Any, masking: Any) -> Tensor:
    """As gathered_attention, which wants sequences that have new tokens."""
    present = batch.query_starts.diff() > 0
    starts = batch.query_starts
    batch = replace(
        batch,
        block_tables=batch.block_tables[present],
        context_lengths=batch.context_lengths[present],
        query_starts=torch.cat([starts[:1], starts[1:][present]]),
        scratch={},
    )
    return gathered_attention(q, cache, batch, masking)


# What padded steps need of an attention, and quick without a GPU.
padded_attention = Backend(_attend_present, SkippingCache)
