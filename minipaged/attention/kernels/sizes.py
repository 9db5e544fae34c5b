"""Lesson 6: how large the tiles are and how many programs run; rules, not searches.

The sizes follow from shapes and from the shortest and the longest context, which are
numbers that the CPU knows. Nothing asks the GPU, and nothing tries sizes out. A CUDA
graph keeps the sizes that it was captured with. The rules follow from what
benchmarks/gpu/tuning.py has measured on an H200 and an H100.
"""

import functools
import math
from typing import NamedTuple

import torch

from minipaged.attention.kernels.setup import INTERPRETED

LOG2_E = math.log2(math.e)


class Sizes(NamedTuple):
    """What a kernel is launched with."""

    rows: int  # (token, query head) pairs of one program
    tile: int  # positions whose K and V are read at a time
    num_warps: int
    num_stages: int  # depth of the pipeline: block ids first, then K and V


class Device(NamedTuple):
    """What the rules know of a GPU."""

    multiprocessors: int
    shared_bytes: int  # that one program may have
    matrix_dtypes: tuple[torch.dtype, ...]  # what its matrix units multiply
    can_overlap: bool  # launch a kernel before the kernel that it waits for has ended


@functools.cache
def device_of(index: int) -> Device:
    """The GPU of this number, asked once."""
    if INTERPRETED:  # large tiles are quickest there
        return Device(4, 2**18, (torch.float16, torch.float32), can_overlap=False)
    gpu = torch.cuda.get_device_properties(index)
    return Device(
        gpu.multi_processor_count,
        gpu.shared_memory_per_block_optin,
        (torch.float16, torch.bfloat16) if gpu.major >= 8 else (),
        can_overlap=gpu.major >= 9 and torch.version.hip is None,
    )


def padded(n: int, least: int = 16) -> int:
    """The next power of two; at least 16, which a matrix unit takes."""
    return max(least, 1 << (n - 1).bit_length())


def log2_scales(scale: float, softcap: float | None) -> tuple[float, float | None]:
    """(scale, softcap) so that exp2 of a logit equals exp of the model's logit."""
    if softcap is None:
        return scale * LOG2_E, None
    return scale / softcap, softcap * LOG2_E


def decode_sizes(
    q: torch.Tensor,
    values: torch.Tensor,
    num_seqs: int,
    shortest: int,
    longest: int,
) -> tuple[Sizes, int]:
    """Sizes for one new token of each sequence, and the number of splits.

    Each sequence and KV head is a piece of work, of `shortest` to `longest` positions.
    The memory is only busy while all multiprocessors have enough reads under way. On an
    H100 or H200 that is 128 KiB on each: the reads of four small programs, four medium
    programs, or two large programs.

    - Few pieces, less than 1.5 on each multiprocessor: small programs, and each piece
      is split so that at most four programs are on each.
    - More pieces: no splits. On each multiprocessor, three large programs or four
      medium programs run at a time, wave by wave; the programs whose waves are fuller
      are chosen. If one wave is enough, these are large, with more reads under way.
    - Uneven pieces, the longest above 1.25 times the shortest: large programs, and each
      piece is split until sixteen programs are on each, so that the ends even out; but
      a split has two tiles or more.

    A program with more than 16 query heads is large in any case.
    """
    device = device_of(q.device.index or 0)
    num_kv_heads = values.shape[2]
    rows = padded(q.shape[1] // num_kv_heads)
    on_each = num_seqs * num_kv_heads / device.multiprocessors
    large = Sizes(rows, tile=128, num_warps=4, num_stages=2)
    medium = Sizes(rows, tile=64, num_warps=2, num_stages=4)
    small = Sizes(rows, tile=32, num_warps=1, num_stages=5)
    sizes, num_splits = large, 1
    if longest > 1.25 * shortest:
        num_splits = min(int(16 / on_each), longest // 256)
    elif on_each < 1.5:
        sizes, num_splits = small, int(4 / on_each)
    elif _fullness(on_each, 4) > _fullness(on_each, 3):
        sizes = medium
    if rows > 16:  # more to compute
        sizes = large._replace(num_stages=3)
    elif num_splits <= 1 and max(q.shape[2], values.shape[3]) <= 64:
        sizes = sizes._replace(tile=2 * sizes.tile)  # short heads: as many bytes
    sizes = _fitted(sizes, q, values, device)
    # A split has a tile at least, and a program can merge 256 splits at most.
    return sizes, max(1, min(num_splits, -(-longest // sizes.tile), 256))


def _fullness(programs: float, at_a_time: int) -> float:
    """The share of places in use if programs run in waves of `at_a_time`."""
    return programs / (at_a_time * math.ceil(programs / at_a_time))


def step_sizes(
    q: torch.Tensor,
    values: torch.Tensor,
    num_seqs: int,
    shortest: int,
    longest: int,
    in_eight_bits: bool = False,
) -> tuple[Sizes, int, bool]:
    """Sizes for one launch a layer; how many pieces a step is cut into; merged apart?

    The GPU cuts the pieces, by the real lengths, and begins with the longest piece. So
    the ends even out, and two or three pieces for each multiprocessor are enough; four,
    if heads are short. Programs are large. But if uneven lengths make several waves,
    smaller programs hide better how each wave begins: four on each multiprocessor at a
    time; with very many pieces, six.

    `shortest` and `longest` only say whether lengths are even. If they are, all pieces
    end at the same time. If there is little to read (short heads, or a few sequences
    that are longer than 1,024), four small programs on each multiprocessor have the
    most reads under way; but each must have 64 positions or more. If there is more to
    read, the last wave should be full: see `_even_pieces`.

    Few sequences may be cut into many pieces, and one program for each KV head would
    take long to merge them. So a separate launch merges (True), if it can begin early.
    Long heads take long to merge, too; four medium programs read them quickest, again
    if each has 64 positions or more.

    K and V `in_eight_bits` have half the bytes. So in each program two tiles are under
    way, small programs are medium, and two pieces for each multiprocessor are enough
    where there are up to seven sequences and KV heads.
    """
    device = device_of(q.device.index or 0)
    num_kv_heads, dim = values.shape[2], max(q.shape[2], values.shape[3])
    rows, is_short = padded(q.shape[1] // num_kv_heads), dim <= 64
    on_each = num_seqs * num_kv_heads / device.multiprocessors
    is_even = longest <= 1.25 * shortest
    four = 4 * device.multiprocessors // num_kv_heads
    is_enough = num_seqs * longest >= 64 * four
    is_little = longest > 1024 and (is_short or on_each < 1 / 4)
    is_little = is_little or (is_short and on_each >= 1 / 2)
    apart = on_each < (0.25 if is_even else 0.4)
    sizes = Sizes(rows, tile=128, num_warps=4, num_stages=2)
    has_few = on_each < (7 if in_eight_bits else 2)
    pieces = 4 if is_short and rows <= 64 else 2 if has_few else 3
    target = pieces * device.multiprocessors // num_kv_heads
    if rows > 64:  # much more to compute
        sizes = Sizes(rows, tile=64, num_warps=4, num_stages=4)
    elif rows > 16:
        sizes = sizes._replace(num_stages=3)
    elif dim > 128 and on_each < 1:
        if is_enough:
            sizes = Sizes(rows, tile=64, num_warps=2, num_stages=4)
            target, apart = four, True
    elif not is_even:
        if on_each >= 14 and not is_short:
            sizes = Sizes(rows, tile=32, num_warps=1, num_stages=5)
        elif on_each >= 7 and not is_short:
            sizes = Sizes(rows, tile=64, num_warps=4, num_stages=4)
    elif is_little and is_enough:
        sizes = Sizes(rows, tile=32, num_warps=1, num_stages=5)
        target = four
    elif on_each >= 1.5:
        pieces, at_a_time = _even_pieces(on_each, longest)
        target = num_seqs * pieces if pieces > 1 else 1
        if at_a_time == 4:
            sizes = Sizes(rows, tile=64, num_warps=2, num_stages=4)
    if in_eight_bits and sizes.tile <= 64:
        sizes = Sizes(rows, tile=64, num_warps=2, num_stages=4)
    sizes = _fitted(sizes, q, values, device)
    if in_eight_bits:  # as large as one tile in 16 bits
        sizes = sizes._replace(num_stages=6)
    apart = apart and longest > sizes.tile  # else no sequence is cut
    apart = apart and (device.can_overlap or INTERPRETED)
    return sizes, max(1, target), apart


def _even_pieces(on_each: float, length: int) -> tuple[int, int]:
    """How many pieces a sequence is cut into, and how many programs run at a time.

    On each multiprocessor, three large programs or four medium programs: whichever
    fills the waves better. Another piece has to fill them better by 3 %, and pieces
    have 1,500 positions or more.
    """
    best, most = (1, 3), 0.0
    for pieces in range(1, max(1, min(4, length // 1500)) + 1):
        for at_a_time in (3, 4):
            if (full := _fullness(on_each * pieces, at_a_time)) > most + 0.03:
                best, most = (pieces, at_a_time), full
    return best


def prefill_sizes(q: torch.Tensor, values: torch.Tensor) -> Sizes:
    """Sizes for many new tokens of a sequence, where arithmetic is the limit.

    The more rows share a tile of K and V, the fewer reads for each multiplication. But
    there should be two programs for every multiprocessor, so programs of short prompts
    are smaller.
    """
    device = device_of(q.device.index or 0)
    num_tokens, num_heads, _ = q.shape
    small = Sizes(rows=64, tile=64, num_warps=4, num_stages=3)
    large = Sizes(rows=256, tile=64, num_warps=8, num_stages=3)
    has_many = num_tokens * num_heads > 2 * device.multiprocessors * large.rows
    fits = max(q.shape[2], values.shape[3]) <= 128  # a program's registers
    sizes = large if has_many and fits else small
    return _fitted(sizes, q, values, device)


def sizes_in_fixed_order(q: torch.Tensor, values: torch.Tensor) -> Sizes:
    """Sizes that depend on heads and their types, and on no number of tokens.

    64 rows are the fewest that Hopper's matrix units take. To decode, they stay almost
    empty, but then the memory is the limit.
    """
    device = device_of(q.device.index or 0)
    return _fitted(
        Sizes(rows=64, tile=64, num_warps=4, num_stages=3), q, values, device
    )


def _fitted(
    sizes: Sizes, q: torch.Tensor, values: torch.Tensor, device: Device
) -> Sizes:
    """The sizes, changed to fit other shapes and devices than those measured."""
    group_rows = padded(q.shape[1] // values.shape[2])
    if q.dtype not in device.matrix_dtypes:  # then all numbers go through registers
        return Sizes(group_rows, tile=16, num_warps=4, num_stages=2)
    rows = max(sizes.rows, group_rows)
    row_bytes = 2 * padded(max(q.shape[2], values.shape[3])) * q.element_size()
    # As many bytes of K and V as a tile of 16-bit numbers in heads of 128 has.
    tile = max(16, sizes.tile * 512 // max(512, row_bytes))
    room = device.shared_bytes - rows * row_bytes // 2
    while tile > 16 and (sizes.num_stages - 1) * tile * row_bytes > room:
        tile //= 2
    # Where even the smallest tiles do not fit, fewer of them are under way.
    num_stages = max(2, min(sizes.num_stages, 1 + room // (tile * row_bytes)))
    return sizes._replace(rows=rows, tile=tile, num_stages=num_stages)
