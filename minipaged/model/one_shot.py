"""Appendix H: the kernel that sums over ranks in one launch."""

import torch
from torch import Tensor

from minipaged.attention.kernels.setup import tl, triton


@triton.jit
def _sum_kernel(
    x,  # [numel]
    out,  # [numel]
    addresses,  # [COUNT]: of each rank's memory: flags, then places
    begun,  # [programs]: how many sums this rank's programs have begun
    numel,
    start,  # bytes before the first place
    room,  # numbers that a place holds
    RANK: tl.constexpr,
    COUNT: tl.constexpr,
    TILE: tl.constexpr,
):
    program = tl.program_id(0)
    number = tl.load(begun + program) + 1
    place = (2 * program + (number & 1)).to(tl.int64) * room
    kind = tl.pointer_type(x.dtype.element_ty)
    stride = tl.num_programs(0) * TILE
    first = program * TILE
    rounds = tl.cdiv(numel - first, stride)
    mine = tl.multiple_of((tl.load(addresses + RANK) + start).to(kind), 16) + place
    within = tl.arange(0, TILE)
    for turn in range(rounds):
        at = first + turn * stride + within
        numbers = tl.load(x + at, mask=at < numel)
        tl.store(mine + turn * TILE + within, numbers, mask=at < numel)
    tl.debug_barrier()  # all threads have written, before one of them says so
    for rank in tl.static_range(COUNT):
        if rank != RANK:
            flags = tl.load(addresses + rank).to(tl.pointer_type(tl.int32))
            flag = flags + program * COUNT + RANK
            tl.atomic_xchg(flag, number, sem="release", scope="sys")
    for rank in tl.static_range(COUNT):
        if rank != RANK:
            flags = tl.load(addresses + RANK).to(tl.pointer_type(tl.int32))
            flag = flags + program * COUNT + rank
            # A rank may be one sum further already.
            while tl.atomic_add(flag, 0, sem="acquire", scope="sys") - number < 0:
                pass
    tl.debug_barrier()  # no thread reads before all flags were seen
    for turn in range(rounds):
        at = first + turn * stride + within
        total = tl.zeros([TILE], tl.float32)
        for rank in tl.static_range(COUNT):
            theirs = (tl.load(addresses + rank) + start).to(kind)
            theirs = tl.multiple_of(theirs, 16) + place
            numbers = tl.load(theirs + turn * TILE + within, mask=at < numel)
            total += numbers.to(tl.float32)
        tl.store(out + at, total.to(out.dtype.element_ty), mask=at < numel)
    tl.store(begun + program, number)


def sum_in_one_launch(
    x: Tensor, addresses: Tensor, begun: Tensor, start: int, room: int, rank: int
) -> Tensor:
    """The sum of the tensors of all ranks; those who call this are at the same sum.

    x: this rank's, contiguous. addresses: [ranks] int64, of each rank's memory. begun:
    [programs] int32, how many sums this rank's programs have begun. start, room: bytes
    before the first place, and of a place. Each rank adds in float32, from rank 0 on.
    """
    out = torch.empty_like(x)
    most = len(begun)
    tile = triton.next_power_of_2(triton.cdiv(x.numel(), most))
    tile = min(8192, max(1024, tile))
    _sum_kernel[(min(most, triton.cdiv(x.numel(), tile)),)](
        x, out, addresses, begun, x.numel(), start, room // x.element_size(),
        RANK=rank, COUNT=len(addresses), TILE=tile, num_warps=4 if tile <= 1024 else 8,
    )  # fmt: skip
    return out
