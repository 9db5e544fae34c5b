"""Appendix A: how an engine's steps are computed: eagerly, or from CUDA graphs."""

import warnings
from importlib.util import find_spec
from typing import Literal

import numpy as np
from torch import Tensor

from minipaged.errors import UnsupportedModel
from minipaged.model.inputs import RaggedBatch
from minipaged.model.paged_model import PagedModel
from minipaged.model.persistent_inputs import (
    Pending,
    PersistentInputs,
    StepArrays,
    to_device,
)
from minipaged.model.twin import has_own_forward, hooks_of
from minipaged.scheduling.plan import Plan

Run = Literal["eager", "graphs", "compiled"]


class Runner:
    """Computes plans eagerly: `PagedModel.forward`, from inputs that are kept.

    Attributes: paged; inputs; name, as in `Engine(run=name)`; runs_ahead: an engine
    hands it the next step before it has read the last one. Subclasses set the last two.
    """

    name: Run = "eager"
    runs_ahead = False
    takes_pending = True  # tokens that the CPU has not read yet
    num_guesses = 0  # of a sequence, that a step checks

    def __init__(self, paged: PagedModel):
        """Nothing is computed yet."""
        self.paged = paged
        self.inputs = PersistentInputs(paged.device)

    def compute(
        self, plan: Plan, pending: Pending | None = None
    ) -> tuple[RaggedBatch, Tensor]:
        """The plan's batch, and the logits that it asks for, both on the device.

        pending: tokens of the step before that the CPU has not read yet. Nothing waits
        for the device. The logits are [R, vocabulary], in float32; a runner that runs
        ahead may keep the model's type. They hold until the next call. Raises
        ValueError if weights of the model were replaced.
        """
        arrays = self.inputs.arrays(plan, pending)
        return self.compute_arrays(arrays, plan.copies, pending)

    def compute_arrays(
        self,
        arrays: StepArrays,
        copies: list[tuple[int, int]],
        pending: Pending | None = None,
    ) -> tuple[RaggedBatch, Tensor]:
        """As `compute`, a step that was packed into arrays: by another rank, say.

        Of `pending`, tensors alone are read. A runner that replays graphs overrides
        this.
        """
        block_size = self.paged.pool.block_size
        batch = arrays.on_device(self.paged.device, block_size, copies, pending)
        return batch, self.forward(batch)

    def last_logits(
        self, plan: Plan, pending: Pending | None = None, num_more: int = 0
    ) -> Tensor:
        """The logits of the last token of each work that asks for any.

        Weights may go unchecked. num_more: how often `next_logits` may follow.
        """
        return of_last_tokens(plan, self.compute(plan, pending)[1])

    def next_logits(self, chosen: Tensor) -> Tensor | None:
        """The logits after another token of the first sequences of `last_logits`.

        chosen: [S] int64, their next tokens, for which their tables have room. None if
        this runner must be handed a plan.
        """
        return None

    def forward(self, batch: RaggedBatch) -> Tensor:
        """The logits of this batch, which holds all that a step needs, copies included.

        A runner of compiled layers overrides this.
        """
        return self.paged.forward(batch)

    def like(self, paged: PagedModel) -> "Runner":
        """A runner of this kind for another model (appendix E)."""
        return type(self)(paged)

    def close(self) -> None:
        """Give its memory back; a second call changes nothing."""


def of_last_tokens(plan: Plan, logits: Tensor) -> Tensor:
    """Of a plan's logits, those of the last token of each work that asks for any."""
    counts = [work.num_logits for work in plan.works if work.num_logits]
    most = max(counts, default=1)
    if sum(counts) == most * len(counts):  # as many each: a view
        return logits[most - 1 : sum(counts) : most]
    (rows,) = to_device([np.cumsum(counts, dtype=np.int64) - 1], logits.device)
    return logits[rows]


def make_runner(
    paged: PagedModel,
    run: Run | None,
    max_sequences: int,
    max_tokens: int,
    num_guesses: int = 0,
) -> Runner:
    """The runner of this name; without a name, the fastest that works here.

    A step has up to `max_sequences` sequences, and `max_tokens` new tokens. It checks
    up to `num_guesses` of a sequence.

    Raises ValueError for an unknown name, and where it cannot run; UnsupportedModel if
    the model waits for the GPU in its forward; MemoryError if there is no room.
    """
    if run not in (None, "eager", "graphs", "compiled"):
        raise ValueError(
            f'run must be "eager", "graphs" or "compiled", got {run!r:.60}'
        )
    why_not = why_no_graphs(paged)
    if run == "eager" or (run is None and why_not):
        return Runner(paged)
    if why_not:
        raise ValueError(f'run="{run}" {why_not}; or leave it at run="eager"')
    from minipaged.model.graphs import GraphRunner

    if run == "compiled":
        from minipaged.model.compiled import CompiledRunner

        return CompiledRunner(paged, max_sequences, max_tokens, num_guesses)
    try:
        return GraphRunner(paged, max_sequences, max_tokens, num_guesses)
    except UnsupportedModel as error:
        if run is not None:
            raise
        warnings.warn(str(error), RuntimeWarning, stacklevel=3)
        return Runner(paged)


def why_no_graphs(paged: PagedModel) -> str | None:
    """What is missing for CUDA graphs, and what to do; None if nothing is."""
    if paged.device.type != "cuda":
        return (
            f"needs a GPU, and the model is on the {paged.device.type}: move it with "
            "model.to('cuda') before you wrap it"
        )
    modules = list(paged.twin.modules())
    if any(map(hooks_of, modules)) or any(map(has_own_forward, modules)):
        return (
            "would repeat what the model's hooks, or a forward that was replaced, did "
            "once, whatever they do later: remove them before you wrap it"
        )
    if find_spec("triton") is not None:
        from minipaged.attention.kernels.attention import triton_attention  # lesson 6
        from minipaged.attention.kernels.fixed_order import fixed_order_kernels

        never_wait = triton_attention, fixed_order_kernels
    if find_spec("triton") is None or paged.attention not in never_wait:
        return (
            "needs attention that never waits for the GPU: wrap the model with "
            "mp.PagedModel(model, attention='triton')"
        )
    return None
