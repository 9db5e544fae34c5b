"""Appendix H: a model whose heads are shared out among ranks (paper, section 4.6)."""

import atexit
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from math import gcd
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.distributed import DistributedConfig

from minipaged.errors import RankFailed, UnsupportedModel
from minipaged.model.inputs import RaggedBatch
from minipaged.model.paged_model import PagedModel
from minipaged.model.persistent_inputs import Pending, StepArrays
from minipaged.model.rank_connections import PATIENCE
from minipaged.model.ranks import Ranks
from minipaged.model.runner import Runner
from minipaged.scheduling.plan import Plan

_KEYS = ("k_proj", "qkv_proj", "query_key_value")
_HEADS = (
    "num_attention_heads", "num_key_value_heads", "num_global_key_value_heads",
)  # fmt: skip


def sharding(config: PreTrainedConfig, count: int) -> dict[str, Any]:
    """What tells `from_pretrained` to load this rank's share of a model; of `count`.

    Raises UnsupportedModel, before weights are loaded, if transformers has no plan for
    such a model, or if heads cannot be shared out.
    """
    config = config.get_text_config()
    plan = getattr(config, "base_model_tp_plan", None)
    if not plan:
        raise UnsupportedModel(
            f"transformers has no plan to share out a model of type "
            f"{config.model_type} (base_model_tp_plan): load it without tp, on one GPU"
        )
    heads = set(_heads_of(config))
    if _shares_heads(plan) and any(number % count for number in heads):
        raise UnsupportedModel(
            f"{count} ranks cannot share out heads of which there are "
            f"{' and '.join(map(str, sorted(heads)))} in a layer: start as many ranks "
            f"as divide {gcd(*heads)}"
        )
    return {"distributed_config": DistributedConfig(tp_plan="auto")}


def _shares_heads(plan: dict[str, str]) -> bool:
    """Does a rank compute the keys of its own heads alone?"""
    return any(
        style == "colwise" and name.rpartition(".")[2] in _KEYS
        for name, style in plan.items()
    )


def _heads_of(config: PreTrainedConfig) -> Iterator[int]:
    """Numbers of heads in a layer: of queries, and of K and V."""
    for name in _HEADS:
        number = getattr(config, name, None)
        yield from number if isinstance(number, list) else filter(None, [number])


def ranks_of(model: PreTrainedModel) -> Ranks | None:
    """The ranks that share this model out; None if it lies in one process.

    All models of a process have the same ranks, and take turns: a collective of one
    model must not meet a collective of another.
    """
    return None if model.tp_size == 1 else connect()


@cache
def connect() -> Ranks:
    """Connect the processes that torchrun has started; all of them must call this.

    Raises RankFailed if one of them does not come.
    """
    if dist.is_initialized():
        return Ranks(_store_of_a_group(), dist.get_rank(), dist.get_world_size())
    try:
        patience = timedelta(seconds=PATIENCE)
        store, rank, count = next(dist.rendezvous("env://", timeout=patience))
        ranks = Ranks(store, rank, count)
    except (OSError, EOFError, RuntimeError) as error:
        raise RankFailed(
            f"not all ranks have come within {PATIENCE:g} s, or one has ended; "
            f"start all anew ({type(error).__name__}: {error})"
        ) from error
    with ranks.alike("torch.distributed"):
        device = None
        if torch.cuda.is_available():
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
        dist.init_process_group(
            "gloo" if device is None else "nccl",
            store=store,
            rank=rank,
            world_size=count,
            # Some ranks read their weights more slowly than others.
            timeout=timedelta(hours=2),
            device_id=device,
        )
    # A thread of PyTorch's that outlives Python may abort the process.
    atexit.register(ranks.close)
    return ranks


def _store_of_a_group() -> dist.Store:
    """A store of all ranks whose script has called `init_process_group` before."""
    host = os.environ.get("MASTER_ADDR", "localhost")
    store, port = None, [0]
    if not dist.get_rank():
        store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
        port = [store.port]
    dist.broadcast_object_list(port)
    return store or dist.TCPStore(host, port[0])


class LeadingRunner(Runner):
    """Rank 0's runner: the others get the inputs of a step, and compute it, too."""

    def __init__(self, runner: Runner):
        """runner: of the same kind as the others' runners."""
        super().__init__(runner.paged)
        self._runner = runner
        self.name = runner.name
        self.runs_ahead = runner.runs_ahead

    def compute(
        self, plan: Plan, pending: Pending | None = None
    ) -> tuple[RaggedBatch, Tensor]:
        """As `Runner.compute`, on all ranks."""
        arrays = self.inputs.arrays(plan, pending)
        sent = []
        if pending is not None:
            sent = [x for x in (pending.tokens, pending.back) if x is not None]
        with self.paged.ranks.waiting():
            lengths = [len(tensor) for tensor in sent]
            self.paged.ranks.tell("compute", arrays, plan.copies, lengths)
            for tensor in sent:
                broadcast(tensor)
            return self._runner.compute_arrays(arrays, plan.copies, pending)

    def like(self, paged: PagedModel) -> Runner:
        """A runner for a draft model, which rank 0 has to itself."""
        return self._runner.like(paged)

    def close(self) -> None:
        """Close this rank's runner."""
        self._runner.close()


def broadcast(tokens: Tensor) -> None:
    """Bring rank 0's numbers to all ranks, from GPU to GPU: the CPU goes on at once."""
    with torch.inference_mode():
        dist.broadcast(tokens, src=0)


def doing(runner: Runner) -> dict[str, Callable[..., Any]]:
    """What the other ranks do when rank 0 tells them."""
    paged = runner.paged

    def compute(
        arrays: StepArrays, copies: list[tuple[int, int]], lengths: list[int]
    ) -> None:
        """lengths: of the pending tokens, and of how far they are moved back."""
        pending = None
        with paged.ranks.waiting():
            with torch.inference_mode():
                size = {"dtype": torch.int64, "device": paged.device}
                sent = [torch.empty(length, **size) for length in lengths]
            for tensor in sent:
                broadcast(tensor)
            if sent:
                tokens, *back = sent
                pending = Pending((tokens,), {}, *back)
            runner.compute_arrays(arrays, copies, pending)

    return {
        "compute": compute,
        "refuse_changes": paged.refuse_changes,
        "refuse_altered_modules": paged.refuse_altered_modules,
    }
