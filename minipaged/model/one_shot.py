"""Appendix H: the kernel that sums over ranks in one launch."""

from minipaged.attention.kernels.setup import tl, triton


@triton.jit
def sum_kernel(
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


def tiling(numel: int, most: int) -> tuple[int, int, int]:
    """How many programs, the numbers of a program's tile, and its warps."""
    tile = min(8192, max(1024, triton.next_power_of_2(triton.cdiv(numel, most))))
    warps = 4 if tile <= 1024 else 8
    return min(most, triton.cdiv(numel, tile)), tile, warps
