"""Lab: appendix C's rungs for prompts: kernels for Hopper whose warps share the work.

Each rung changes one thing of the rung before it. All compute causal attention of a
prompt whose K and V are contiguous, with heads of 128 numbers. Blocks, ragged lengths,
windows and other heads are left to the package's kernel for prompts.

A *piece* of work is 128 rows of queries of one head; a *tile* is 128 keys. A piece
reads its tiles from the last one down: only the last one, on the diagonal, needs a
mask.
"""

from typing import Any, NamedTuple

import torch

from minipaged.attention.kernels.hopper import layout_of_boxes
from minipaged.attention.kernels.sizes import LOG2_E, device_of

# isort: split
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Triton 3.9 has another name for it.
copy_to_shared = getattr(tma, "async_load", tma.async_copy_global_to_shared)
DIM = gl.constexpr(128)
ROWS = gl.constexpr(128)  # of a piece
SHARE = gl.constexpr(64)  # of them, those of each of two consumers
TILE = gl.constexpr(128)
PLACES = gl.constexpr(2)  # of the rings of K and V


@gluon.jit
def find_piece(number, num_tokens, num_heads, GROUP: gl.constexpr):
    """Of piece `number`: its first row, the first of its K and V, and how many tiles.

    The first pieces have one tile, the last ones have most.
    """
    nth, head = number // num_heads, number % num_heads
    return head * num_tokens + nth * ROWS, head // GROUP * num_tokens, nth + 1


# --- lesson 5's step, in parts --------------------------------------------------------


@gluon.jit
def multiply_keys(q_rows, k_tile):
    """Start the product of Q and a tile of K."""
    rows: gl.constexpr = q_rows.shape[0]
    warps: gl.constexpr = [rows // 16, 1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps, [16, TILE, 16])
    zeros = gl.zeros([rows, TILE], gl.float32, layout)
    k_tile = k_tile.permute((1, 0))
    return warpgroup_mma(q_rows, k_tile, zeros, use_acc=False, is_async=True)


@gluon.jit
def add_values(weights, v_tile, weighted):
    """Start the product of the weights and a tile of V."""
    layout: gl.constexpr = gl.DotOperandLayout(0, weighted.type.layout, 2)
    weights = gl.convert_layout(weights.to(v_tile.dtype), layout)
    return warpgroup_mma(weights, v_tile, weighted, is_async=True)


@gluon.jit
def nothing_seen(NUM_ROWS: gl.constexpr):
    """Maximum, total and weighted values before the first tile."""
    warps: gl.constexpr = [NUM_ROWS // 16, 1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps, [16, DIM, 16])
    of_rows: gl.constexpr = gl.SliceLayout(1, layout)
    maximum = gl.full([NUM_ROWS], float("-inf"), gl.float32, of_rows)
    total = gl.zeros([NUM_ROWS], gl.float32, of_rows)
    return maximum, total, gl.zeros([NUM_ROWS, DIM], gl.float32, layout)


@gluon.jit
def hide_future(logits, first_row):
    """The mask of the tile on the diagonal; first_row: of these rows in the piece."""
    of_rows: gl.constexpr = gl.SliceLayout(1, logits.type.layout)
    of_keys: gl.constexpr = gl.SliceLayout(0, logits.type.layout)
    row = gl.expand_dims(first_row + gl.arange(0, logits.shape[0], of_rows), 1)
    key = gl.expand_dims(gl.arange(0, TILE, of_keys), 0)
    return gl.where(key <= row, logits, float("-inf"))


@gluon.jit
def weigh(logits, maximum, total, scale):
    """Weights, the new maximum and total, and what the values are rescaled by."""
    larger = gl.maximum(maximum, gl.max(logits, 1) * scale)
    weights = gl.exp2(logits * scale - gl.expand_dims(larger, 1))
    rescale = gl.exp2(maximum - larger)
    return weights, larger, total * rescale + gl.sum(weights, 1), rescale


@gluon.jit
def store(out, row, weighted, total):
    """The weighted mean of each row."""
    layout: gl.constexpr = weighted.type.layout
    rows = row + gl.arange(0, weighted.shape[0], gl.SliceLayout(1, layout))
    columns = gl.arange(0, DIM, gl.SliceLayout(0, layout))
    places = gl.expand_dims(rows * DIM, 1) + gl.expand_dims(columns, 0)
    mean = weighted / gl.expand_dims(total, 1)
    gl.store(out + places, mean.to(out.dtype.element_ty))


# --- rung 1 ---------------------------------------------------------------------------


@gluon.jit
def together(out, q, keys, values, num_tokens, num_heads, scale, GROUP: gl.constexpr):
    """Rung 1: the same eight warps copy, multiply and weigh, one after the other."""
    number = gl.program_id(0)
    row, kv_row, tiles = find_piece(number, num_tokens, num_heads, GROUP)
    q_rows = gl.allocate_shared_memory(q.dtype, [ROWS, DIM], q.layout)
    k_tile = gl.allocate_shared_memory(q.dtype, [TILE, DIM], keys.layout)
    v_tile = gl.allocate_shared_memory(q.dtype, [TILE, DIM], values.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for which in gl.static_range(2):
        mbarrier.init(full.index(which), count=1)
    mbarrier.expect(full.index(0), q.block_type.nbytes)
    copy_to_shared(q, [row, 0], full.index(0), q_rows)
    mbarrier.wait(full.index(0), 0)
    maximum, total, weighted = nothing_seen(ROWS)
    for n in range(tiles):
        at = kv_row + (tiles - 1 - n) * TILE
        mbarrier.expect(full.index(1), 2 * keys.block_type.nbytes)
        copy_to_shared(keys, [at, 0], full.index(1), k_tile)
        copy_to_shared(values, [at, 0], full.index(1), v_tile)
        mbarrier.wait(full.index(1), n & 1)  # why `& 1`: see rung 2
        logits = multiply_keys(q_rows, k_tile)
        logits = warpgroup_mma_wait(0, deps=[logits])
        if n == 0:
            logits = hide_future(logits, 0)
        weights, maximum, total, rescale = weigh(logits, maximum, total, scale)
        weighted = weighted * gl.expand_dims(rescale, 1)
        product = add_values(weights, v_tile, weighted)
        weighted = warpgroup_mma_wait(0, deps=[product])
    store(out, row, weighted, total)


# --- rungs 2, 3 and 4: warps apart ----------------------------------------------------


@gluon.jit
def wait_full(ring, number):
    """The ring's tile `number`, once it has come."""
    tiles, full, _ = ring
    place, lap = number % tiles.shape[0], number // tiles.shape[0]
    mbarrier.wait(full.index(place), lap & 1)
    return tiles.index(place)


@gluon.jit
def has_read(ring, number):
    """A consumer is done with the ring's tile `number`."""
    tiles, _, empty = ring
    mbarrier.arrive(empty.index(number % tiles.shape[0]))


@gluon.jit
def copy_next(source, row, ring, number):
    """Copy the ring's tile `number`, once its place is empty."""
    tiles, full, empty = ring
    place, lap = number % tiles.shape[0], number // tiles.shape[0]
    mbarrier.wait(empty.index(place), lap & 1 ^ 1)
    mbarrier.expect(full.index(place), source.block_type.nbytes)
    copy_to_shared(source, [row, 0], full.index(place), tiles.index(place))


@gluon.jit
def one_after_another(q_rows, k_ring, v_ring, first, end, first_row, scale):
    """Rung 2: a consumer's loop over the rings' tiles `first` to `end` - 1."""
    maximum, total, weighted = nothing_seen(SHARE)
    for number in range(first, end):
        logits = multiply_keys(q_rows, wait_full(k_ring, number))
        logits = warpgroup_mma_wait(0, deps=[logits])
        has_read(k_ring, number)
        if number == first:
            logits = hide_future(logits, first_row)
        weights, maximum, total, rescale = weigh(logits, maximum, total, scale)
        weighted = weighted * gl.expand_dims(rescale, 1)
        product = add_values(weights, wait_full(v_ring, number), weighted)
        weighted = warpgroup_mma_wait(0, deps=[product])
        has_read(v_ring, number)
    return weighted, total


@gluon.jit
def weigh_under_product(q_rows, k_ring, v_ring, first, end, first_row, scale):
    """Rung 3: the last tile's weights meet V while this tile's are being made."""
    maximum, total, weighted = nothing_seen(SHARE)
    logits = multiply_keys(q_rows, wait_full(k_ring, first))
    logits = warpgroup_mma_wait(0, deps=[logits])
    has_read(k_ring, first)
    logits = hide_future(logits, first_row)
    weights, maximum, total, _ = weigh(logits, maximum, total, scale)
    for number in range(first + 1, end):
        logits = multiply_keys(q_rows, wait_full(k_ring, number))
        product = add_values(weights, wait_full(v_ring, number - 1), weighted)
        logits = warpgroup_mma_wait(1, deps=[logits])
        has_read(k_ring, number)
        weights, maximum, total, rescale = weigh(logits, maximum, total, scale)
        weighted = warpgroup_mma_wait(0, deps=[product])
        has_read(v_ring, number - 1)
        weighted = weighted * gl.expand_dims(rescale, 1)
    product = add_values(weights, wait_full(v_ring, end - 1), weighted)
    weighted = warpgroup_mma_wait(0, deps=[product])
    has_read(v_ring, end - 1)
    return weighted, total


@gluon.jit
def place_in(turn):
    """Which of a turn's pieces this program takes: back and forth, for equal sums."""
    program = gl.program_id(0)
    return gl.where(turn % 2 == 0, program, gl.num_programs(0) - 1 - program)


@gluon.jit
def count_turns(num_pieces):
    """How many pieces this program takes. In a turn, each program takes one."""
    whole = num_pieces // gl.num_programs(0)
    left = num_pieces % gl.num_programs(0)
    return whole + (place_in(whole) < left).to(gl.int32)


@gluon.jit
def piece_of(turn, num_pieces, HEAVY_FIRST: gl.constexpr):
    """The number of this turn's piece."""
    number = turn * gl.num_programs(0) + place_in(turn)
    if HEAVY_FIRST:
        number = num_pieces - 1 - number
    return number


@gluon.jit
def produce(
    q, keys, values, rings, num_pieces, num_tokens, num_heads,
    GROUP: gl.constexpr, HEAVY_FIRST: gl.constexpr,
):  # fmt: skip
    """The producer: a warp that only copies, piece after piece."""
    q_ring, k_ring, v_ring = rings
    copied = 0
    for turn in range(count_turns(num_pieces)):
        piece = piece_of(turn, num_pieces, HEAVY_FIRST)
        row, kv_row, tiles = find_piece(piece, num_tokens, num_heads, GROUP)
        for which in gl.static_range(2):
            copy_next(q, row + which * SHARE, q_ring, 2 * turn + which)
        for n in range(tiles):
            at = kv_row + (tiles - 1 - n) * TILE
            copy_next(keys, at, k_ring, copied)
            copy_next(values, at, v_ring, copied)
            copied += 1


@gluon.jit
def consume(
    out, rings, num_pieces, num_tokens, num_heads, scale, which: gl.constexpr,
    GROUP: gl.constexpr, LOOP: gl.constexpr, HEAVY_FIRST: gl.constexpr,
):  # fmt: skip
    """A consumer: four warps that only compute, for 64 rows of each piece."""
    q_ring, k_ring, v_ring = rings
    first, first_row = 0, which * SHARE
    for turn in range(count_turns(num_pieces)):
        piece = piece_of(turn, num_pieces, HEAVY_FIRST)
        row, _, tiles = find_piece(piece, num_tokens, num_heads, GROUP)
        own, end = 2 * turn + which, first + tiles
        q_rows = wait_full(q_ring, own)
        weighted, total = LOOP(q_rows, k_ring, v_ring, first, end, first_row, scale)
        has_read(q_ring, own)
        store(out, row + first_row, weighted, total)
        first = end


@gluon.jit
def make_ring(source, NUM_PLACES: gl.constexpr, READERS: gl.constexpr):
    """Places for tiles, and of each place the barriers full and empty."""
    shape: gl.constexpr = [NUM_PLACES, source.block_shape[0], source.block_shape[1]]
    tiles = gl.allocate_shared_memory(source.dtype, shape, source.layout)
    layout: gl.constexpr = mbarrier.MBarrierLayout()
    full = gl.allocate_shared_memory(gl.int64, [NUM_PLACES, 1], layout)
    empty = gl.allocate_shared_memory(gl.int64, [NUM_PLACES, 1], layout)
    for place in gl.static_range(NUM_PLACES):
        mbarrier.init(full.index(place), count=1)
        mbarrier.init(empty.index(place), count=READERS)
    return tiles, full, empty


@gluon.jit
def apart(
    out, q, keys, values, num_pieces, num_tokens, num_heads, scale,
    GROUP: gl.constexpr, LOOP: gl.constexpr, HEAVY_FIRST: gl.constexpr,
):  # fmt: skip
    """Rungs 2 to 4: make the rings, and give each warp its job."""
    q_ring = make_ring(q, 4, 1)  # two for each consumer
    k_ring = make_ring(keys, PLACES, 2)
    v_ring = make_ring(values, PLACES, 2)
    rings = q_ring, k_ring, v_ring
    gl.warp_specialize(
        [
            (
                consume,
                (
                    out, rings, num_pieces, num_tokens, num_heads, scale, 0,
                    GROUP, LOOP, HEAVY_FIRST,
                ),
            ),
            (
                consume,
                (
                    out, rings, num_pieces, num_tokens, num_heads, scale, 1,
                    GROUP, LOOP, HEAVY_FIRST,
                ),
            ),
            (
                produce,
                (
                    q, keys, values, rings, num_pieces, num_tokens, num_heads,
                    GROUP, HEAVY_FIRST,
                ),
            ),
        ],
        [4, 1],  # warps of the second consumer and of the producer
        [240, 24],  # registers of their threads
    )  # fmt: skip


class Rung(NamedTuple):
    """What a rung is launched with."""

    loop: Any = None  # of the consumers; None: the same warps do everything
    heavy_first: bool = False
    persistent: bool = False  # as many programs as multiprocessors, each in turns


RUNGS = {
    1: Rung(),
    2: Rung(one_after_another),
    3: Rung(weigh_under_product),
    4: Rung(weigh_under_product, heavy_first=True, persistent=True),
}


def attend(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rung: Rung,
    scale: float | None = None,
) -> torch.Tensor:
    """Causal attention of a prompt by this rung, on a Hopper GPU: [H, T, 128], as q.

    q: [H, T, 128], T a multiple of 128; keys, values: [H_kv, T, 128]; contiguous, in 16
    bits. scale: of the logits, 1/sqrt(128) without. Nothing is checked.
    """
    num_heads, num_tokens, dim = q.shape
    num_pieces = num_heads * num_tokens // ROWS.value
    sizes = num_tokens, num_heads, (scale or dim**-0.5) * LOG2_E
    rows = ROWS.value if rung.loop is None else SHARE.value
    boxes = _boxes(q, rows), _boxes(keys, TILE.value), _boxes(values, TILE.value)
    out, group = torch.empty_like(q), num_heads // len(keys)
    if rung.loop is None:
        together[num_pieces,](out, *boxes, *sizes, GROUP=group, num_warps=8)
        return out
    programs = num_pieces
    if rung.persistent:
        programs = min(programs, device_of(q.device.index or 0).multiprocessors)
    apart[programs,](
        out, *boxes, num_pieces, *sizes,
        GROUP=group, LOOP=rung.loop, HEAVY_FIRST=rung.heavy_first,
        num_warps=4,  # of the first consumer
    )  # fmt: skip
    return out


def _boxes(x: torch.Tensor, rows: int) -> Any:
    """What the tensor memory accelerator must know to copy so many rows."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    box = rows, x.shape[-1]
    layout = layout_of_boxes(box, x.dtype)
    return TensorDescriptor.from_tensor(x.view(-1, box[1]), list(box), layout)
