"""Appendix H: memory that all ranks' GPUs can read, and a sum through it in one launch.

NCCL sums the small tensors of a step that decodes in 10 to 20 microseconds, most of
which it waits. There are two sums in each layer, so a lone user waits for them longer
than for half of the weights. Here, each rank puts its tensor where the others can read
it, says so, waits until all have said so, and reads: "one shot". For two ranks, this
sends no more bytes than any other way.

Source: PyTorch's symmetric memory, and its `one_shot_all_reduce`.
"""

import warnings
from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor

_PROGRAMS = 128  # at most so many, of which each has its own place in the memory
_ROOM = 1 << 17  # bytes of such a place
_TYPES = torch.bfloat16, torch.float16, torch.float32


class RanksMemory:
    """A piece of memory on each rank's GPU, which the other ranks can read, too.

    Each program of the kernel has two places in it, which it uses in turns, and a flag
    for each rank, which says how many sums that rank's program has begun. When all
    flags say that the present sum has begun, the last but one has ended everywhere: so
    its place may be written to.
    """

    def __init__(self, device: torch.device):
        """All ranks must call this. Raises RuntimeError if their GPUs cannot."""
        import torch.distributed._symmetric_memory as symmetric

        self.rank = dist.get_rank()
        self.count = dist.get_world_size()
        num_flags = _PROGRAMS * self.count * 4  # bytes
        self._start = -(-num_flags // 1024) * 1024
        size = self._start + 2 * _PROGRAMS * _ROOM
        self._memory = symmetric.empty(size, dtype=torch.uint8, device=device)
        self._memory.zero_()
        handle = symmetric.rendezvous(self._memory, dist.group.WORLD.group_name)
        self._handle = handle  # as long as it lives, the others' memory is there
        addresses = [pointer + self._offset for pointer in handle.buffer_ptrs]
        self._addresses = torch.tensor(addresses, dtype=torch.int64, device=device)
        self._begun = torch.zeros(_PROGRAMS, dtype=torch.int32, device=device)
        torch.cuda.synchronize(device)
        dist.barrier()  # all flags are 0

    @property
    def _offset(self) -> int:
        """Of our tensor in the memory that was asked for: torch may put it anywhere."""
        return self._memory.data_ptr() - self._handle.buffer_ptrs[self.rank]

    @property
    def most_bytes(self) -> int:
        """The largest tensor that is summed here."""
        return _PROGRAMS * _ROOM

    def has_room_for(self, x: Tensor) -> bool:
        """Is it one of the tensors that are summed here?"""
        return x.dtype in _TYPES and 0 < x.nbytes <= self.most_bytes

    def sum(self, x: Tensor) -> Tensor:
        """The sum of all ranks' tensors, in float32, from rank 0 to the last."""
        from minipaged.model.one_shot import sum_in_one_launch  # which needs Triton

        return sum_in_one_launch(
            x.contiguous(), self._addresses, self._begun, self._start, _ROOM, self.rank
        )


@cache
def ranks_memory(device: torch.device) -> RanksMemory | None:
    """The memory of these ranks, made by the first call; None where there is none.

    All ranks must make the first call together.
    """
    if device.type != "cuda":
        return None
    memory = None
    try:
        memory = RanksMemory(device)
    except RuntimeError as error:
        text = f"NCCL computes all sums, for the GPUs share no memory ({error!s:.200})"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    found = torch.tensor([memory is not None], dtype=torch.int32, device=device)
    dist.all_reduce(found, op=dist.ReduceOp.MIN)
    return memory if found.item() else None
