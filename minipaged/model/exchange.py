"""Appendix H: what ranks exchange in a forward: sums, and parts of logits.

A compiler gets them as operators of torch, which it leaves as they are, and a CUDA
graph captures them with everything else. Both return a new tensor, the same on all
ranks.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from minipaged.model.ranks_memory import ranks_memory

# Before torch 2.13, it had another name.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def sum_over_ranks(x: Tensor) -> Tensor:
    """The sum of the tensors with which all ranks call this."""
    return _sum(x) if torch.compiler.is_compiling() else _sum_now(x)


def gather_from_ranks(x: Tensor, place: Tensor | None = None) -> Tensor:
    """[..., n] of each rank, side by side: [..., n * ranks].

    place: [most rows, n * ranks], where the result is written if it has room there.
    Compiled code makes a tensor of its own.
    """
    return _gather(x) if torch.compiler.is_compiling() else _gather_now(x, place)


def _sum_now(x: Tensor) -> Tensor:
    memory = ranks_memory(x.device)
    if memory is not None and memory.has_room_for(x):
        return memory.sum(x)
    out = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(out)
    return out


def _gather_now(x: Tensor, place: Tensor | None = None) -> Tensor:
    count = dist.get_world_size()
    parts = x.new_empty(count * x.shape[0], *x.shape[1:])
    _all_gather(parts, x.contiguous())
    num_rows, width = x[..., 0].numel(), x.shape[-1]
    parts = parts.view(count, num_rows, width)
    has_room = place is not None and num_rows <= len(place)
    out = place[:num_rows] if has_room else None
    # [ranks, rows, n] -> [rows, ranks * n]; on a GPU, this is quicker than a reshape.
    whole = torch.cat(parts.unbind(), dim=1, out=out)
    return whole.view(*x.shape[:-1], count * width)


@torch.library.custom_op("minipaged::sum_over_ranks", mutates_args=())
def _sum(x: Tensor) -> Tensor:
    return _sum_now(x)


@_sum.register_fake
def _(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("minipaged::gather_from_ranks", mutates_args=())
def _gather(x: Tensor) -> Tensor:
    return _gather_now(x)


@_gather.register_fake
def _(x):
    return x.new_empty(*x.shape[:-1], x.shape[-1] * dist.get_world_size())
