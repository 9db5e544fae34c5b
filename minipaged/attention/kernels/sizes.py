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
    registers: int | None = None  # of a thread, at most


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


def are_even(shortest: int, longest: int) -> bool:
    """Do pieces of all sequences end at about the same time?"""
    return longest <= 1.25 * shortest


class _Step(NamedTuple):
    """What the host knows of a step that decodes."""

    num_seqs: int
    rows: int  # of a program
    rows_of_one: float  # of the plan, if each multiprocessor gets one piece
    on_each: float  # sequences and KV heads for each multiprocessor
    shortest: int
    longest: int

    @property
    def is_even(self) -> bool:
        """Do all pieces end at about the same time?"""
        return are_even(self.shortest, self.longest)

    @property
    def is_spread(self) -> bool:
        """Is a sequence much longer than others?"""
        return self.longest > 16 * self.shortest

    @property
    def positions(self) -> float:
        """For each multiprocessor to read, if lengths lie evenly between their ends."""
        return self.on_each * (self.shortest + self.longest) / 2

    @property
    def fills_four(self) -> bool:
        """Four places on each multiprocessor, clearly better than three?"""
        if not self.is_even:
            return self.on_each >= 4 and not self.is_spread
        if self.on_each < 3 and self.longest < 1250:
            return False  # too short to be cut for it
        three, four = (
            _fullness(self.on_each * max(1, int(places / self.on_each)), places)
            for places in (3, 4)
        )
        return four > three + 0.1

    def cut(
        self, sizes: Sizes, pieces: float, apart: bool = False, early: bool = False
    ) -> "_Cut":
        """Into so many pieces for each multiprocessor."""
        return _Cut(sizes, int(pieces * self.rows_of_one), apart, early, fill=apart)

    def fill(self, sizes: Sizes, places: int, early: bool = False) -> "_Cut":
        """So many places on each multiprocessor."""
        return self.cut(sizes, places, early=early)._replace(fill=True)

    def cut_each(self, sizes: Sizes, pieces: int, apart: bool = False) -> "_Cut":
        """Each sequence into so many pieces."""
        target = self.num_seqs * pieces
        return _Cut(sizes, target, apart, early=False, fill=False, exact=True)

    def whole(self, sizes: Sizes) -> "_Cut":
        """Each sequence in one piece."""
        return self.cut_each(sizes, 1)._replace(target=1)


class _Cut(NamedTuple):
    """What `step_sizes` returns."""

    sizes: Sizes
    target: int  # pieces, or places
    apart: bool  # is there a separate launch that merges?
    early: bool  # may the next layer's launch begin early?
    fill: bool  # places (see `pieces`)
    exact: bool = False  # no more pieces than `target`, or than there are sequences


def step_sizes(
    q: torch.Tensor,
    values: torch.Tensor,
    num_seqs: int,
    shortest: int,
    longest: int,
    in_eight_bits: bool = False,
    together: int = 1,
) -> _Cut:
    """Sizes of a layer's launch, and how a step is cut into pieces.

    The GPU cuts the pieces, by the real lengths, and begins with the longest piece.
    `shortest` and `longest` only say how much there is to read, and whether lengths are
    even: then all pieces end at the same time, and waves of programs should be full.

    Few sequences may be cut into many pieces, and one program for each KV head would
    take long to merge them. So a separate launch merges, if it can begin early.

    From Hopper on, a launch may begin before the kernel before it has ended, and then
    waits. If a step's launch lets the next one begin early, too, the programs of the
    next layer take places as they become free. That is quicker where the programs fill
    all places, or have little to read. If many places stay empty, some multiprocessors
    get more programs than others, and the layer waits for them: it took up to 1.37
    times as long, measured layer after layer.

    If a few programs begin when the others have ended, most of the memory's speed is
    not used meanwhile. So a plan may fill the places that the GPU has (see `pieces`).

    The grid has room for any lengths, so some programs have no piece. Until they
    return, they take places: a layer took up to 1.03 times as long. If lengths are
    even and sequences are cut alike, the number of pieces is known, so the grid is
    exact.

    A CUDA graph is captured for any lengths, so it never has the sizes for even ones.

    The rules were made from random batches on an H200: see benchmarks/README.md.
    """
    device = device_of(q.device.index or 0)
    num_kv_heads = values.shape[2] // together  # as programs read them
    dim = together * max(q.shape[2], values.shape[3])
    step = _Step(
        num_seqs,
        padded(q.shape[1] // num_kv_heads),
        device.multiprocessors / num_kv_heads,
        max(1, num_seqs) * num_kv_heads / device.multiprocessors,
        shortest,
        max(1, longest),
    )
    if step.rows > 16:
        cut = _many_query_heads(step, dim)
    elif in_eight_bits:
        cut = _eight_bits(step, dim, q.shape[1] // num_kv_heads, num_kv_heads)
    elif dim > 128:
        cut = _long_heads(step)
    elif dim <= 64:
        cut = _short_heads(step)
    else:
        cut = _heads_of_128(step)
    sizes = _fitted(cut.sizes, q, values, device)
    if in_eight_bits:  # as large as one tile in 16 bits
        sizes = sizes._replace(num_stages=6)
    apart = cut.apart and longest > sizes.tile  # else no sequence is cut
    apart = apart and (device.can_overlap or INTERPRETED)
    return cut._replace(
        sizes=sizes,
        target=max(1, cut.target),
        apart=apart,
        early=cut.early and device.can_overlap,
        fill=cut.fill and apart == cut.apart,
    )


def _large(step: _Step) -> Sizes:
    """Three of these fit on a multiprocessor, of heads of 128."""
    return Sizes(step.rows, tile=128, num_warps=4, num_stages=2)


def _wide(step: _Step) -> Sizes:
    """Half as large, and as many threads: three fit, also of heads of 256."""
    return Sizes(step.rows, tile=64, num_warps=4, num_stages=4)


def _deep(step: _Step) -> Sizes:
    """The same with two tiles under way: three fit."""
    return Sizes(step.rows, tile=64, num_warps=4, num_stages=5)


def _medium(step: _Step) -> Sizes:
    """Four of these fit."""
    return Sizes(step.rows, tile=64, num_warps=2, num_stages=4)


def _short(step: _Step) -> Sizes:
    """A quarter as large, with more tiles under way: three fit of heads of 256."""
    return Sizes(step.rows, tile=32, num_warps=4, num_stages=5)


def _slim(step: _Step) -> Sizes:
    """The same with half as many threads: four fit of heads of 256."""
    return Sizes(step.rows, tile=32, num_warps=2, num_stages=5)


def _small(step: _Step) -> Sizes:
    """Six of these fit."""
    return Sizes(step.rows, tile=32, num_warps=1, num_stages=5)


def _is_apart(step: _Step) -> bool:
    return step.on_each < (0.25 if step.is_even else 0.4)


def _heads_of_128(step: _Step) -> _Cut:
    """Also of other sizes, above 64."""
    has_much = step.positions >= 256 and step.longest > 1024
    if step.on_each < 0.25:
        if has_much and step.is_even:
            return step.cut(_small(step), 4, apart=True)
        return step.cut(_large(step), 2, apart=True, early=not has_much)
    if step.is_even and step.on_each < 0.4 and step.positions >= 900:
        return step.cut_each(_medium(step), int(4 / step.on_each), apart=True)
    if step.is_even:
        return _even(step, _large(step), step.longest)
    # In so long contexts, a place that stays empty costs more than a merge apart.
    if has_much and step.on_each < (0.6 if step.longest > 6144 else 0.5):
        return step.cut(_medium(step), 4, apart=True, early=True)
    if step.on_each < 0.4:
        return step.cut(_large(step), 2, apart=True, early=True)
    if step.on_each < 3 and step.positions < 3000:
        return step.cut(_large(step), 3, early=True)
    if step.on_each < 1 and not step.is_spread:
        return step.fill(_medium(step), 4, early=True)
    if 1 <= step.on_each < 2:
        return step.fill(_large(step), 3)
    # Many uneven pieces: smaller programs hide better how each begins.
    if step.on_each >= 7:
        return step.cut(_small(step) if step.on_each >= 14 else _wide(step), 3)
    return step.cut(_large(step), 2 if step.on_each < 2 else 3)


def _even(step: _Step, large: Sizes, length: int) -> _Cut:
    """Equal pieces, which all end at the same time: places should be full till then.

    Three large or four medium programs are on each multiprocessor at a time: whichever
    leave fewer places empty, and large ones if pieces would be short. From 1.5 pieces
    on each, the same in waves. But if nearly two whole sequences are on each, they are
    enough, with two tiles of each under way.

    length: of a sequence; twice as much if heads are twice as long.
    """
    if 1.6 <= step.on_each <= 2:
        return step.whole(_deep(step))
    if step.on_each >= 1.5:
        return _in_waves(step, length)
    three, four = int(3 / step.on_each), int(4 / step.on_each)
    fuller = step.on_each * (four / 4 - three / 3) > 0.08
    if fuller and length >= 450 * four:
        return step.cut_each(_medium(step), four, apart=four > 7)
    return step.cut_each(large, max(1, min(three, -(-length // 128))))


def _in_waves(step: _Step, length: int) -> _Cut:
    """Three large or four medium programs at a time: whichever fill the waves better.

    They should do so by 2 %, and for each further piece by as much more as 20 positions
    are of it. Pieces have 1,000 positions or more.
    """
    pieces, sizes, most = 1, _large(step), 0.0
    for more in range(1, max(1, min(7, length // 1000)) + 1):
        for programs, at_a_time in ((_large(step), 3), (_medium(step), 4)):
            needed = most + 0.02 + 20 * (more - pieces) * more / length
            if (full := _fullness(step.on_each * more, at_a_time)) > needed:
                pieces, sizes, most = more, programs, full
    return step.cut_each(sizes, pieces)


def _short_heads(step: _Step) -> _Cut:
    """Of 64 or fewer: there is little to read, so more reads are to be under way."""
    has_much = step.positions >= 256 and (step.longest > 1024 or step.on_each >= 1 / 2)
    if step.is_even and step.on_each < 0.25:
        sizes = _small(step) if has_much else _large(step)
        return step.cut(sizes, 4, apart=True, early=True)
    if step.is_even and step.on_each < 1 / 3:
        return step.fill(_large(step), 4, early=True)
    if step.is_even and step.on_each >= 2:  # up to eleven small programs fit
        is_small = 4 <= step.on_each < 11
        return step.whole(_small(step) if is_small else _large(step))
    if step.is_even and step.on_each >= 1:
        return step.cut_each(_small(step), int(8 / step.on_each))
    sizes = _small(step) if step.is_even and has_much else _large(step)
    return step.cut(sizes, 4, _is_apart(step), early=True)


def _long_heads(step: _Step) -> _Cut:
    """Of more than 128: a tile has half the positions, see `_fitted`."""
    if step.on_each < 0.25:
        if step.positions >= 192:
            return step.cut(_wide(step), 3, apart=True, early=True)
        if step.on_each * step.longest >= 256:
            return step.cut(_slim(step), 4, apart=True, early=True)
        return step.cut(_large(step), 2, apart=True, early=True)
    if step.is_even:
        return _even(step, _wide(step), 2 * step.longest)
    if step.on_each < 1 and step.is_spread:
        return step.cut(_wide(step), 3, apart=True, early=True)
    if step.on_each < 2:
        return step.fill(_wide(step), 3, early=step.on_each < 1)
    return step.cut(_wide(step) if step.on_each >= 7 else _large(step), 3)


def _many_query_heads(step: _Step, dim: int) -> _Cut:
    """More than 16 on a KV head, so there is more to compute."""
    pieces = 4 if dim <= 64 and step.rows <= 64 else 2 if step.on_each < 2 else 3
    sizes = _large(step)._replace(num_stages=3)
    if step.rows > 64 and step.on_each < 1:
        if step.is_even and step.on_each >= 0.5:
            return step.fill(_short(step), 3, early=True)
        return step.cut(_short(step), 2 if step.on_each < 0.3 else 3, apart=True)
    return step.cut(sizes, pieces, _is_apart(step), early=True)


def _eight_bits(step: _Step, dim: int, group: int, num_kv_heads: int) -> _Cut:
    """Programs fill all places, and the next layer's ask for their first tiles early.

    There are three places on a multiprocessor; four, if a thread has fewer registers;
    or six of half as many threads. Of heads of 256 and of more than 8 query heads, more
    numbers are in registers: then there are never four places, and of both only two.

    Programs of all KV heads read the same blocks at about the same time. A single KV
    head has few bytes in a block, so more blocks should be under way: four places.
    """
    sizes, places = _wide(step)._replace(registers=168), 3
    six = _medium(step)._replace(registers=168)
    if dim > 128:
        sizes, places = _large(step), 3 if group <= 8 else 2
    has_few = step.on_each < (1 if group > 8 and step.is_spread else 0.2)
    if has_few:
        return step.cut(sizes, places, apart=True, early=True)
    if dim <= 128 and step.on_each >= 7:
        return step.cut(six, 3, early=True)
    if dim <= 128 and step.is_even and 4 < step.on_each <= 6:
        return step.fill(six, 6, early=True)
    if dim <= 128 and group <= 8 and (num_kv_heads == 1 or step.fills_four):
        sizes, places = sizes._replace(registers=128), 4
    return step.fill(sizes, places, early=True)


def merge_sizes(
    q: torch.Tensor, values: torch.Tensor, num_seqs: int, shortest: int, longest: int
) -> tuple[int, int]:
    """What a program that merges apart reads at a time: numbers, of so many pieces.

    The more it reads at a time, the less often it waits, but the more registers it
    takes. If there are so many programs that some have to wait for a place, each should
    be small. If there are few, there are enough registers for all pieces of a sequence:
    one that is much longer than others may have nearly all pieces.
    """
    programs = num_seqs * q.shape[1]
    places = device_of(q.device.index or 0).multiprocessors
    if programs * -(-values.shape[3] // 32) <= 4 * places:
        return 32, 256 if longest > 16 * shortest else 64
    return 64, 64 if programs * -(-values.shape[3] // 64) <= 8 * places else 32


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
