"""Lab: how much memory a computation takes at most, measured as it is allocated."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_extra_bytes(compute: Callable[[], object]) -> int:
    """The most memory that `compute` held at any moment, beyond what was there before.

    If it uses a GPU, that is what the GPU's allocator says. On a CPU every tensor is
    counted that an operation of torch returns, from then until it is freed; what one
    operation needs within itself is not seen.
    """
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    with _Counter() as counter:
        compute()
    if has_gpu:
        torch.cuda.synchronize()
        if on_gpu := torch.cuda.max_memory_allocated() - before:
            return on_gpu
    return counter.peak


class _Counter(TorchDispatchMode):
    """Adds up the bytes of the storages that are made and freed while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: dict[int, weakref.ref] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for tensor in _tensors((args, kwargs)):  # what was there before costs nothing
            self._note(tensor, is_new=False)
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            self._note(tensor, is_new=True)
        return out

    def _note(self, tensor: torch.Tensor, is_new: bool) -> None:
        storage = tensor.untyped_storage()
        known = self._known.get(id(storage))
        if known is not None and known() is storage:
            return
        self._known[id(storage)] = weakref.ref(storage)
        if is_new:
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._freed, storage.nbytes())

    def _freed(self, num_bytes: int) -> None:
        self.live -= num_bytes


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
