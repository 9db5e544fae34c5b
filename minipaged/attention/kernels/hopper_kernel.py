"""Appendix C: attention of prompts on Hopper, where warps have different jobs (Gluon).

Lesson 6's kernel for prompts lets the same warps load, multiply and compute weights.
Here a program's warps share the work: a *producer* only copies, and two *consumers*
only compute, each for 64 rows of queries. Copies are made by the tensor memory
accelerator: one instruction moves a whole block of K or V into shared memory, so a
table of blocks costs no arithmetic. Products are made by the matrix unit while a
consumer goes on.

    producer    | K 0, V 0 | K 1, V 1 | waits: no place | K 2, V 2 | ...
    consumer 0        | Q.K 0 | weigh 0 | Q.K 1, P.V 0 | weigh 1 | Q.K 2, P.V 1 | ...
    consumer 1            | Q.K 0 | weigh 0 | Q.K 1, P.V 0 | weigh 1 | Q.K 2, ...

A consumer starts the product of Q and the next K together with the product of the
weights P and the last V. It weighs the former while the latter is still being made. So
the matrix unit has work all the time, from one consumer or from the other.

K and V each lie in a *ring*: in a few places of shared memory, taken in turn. Every
place has two barriers:

    full    The producer says how many bytes are to come; the barrier opens when they
            are there. Consumers wait for it before they read.
    empty   It opens when both consumers have read the tile. The producer waits for it
            before it copies another tile to this place.

A barrier opens again and again; its phase says whether it was an even or an odd time.
In a ring of two places, tile n is at place n % 2, for time n // 2. All warps count
tiles in the same way, so they need no other messages. Queries have a ring, too: those
of the next piece of work are copied while this piece is computed.

A sequence's tiles of keys are read from the last one down. Only the last, on the
diagonal, and those at a window's edge need a mask. If heads share K and V, the rows of
a tile of queries belong to several heads: 16 tokens of 4 heads are 64 rows.

K and V in 8 bits are copied to rings of their own, as they are stored. Four more warps
are *converters* (two, with heads of 256 numbers). They read a tile of bytes, and write
its numbers in 16 bits to the ring that the consumers read, in the producer's place. A
head's scale of K multiplies the logits, and that of V the result.

    producer    | bytes of K 0 | bytes of V 0 | bytes of K 1 | ...
    converters                 | K 0          | V 0          | K 1 | ...
    consumer 0                                | Q.K 0 | weigh 0    | Q.K 1, P.V 0 | ...

Usually a program computes whole tiles of queries. Few long tiles are cut into equal
shares: see `hopper_shares`.

Source: FlashAttention-3 (Shah et al., 2024).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from minipaged.attention.kernels import hopper_tiles

# Triton 3.9 has another name for it.
copy_to_shared = getattr(tma, "async_load", tma.async_copy_global_to_shared)
wait_for_threads = getattr(gl, "barrier", None) or gl.thread_barrier
CONSUMERS = gl.constexpr(2)
ROWS = gl.constexpr(64)  # of a consumer
COLUMNS = gl.constexpr(hopper_tiles.COLUMNS)

PART = gl.constexpr(16)  # rows of V that are cleared together
CONVERTED = gl.constexpr(4096)  # numbers that go through registers together
LOG2_E = gl.constexpr(1.4426950408889634)


@gluon.jit
def _place(turn, workers):
    """Which of `workers` pieces this program takes: forth and back, for equal sums."""
    worker = gl.program_id(0)
    return gl.where(turn % 2 == 0, worker, workers - 1 - worker)


@gluon.jit
def _share(shares, workers):
    """Which share this program takes, and where its row in the list is.

    A program waits for others, whose shares are later ones. They have smaller numbers
    than it has: GPUs start programs in the order of their numbers.
    """
    worker = workers - 1 - gl.program_id(0)
    return worker, shares + 2 + 2 * worker


@gluon.jit
def _turns(tiles, shares, workers, HEAD_GROUPS: gl.constexpr):
    """How many pieces of work this program has; a piece is a tile of some heads."""
    pieces = gl.load(tiles) * HEAD_GROUPS
    whole = pieces // workers
    turns = whole + (_place(whole, workers) < pieces % workers).to(gl.int32)
    if shares is not None:
        _, own = _share(shares, workers)
        of_share = gl.load(own + 2) - gl.load(own) + (gl.load(own + 3) > 0).to(gl.int32)
        turns = gl.where(gl.load(shares) > 0, of_share, turns)
    return turns


@gluon.jit
def _piece(
    tiles, shares, turn, workers,
    WINDOW: gl.constexpr,
    HEAD_GROUPS: gl.constexpr,
    HEADS: gl.constexpr,
    TOKENS: gl.constexpr,
    TILE: gl.constexpr,
):  # fmt: skip
    """This turn's piece: its row in the list, its first head, what keys it reads.

    That is the position of its first token, the context, and the first and the last
    tile. There is a tile in any case, for the barriers' sake. At the end comes whether
    other programs read earlier tiles of keys, and whether others read later ones.
    """
    number = turn * workers + _place(turn, workers)
    if shares is not None:  # a share, or whole tiles after all
        _, own = _share(shares, workers)
        is_cut = gl.load(shares) > 0
        number = gl.where(is_cut, gl.load(own) + turn, number)
    row = tiles + (1 + number // HEAD_GROUPS) * COLUMNS
    position, context = gl.load(row + 3), gl.load(row + 4)
    last = gl.maximum(gl.minimum(position + TOKENS, context) - 1, 0) // TILE
    first, is_begun, goes_on = 0, False, False
    if WINDOW is not None:
        first = gl.minimum(gl.maximum(position - WINDOW + 1, 0) // TILE, last)
    if shares is not None:
        goes_on = is_cut & (number == gl.load(own + 2))
        first = gl.where(is_cut & (turn == 0), gl.load(own + 1), 0)
        last = gl.where(goes_on, gl.load(own + 3) - 1, last)
        is_begun = first > 0
    head = number % HEAD_GROUPS * HEADS
    return row, head, position, context, first, last, is_begun, goes_on


@gluon.jit
def _next_place(ring, number):
    """Where the ring's tile `number` goes, once nobody reads what is there."""
    tiles, _, empty = ring
    PLACES: gl.constexpr = tiles.shape[0]
    place, phase = number % PLACES, number // PLACES & 1
    mbarrier.wait(empty.index(place), phase ^ 1)
    return place


@gluon.jit
def _slots(
    table, first, context,
    BOX: gl.constexpr, BOXES: gl.constexpr, BLOCK_SIZE: gl.constexpr,
):  # fmt: skip
    """Where the copies of a tile begin, whose first position is `first`."""
    slots = ()
    for box in gl.static_range(BOXES):
        at = first + box * BOX
        exists = at < context
        block = gl.load(table + at // BLOCK_SIZE, mask=exists, other=0)
        slot = block.to(gl.int32) * BLOCK_SIZE + at % BLOCK_SIZE
        # A copy from outside of the cache writes zeros.
        slots += (gl.where(exists, slot, -BOX),)
    return slots


@gluon.jit
def _copy_tile(source, slots, kv_head, ring, number, BOXES: gl.constexpr):
    """Copy a tile of K or V: it is the ring's tile `number`."""
    tiles, full = ring[0], ring[1]
    BOX: gl.constexpr = source.block_shape[0]
    place = _next_place(ring, number)
    mbarrier.expect(full.index(place), BOXES * source.block_type.nbytes)
    for box in gl.static_range(BOXES):
        copy_to_shared(
            source, [slots[box], kv_head * source.block_shape[1]],
            full.index(place), tiles.index(place).slice(box * BOX, BOX),
        )  # fmt: skip


@gluon.jit
def _copy_queries(q, token, head, q_ring, turn):
    """Copy the queries of this turn's piece, of each consumer its own."""
    q_rows, q_full, q_empty = q_ring
    SHARE: gl.constexpr = q_rows.shape[1]  # tokens of a consumer
    PLACES: gl.constexpr = q_rows.shape[0] // CONSUMERS
    for which in gl.static_range(CONSUMERS):
        own = turn % PLACES * CONSUMERS + which
        mbarrier.wait(q_empty.index(own), turn // PLACES & 1 ^ 1)
        mbarrier.expect(q_full.index(own), q.block_type.nbytes)
        copy_to_shared(
            q, [token + which * SHARE, head, 0],
            q_full.index(own), q_rows.index(own),
        )  # fmt: skip


@gluon.jit
def _produce(
    q, keys, values, rings, tiles, shares, block_tables, workers,
    WINDOW: gl.constexpr,
    BLOCK_SIZE: gl.constexpr,
    HEAD_GROUPS: gl.constexpr,
    HEADS: gl.constexpr,
    GROUP: gl.constexpr,
):  # fmt: skip
    """Copy the queries of each piece, and its K and V: tile by tile, block by block."""
    q_ring, k_ring, v_ring = rings
    SHARE: gl.constexpr = ROWS // HEADS  # tokens of a consumer
    TILE: gl.constexpr = k_ring[0].shape[1]
    BOX: gl.constexpr = keys.block_shape[0]  # positions of a copy
    BOXES: gl.constexpr = TILE // BOX
    number = 0
    for turn in range(_turns(tiles, shares, workers, HEAD_GROUPS)):
        row, head, _, context, first, last, _, _ = _piece(
            tiles, shares, turn, workers, WINDOW, HEAD_GROUPS, HEADS,
            CONSUMERS * SHARE, TILE,
        )  # fmt: skip
        table, token = block_tables + gl.load(row), gl.load(row + 1)
        kv_head = head // GROUP
        for n in range(last - first + 1):
            slots = _slots(table, (last - n) * TILE, context, BOX, BOXES, BLOCK_SIZE)
            _copy_tile(keys, slots, kv_head, k_ring, number, BOXES)
            if n == 0:
                _copy_queries(q, token, head, q_ring, turn)
            _copy_tile(values, slots, kv_head, v_ring, number, BOXES)
            number += 1


@gluon.jit
def _widen(numbers, dtype: gl.constexpr):
    """Numbers of 8 bits (e4m3) in 16. None is rounded.

    The way to bfloat16 leads through float16 and float32: four instructions for two
    numbers. The compiler would take one more for each, on the unit that exp2 needs.
    """
    if dtype == gl.bfloat16:
        return gl.inline_asm_elementwise(
            """{
            .reg .b16 low, high, a, b;
            .reg .b32 pair;
            .reg .f32 x, y;
            mov.b32 {low, high}, $2;
            cvt.rn.f16x2.e4m3x2 pair, low;
            mov.b32 {a, b}, pair;
            cvt.f32.f16 x, a;
            cvt.f32.f16 y, b;
            cvt.rn.bf16x2.f32 $0, y, x;
            cvt.rn.f16x2.e4m3x2 pair, high;
            mov.b32 {a, b}, pair;
            cvt.f32.f16 x, a;
            cvt.f32.f16 y, b;
            cvt.rn.bf16x2.f32 $1, y, x;
            }""",
            "=r,=r,r", [numbers], dtype=gl.bfloat16, is_pure=True, pack=4,
        )  # fmt: skip
    else:
        return numbers.to(dtype)


@gluon.jit
def _convert_tile(in_bytes, ring, number, WARPS: gl.constexpr):
    """Make 16 bits of the bytes' tile `number`, which is the ring's tile `number`."""
    bytes_tiles, full_of_bytes, _ = in_bytes
    tiles, full, _ = ring
    PLACES: gl.constexpr = bytes_tiles.shape[0]
    DIM: gl.constexpr = tiles.shape[2]
    CHUNK: gl.constexpr = min(CONVERTED // DIM, tiles.shape[1])  # rows
    # A thread takes 8 bytes, and stores 16: so warps read and write whole lines.
    layout: gl.constexpr = gl.BlockedLayout(
        [1, 8], [256 // DIM, DIM // 8], [WARPS, 1], [1, 0]
    )
    source = bytes_tiles.index(number % PLACES)
    mbarrier.wait(full_of_bytes.index(number % PLACES), number // PLACES & 1)
    place = _next_place(ring, number)
    for chunk in gl.static_range(tiles.shape[1] // CHUNK):
        rows = source.slice(chunk * CHUNK, CHUNK).load(layout)
        rows = _widen(rows, tiles.dtype)
        tiles.index(place).slice(chunk * CHUNK, CHUNK).store(rows)
    fence_async_shared()  # before the matrix unit reads them
    wait_for_threads()  # all have stored before one of them says so
    mbarrier.arrive(full.index(place))
    _has_read(in_bytes, number)


@gluon.jit
def _convert(
    in_bytes, rings, tiles, shares, workers,
    WINDOW: gl.constexpr,
    HEAD_GROUPS: gl.constexpr,
    HEADS: gl.constexpr,
    WARPS: gl.constexpr,
):  # fmt: skip
    """Make 16 bits of what the producer copies in 8: V, and K if that has 8, too."""
    k_bytes, v_bytes = in_bytes
    k_ring, v_ring = rings[1], rings[2]
    number = 0
    for turn in range(_turns(tiles, shares, workers, HEAD_GROUPS)):
        _, _, _, _, first, last, _, _ = _piece(
            tiles, shares, turn, workers, WINDOW, HEAD_GROUPS, HEADS,
            CONSUMERS * (ROWS // HEADS), v_ring[0].shape[1],
        )  # fmt: skip
        for _n in range(last - first + 1):
            if k_bytes is not None:
                _convert_tile(k_bytes, k_ring, number, WARPS)
            _convert_tile(v_bytes, v_ring, number, WARPS)
            number += 1


@gluon.jit
def _multiply_keys(q_rows, k_ring, number, layout: gl.constexpr):
    """Start the product of Q and the ring's tile `number` of K."""
    k_tiles, k_full, _ = k_ring
    PLACES: gl.constexpr = k_tiles.shape[0]
    TILE: gl.constexpr = k_tiles.shape[1]
    place = number % PLACES
    mbarrier.wait(k_full.index(place), number // PLACES & 1)
    zeros = gl.zeros([ROWS, TILE], gl.float32, layout)
    k_tile = k_tiles.index(place).permute((1, 0))
    return warpgroup_mma(q_rows, k_tile, zeros, use_acc=False, is_async=True)


@gluon.jit
def _add_values(weights, v_ring, number, weighted):
    """Start the product of the weights and the ring's tile `number` of V."""
    v_tiles, v_full, _ = v_ring
    PLACES: gl.constexpr = v_tiles.shape[0]
    place = number % PLACES
    mbarrier.wait(v_full.index(place), number // PLACES & 1)
    return warpgroup_mma(weights, v_tiles.index(place), weighted, is_async=True)


@gluon.jit
def _has_read(ring, number):
    """This consumer needs the ring's tile `number` no more."""
    mbarrier.arrive(ring[2].index(number % ring[0].shape[0]))


@gluon.jit
def _narrow(weights, v_tiles, layout: gl.constexpr):
    """The weights in 16 bits, two in a register, as the matrix unit takes them.

    In assembly, because it shall stay where it is. The compiler would move it behind
    the start of the next product, where registers are short.
    """
    if v_tiles.dtype == gl.bfloat16:
        narrow = gl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,r,r", [weights],
            dtype=gl.bfloat16, is_pure=False, pack=2,
        )  # fmt: skip
    else:
        narrow = gl.inline_asm_elementwise(
            "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,r,r", [weights],
            dtype=gl.float16, is_pure=False, pack=2,
        )  # fmt: skip
    return gl.convert_layout(narrow, layout)


@gluon.jit
def _weigh(
    logits, maximum, total, first, position, scale, softcap,
    WINDOW: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """Lesson 5's step without V: weights, maximum, total; how to rescale what was.

    Numbers are those of lesson 6's `online_step`. first: position of the first key.
    """
    if softcap is not None:
        logits = logits * scale
        logits = softcap * (1.0 - 2.0 / (1.0 + gl.exp2(logits * (2 * LOG2_E))))
        scale = 1.0
    if MASKED:
        columns: gl.constexpr = gl.SliceLayout(0, logits.type.layout)
        seen = gl.expand_dims(first + gl.arange(0, logits.shape[1], columns), 0)
        position = gl.expand_dims(position, 1)
        visible = seen <= position
        if WINDOW is not None:
            visible = visible & (seen > position - WINDOW)
        logits = gl.where(visible, logits, float("-inf"))
    new_maximum = gl.maximum(maximum, gl.max(logits, 1) * scale)
    reference = new_maximum
    if MASKED:  # a row may have seen nothing yet
        reference = gl.where(new_maximum == float("-inf"), 0.0, new_maximum)
    weights = gl.exp2(logits * scale - gl.expand_dims(reference, 1))
    rescale = gl.exp2(maximum - reference)
    return weights, new_maximum, total * rescale + gl.sum(weights, 1), rescale


@gluon.jit
def _scaled(weighted, factor):
    """Each row times its factor."""
    factor = gl.convert_layout(factor, gl.SliceLayout(1, weighted.type.layout))
    return weighted * gl.expand_dims(factor, 1)


@gluon.jit
def _over_tiles(
    weights, maximum, total, weighted,
    begin, end, top, position, q_rows, k_ring, v_ring, scale, softcap,
    WINDOW: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """Lesson 5's loop over the ring's tiles `begin` to `end` - 1.

    Tile n of the ring is tile top - n of the sequence. Of the tile before `begin`,
    there are weights, but their V is not added yet; nor is the last tile's at the end.
    """
    v_tiles = v_ring[0]
    of_logits: gl.constexpr = weights.type.layout
    operand: gl.constexpr = gl.DotOperandLayout(0, weighted.type.layout, 2)
    for number in range(begin, end):
        narrow = _narrow(weights, v_tiles, operand)
        logits = _multiply_keys(q_rows, k_ring, number, of_logits)
        product = _add_values(narrow, v_ring, number - 1, weighted)
        logits = warpgroup_mma_wait(1, deps=[logits])
        _has_read(k_ring, number)
        weights, maximum, total, rescale = _weigh(
            logits, maximum, total, (top - number) * weights.shape[1], position, scale,
            softcap, WINDOW, MASKED,
        )  # fmt: skip
        weighted = warpgroup_mma_wait(0, deps=[product])
        _has_read(v_ring, number - 1)
        weighted = _scaled(weighted, rescale)
    return weights, maximum, total, weighted


@gluon.constexpr_function
def _wide_layout(dim):
    """Which thread stores what of 64 rows: 16 bytes that lie side by side.

    The rows stay with the warps that have computed them.
    """
    columns = [[0, 32 << n] for n in range((dim // 32).bit_length() - 1)]
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], *columns, [8, 0]],
        lane_bases=[[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0]],
        block_bases=[],
        shape=[64, dim],
    )


@gluon.jit
def _clear_unwritten(v_tile, written):
    """Zeros in the rows of V from `written` on: no one wrote them, they may hold NaN.

    Both consumers do it: what is zero stays zero.
    """
    DIM: gl.constexpr = v_tile.shape[1]
    layout: gl.constexpr = gl.BlockedLayout(
        [1, 8], [256 // DIM, DIM // 8], [4, 1], [1, 0]
    )
    for part in gl.static_range(v_tile.shape[0] // PART):
        if written < (part + 1) * PART:
            rows = v_tile.slice(part * PART, PART)
            row = part * PART + gl.arange(0, PART, gl.SliceLayout(1, layout))
            own = rows.load(layout)
            rows.store(gl.where(gl.expand_dims(row < written, 1), own, 0.0))
    fence_async_shared()  # before the matrix unit reads them


@gluon.jit
def _part_of(parts, worker, which: gl.constexpr, total, weighted):
    """Where a program's consumer puts its part: (maxima, totals, sums, flag)."""
    maxima, totals, sums, flags = parts
    DIM: gl.constexpr = weighted.shape[1]
    layout: gl.constexpr = weighted.type.layout
    number = worker * CONSUMERS + which
    first = number.to(gl.int64) * ROWS
    state = gl.arange(0, ROWS, total.type.layout)
    row = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    column = gl.arange(0, DIM, gl.SliceLayout(0, layout))
    place = gl.expand_dims(row * DIM, 1) + gl.expand_dims(column, 0)
    own_sums = sums + first * DIM + place
    return maxima + first + state, totals + first + state, own_sums, flags + number


@gluon.jit
def _give_part(parts, shares, which: gl.constexpr, workers, maximum, total, weighted):
    """Leave the state to the program that has begun this tile."""
    worker, _ = _share(shares, workers)
    maxima, totals, sums, flag = _part_of(parts, worker, which, total, weighted)
    gl.store(maxima, maximum)
    gl.store(totals, total)
    gl.store(sums, weighted)
    wait_for_threads()  # all have stored before one of them says so
    gl.atomic_xchg(flag, 1, sem="release")


@gluon.jit
def _with_parts(parts, shares, which: gl.constexpr, workers, maximum, total, weighted):
    """The totals and weighted values, with those of programs that go on with the tile.

    They are merged as lesson 5 merges parts, in the order of the keys.
    """
    worker, own = _share(shares, workers)
    tile = gl.load(own + 2)
    goes_on = gl.load(own + 3) > 0
    while goes_on:
        worker, own = worker + 1, own + 2
        maxima, totals, sums, flag = _part_of(parts, worker, which, total, weighted)
        while gl.atomic_cas(flag, 1, 0, sem="acquire") == 0:  # for the next layer, 0
            pass
        its_maximum = gl.load(maxima)
        new_maximum = gl.maximum(maximum, its_maximum)
        reference = gl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        rescale, weight = gl.exp2(maximum - reference), gl.exp2(its_maximum - reference)
        total = total * rescale + gl.load(totals) * weight
        weighted = _scaled(weighted, rescale) + _scaled(gl.load(sums), weight)
        maximum = new_maximum
        goes_on = (gl.load(own + 2) == tile) & (gl.load(own + 3) > 0)
    return total, weighted


@gluon.jit
def _consume(
    given,  # of the kernel: what it has, and the rings
    which: gl.constexpr,
    WINDOW: gl.constexpr,
    BLOCK_SIZE: gl.constexpr,
    HEAD_GROUPS: gl.constexpr,
    HEADS: gl.constexpr,
    GROUP: gl.constexpr,
):  # fmt: skip
    """Attention of 64 rows of each piece: if `which` is 1, of the second 64."""
    out, parts, sinks, rings, tiles, shares, workers, scale, softcap, scales = given
    q_ring, k_ring, v_ring = rings
    q_rows, q_full, q_empty = q_ring
    k_tiles, v_tiles, v_full = k_ring[0], v_ring[0], v_ring[1]
    SHARE: gl.constexpr = ROWS // HEADS  # tokens of a consumer
    TILE: gl.constexpr = k_tiles.shape[1]
    DIM: gl.constexpr = v_tiles.shape[2]
    Q_PLACES: gl.constexpr = q_rows.shape[0] // CONSUMERS
    PLACES: gl.constexpr = v_tiles.shape[0]
    of_logits: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TILE, 16])
    of_values: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DIM, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, of_values, 2)
    key_scale, value_scale = scales
    of_out: gl.constexpr = (
        _wide_layout(DIM)
        if value_scale is None or DIM <= 128
        else of_values  # there is no room for threads to exchange results
    )
    of_rows: gl.constexpr = gl.SliceLayout(1, of_logits)
    row_number = gl.arange(0, ROWS, of_rows)
    own_scale = scale
    read = 0  # tiles of the rings
    for turn in range(_turns(tiles, shares, workers, HEAD_GROUPS)):
        row, head, start, context, first, last, is_begun, _ = _piece(
            tiles, shares, turn, workers, WINDOW, HEAD_GROUPS, HEADS,
            CONSUMERS * SHARE, TILE,
        )  # fmt: skip
        position = start + which * SHARE + row_number // HEADS
        maximum = gl.full([ROWS], float("-inf"), gl.float32, of_rows)
        total = gl.zeros([ROWS], gl.float32, of_rows)
        if sinks is not None:
            sink = gl.load(sinks + head + row_number % HEADS).to(gl.float32)
            if not is_begun:  # of several pieces, in one
                maximum, total = sink * LOG2_E, total + 1.0

        if key_scale is not None:
            own_scale = scale * gl.load(key_scale + head // GROUP)

        # The last tile: there are no weights yet whose V could be added.
        own = turn % Q_PLACES * CONSUMERS + which
        mbarrier.wait(q_full.index(own), turn // Q_PLACES & 1)
        own_q = q_rows.index(own).reshape([ROWS, q_rows.shape[3]])
        logits = _multiply_keys(own_q, k_ring, read, of_logits)
        logits = warpgroup_mma_wait(0, deps=[logits])
        _has_read(k_ring, read)
        weights, maximum, total, _ = _weigh(
            logits, maximum, total, last * TILE, position, own_scale, softcap,
            WINDOW, True,
        )  # fmt: skip
        weighted = gl.zeros([ROWS, DIM], gl.float32, of_values)
        if (last + 1) * TILE > context and context % BLOCK_SIZE != 0:
            mbarrier.wait(v_full.index(read % PLACES), read // PLACES & 1)
            _clear_unwritten(v_tiles.index(read % PLACES), context - last * TILE)

        # What all rows see needs no mask.
        count = last - first + 1
        whole = gl.maximum(start + 1, 0) // TILE  # tiles that the first row sees
        diagonal = gl.minimum(gl.maximum(last - whole + 1, 1), count)
        edge = count
        if WINDOW is not None:
            begin = gl.maximum(start + CONSUMERS * SHARE - WINDOW, 0)  # of the last row
            edge = last - (begin + TILE - 1) // TILE + 1
            edge = gl.minimum(gl.maximum(edge, diagonal), count)
        weights, maximum, total, weighted = _over_tiles(
            weights, maximum, total, weighted,
            read + 1, read + diagonal, read + last, position, own_q, k_ring, v_ring,
            own_scale, softcap, WINDOW, True,
        )  # fmt: skip
        weights, maximum, total, weighted = _over_tiles(
            weights, maximum, total, weighted,
            read + diagonal, read + edge, read + last, position, own_q, k_ring, v_ring,
            own_scale, softcap, WINDOW, False,
        )  # fmt: skip
        if WINDOW is not None:
            weights, maximum, total, weighted = _over_tiles(
                weights, maximum, total, weighted,
                read + edge, read + count, read + last, position, own_q, k_ring, v_ring,
                own_scale, softcap, WINDOW, True,
            )  # fmt: skip
        mbarrier.arrive(q_empty.index(own))
        read += count
        narrow = _narrow(weights, v_tiles, operand)
        product = _add_values(narrow, v_ring, read - 1, weighted)
        weighted = warpgroup_mma_wait(0, deps=[product])
        _has_read(v_ring, read - 1)

        # Once more, for in between registers are short.
        row, head, _, _, _, _, is_begun, goes_on = _piece(
            tiles, shares, turn, workers, WINDOW, HEAD_GROUPS, HEADS,
            CONSUMERS * SHARE, TILE,
        )  # fmt: skip
        if shares is not None:
            if is_begun:
                _give_part(parts, shares, which, workers, maximum, total, weighted)
            elif goes_on:
                total, weighted = _with_parts(
                    parts, shares, which, workers, maximum, total, weighted
                )
        if not is_begun:
            factor = 1.0 / gl.where(total == 0.0, 1.0, total)
            if value_scale is not None:
                factor = factor * gl.load(value_scale + head // GROUP)
            mean = _scaled(weighted, factor)
            mean = gl.convert_layout(mean.to(out.dtype.element_ty), of_out)
            out_row = gl.arange(0, ROWS, gl.SliceLayout(1, of_out))
            column = gl.arange(0, DIM, gl.SliceLayout(0, of_out))
            token = gl.load(row + 1) + which * SHARE + out_row // HEADS
            head_row = token.to(gl.int64) * (HEAD_GROUPS * HEADS) + head
            place = gl.expand_dims((head_row + out_row % HEADS) * DIM, 1)
            gl.store(
                out + place + gl.expand_dims(column, 0), mean,
                mask=gl.expand_dims(token < gl.load(row + 2), 1),
            )  # fmt: skip


@gluon.jit
def _barriers(PLACES: gl.constexpr, READERS: gl.constexpr):
    """(full, empty), each with a barrier for every place of a ring."""
    full = gl.allocate_shared_memory(gl.int64, [PLACES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [PLACES, 1], mbarrier.MBarrierLayout())
    for place in gl.static_range(PLACES):
        mbarrier.init(full.index(place), count=1)
        mbarrier.init(empty.index(place), count=READERS)
    return full, empty


@gluon.constexpr_function
def _multiplied_layout(source, dtype, rows):
    """Where numbers of a tile lie in shared memory: as the matrix unit reads them."""
    if source.dtype == dtype:
        return source.layout
    return gl.NVMMASharedLayout.get_default_for([rows, source.block_shape[1]], dtype)


@gluon.jit
def _ring_of_bytes(source, TILE: gl.constexpr, PLACES: gl.constexpr):
    """A ring for tiles as they are stored, in 8 bits: the converters read them."""
    shape: gl.constexpr = [PLACES, TILE, source.block_shape[1]]
    tiles = gl.allocate_shared_memory(source.dtype, shape, source.layout)
    full, empty = _barriers(PLACES, 1)
    return tiles, full, empty


@gluon.constexpr_function
def _registers_with_converters(warps):
    """Of threads of the second consumer, of converters and of the producer.

    The first consumer has what is left of 65,536. Unused warps, which fill a group of
    four, count as the group's others.
    """
    return [216, 56, 24] if warps == 4 else [224, 64, 40]


@gluon.jit(do_not_specialize=["workers"])
def prompts_kernel(
    out,  # [T, H, value dim]
    maxima,  # [workers, CONSUMERS, ROWS]: of parts of tiles; None: no tile is cut
    totals,  # the same
    sums,  # [workers, CONSUMERS, ROWS, value dim]: of weighted values
    flags,  # [workers, CONSUMERS] int32, zeros: 1 if there is a part
    q,  # descriptor of [T, H, key dim], for boxes of 64 rows
    keys,  # descriptor of [slots, kv heads * key dim], for boxes of a head in a block
    values,
    tiles,  # of queries: see `list_tiles`
    shares,  # see `share_tiles`; None: no tile is cut
    block_tables,
    sinks,  # [H]; None: there are none
    key_scale,  # [kv heads]; None: K is not in 8 bits
    value_scale,
    workers,  # how many programs there are
    scale,
    softcap,  # None: there is none
    WINDOW: gl.constexpr,
    BLOCK_SIZE: gl.constexpr,
    NUM_HEADS: gl.constexpr,
    GROUP: gl.constexpr,  # query heads of a KV head
    HEADS: gl.constexpr,  # of a tile of queries: a power of two that divides GROUP
    TILE: gl.constexpr,  # positions of a tile of keys
    PLACES: gl.constexpr,  # of the rings of K and V
    Q_PLACES: gl.constexpr,
    BYTE_PLACES: gl.constexpr,  # of the rings of K and V in 8 bits
    CONVERTERS: gl.constexpr,  # warps that convert them: 4 or 2
):
    """Make the rings, and give each warp its job."""
    parts, scales = (maxima, totals, sums, flags), (key_scale, value_scale)
    HEAD_GROUPS: gl.constexpr = NUM_HEADS // HEADS
    of_q: gl.constexpr = [Q_PLACES * CONSUMERS, ROWS // HEADS, HEADS, q.block_shape[2]]
    of_k: gl.constexpr = [PLACES, TILE, keys.block_shape[1]]
    of_v: gl.constexpr = [PLACES, TILE, values.block_shape[1]]
    k_layout: gl.constexpr = _multiplied_layout(keys, q.dtype, TILE)
    v_layout: gl.constexpr = _multiplied_layout(values, q.dtype, TILE)
    q_rows = gl.allocate_shared_memory(q.dtype, of_q, q.layout)
    k_tiles = gl.allocate_shared_memory(q.dtype, of_k, k_layout)
    v_tiles = gl.allocate_shared_memory(q.dtype, of_v, v_layout)
    q_full, q_empty = _barriers(Q_PLACES * CONSUMERS, 1)
    k_full, k_empty = _barriers(PLACES, CONSUMERS)
    v_full, v_empty = _barriers(PLACES, CONSUMERS)
    q_ring = q_rows, q_full, q_empty
    k_ring = k_tiles, k_full, k_empty
    v_ring = v_tiles, v_full, v_empty
    rings = q_ring, k_ring, v_ring
    given = out, parts, sinks, rings, tiles, shares, workers, scale, softcap, scales
    if value_scale is None:
        gl.warp_specialize(
            [
                (_consume, (given, 0, WINDOW, BLOCK_SIZE, HEAD_GROUPS, HEADS, GROUP)),
                (_consume, (given, 1, WINDOW, BLOCK_SIZE, HEAD_GROUPS, HEADS, GROUP)),
                (
                    _produce,
                    (
                        q, keys, values, rings, tiles, shares, block_tables, workers,
                        WINDOW, BLOCK_SIZE, HEAD_GROUPS, HEADS, GROUP,
                    ),
                ),
            ],
            [4, 1],  # warps of the second consumer and of the producer
            [232, 40],  # registers of their threads; a consumer has all that can be
        )  # fmt: skip
    else:
        v_bytes = _ring_of_bytes(values, TILE, BYTE_PLACES)
        in_bytes, copied = (None, v_bytes), (q_ring, k_ring, v_bytes)
        if key_scale is not None:
            k_bytes = _ring_of_bytes(keys, TILE, BYTE_PLACES)
            in_bytes, copied = (k_bytes, v_bytes), (q_ring, k_bytes, v_bytes)
        gl.warp_specialize(
            [
                (_consume, (given, 0, WINDOW, BLOCK_SIZE, HEAD_GROUPS, HEADS, GROUP)),
                (_consume, (given, 1, WINDOW, BLOCK_SIZE, HEAD_GROUPS, HEADS, GROUP)),
                (
                    _convert,
                    (
                        in_bytes, rings, tiles, shares, workers,
                        WINDOW, HEAD_GROUPS, HEADS, CONVERTERS,
                    ),
                ),
                (
                    _produce,
                    (
                        q, keys, values, copied, tiles, shares, block_tables, workers,
                        WINDOW, BLOCK_SIZE, HEAD_GROUPS, HEADS, GROUP,
                    ),
                ),
            ],
            [4, CONVERTERS, 1],
            _registers_with_converters(CONVERTERS),
        )  # fmt: skip
