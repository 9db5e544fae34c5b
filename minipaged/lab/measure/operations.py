"""Lab: which operations of torch a computation calls, and what they move."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# These read as many numbers as they give, wherever these lie in their first argument.
TAKING = {"index_select", "index", "gather", "embedding", "take"}


class Operation(NamedTuple):
    """One call to torch."""

    name: str
    read: int  # bytes of its inputs; of a table it takes from, only what it takes
    written: int  # bytes of its result, if it writes one


def operations_of(compute: Callable[[], object]) -> list[Operation]:
    """What `compute` calls, in order; views are left out, for they move nothing.

    What an operation needs within itself is not seen, nor what a processor's cache
    saves: counted is what is given to it and what it gives.
    """
    with _Recorder() as recorder:
        compute()
    return recorder.found


class _Recorder(TorchDispatchMode):
    """Torch calls it in place of each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Operation] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        # In inference mode, `to` and `reshape` say that they are views when they copy.
        if not (func.is_view and _share_memory(args[0], out)):
            name = func.__name__.split(".")[0]
            self.found.append(Operation(name, *_moved(name, args, out)))
        return out


def _share_memory(tensor: torch.Tensor, out: Any) -> bool:
    """Does the result, or the first of several, lie in the tensor's memory?"""
    (first, *_) = tree_leaves(out)
    return first.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


def _moved(name: str, args: Any, out: Any) -> tuple[int, int]:
    """Bytes read and written."""
    written = _num_bytes(out)
    if name.removeprefix("new_").startswith("empty"):
        return 0, 0  # memory is handed out, and holds whatever it held
    if name.startswith("new_") or name in ("fill_", "zero_"):
        return 0, written
    if name in TAKING:
        return written + _num_bytes(args[1:]), written
    if name == "copy_":  # the first argument is written
        return _num_bytes(args[1:]), written
    return _num_bytes(args), written


def _num_bytes(tree: Any) -> int:
    """Of all tensors in it; of one that repeats its numbers, only what is stored."""
    tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return sum(min(t.nbytes, t.untyped_storage().nbytes()) for t in tensors)
