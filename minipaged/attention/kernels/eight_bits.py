"""Lesson 6: numbers of 8 bits in kernels (the border; see appendix C).

K is read as it is stored: a head's scale multiplies the logits. So is V: its scale
multiplies the result. Where this module multiplies, tiles of both are converted to
float16, for which a GPU has an instruction, without rounding, and so is q; if q has 32
bits, all are converted to that.
"""

import torch

from minipaged.attention.kernels.setup import INTERPRETED, tl, triton
from minipaged.attention.kernels.tile import capped, load_tile
from minipaged.memory.eight_bits import E4M3
from minipaged.memory.kv_cache import LayerCache

_INTERPRETED = tl.constexpr(INTERPRETED)  # kernels read only such globals


@triton.jit
def to_eight_bits(numbers, scale):
    """As torch's in `memory.eight_bits`: divide, clamp to 448 at most, round."""
    numbers = numbers.to(tl.float32) / scale
    numbers = tl.clamp(numbers, -448.0, 448.0, tl.PropagateNan.ALL)
    return numbers.to(tl.float8e4nv)


@triton.jit
def _low_and_high(words):
    """The numbers in the low bytes and in the high bytes of 16-bit words, in float16.

    A GPU takes two words at a time, sorts their bytes, and converts two bytes at once.
    """
    if _INTERPRETED:
        low = words.to(tl.int8).to(tl.float8e4nv, bitcast=True)
        high = (words >> 8).to(tl.int8).to(tl.float8e4nv, bitcast=True)
        return low.to(tl.float16), high.to(tl.float16)
    else:  # of the lines above, the compiler makes many more instructions
        return tl.inline_asm_elementwise(
            """{
            .reg .b32 sorted;
            .reg .b16 low, high;
            prmt.b32 sorted, $2, 0, 0x3120;
            mov.b32 {low, high}, sorted;
            cvt.rn.f16x2.e4m3x2 $0, low;
            cvt.rn.f16x2.e4m3x2 $1, high;
            }""",
            "=r,=r,r",
            [words],
            dtype=(tl.float16, tl.float16),
            is_pure=True,
            pack=2,
        )


@triton.jit
def as_float16(q):
    """q [rows, dim] in float16, divided by a power of two for each row: (q, [rows])."""
    largest = tl.maximum(tl.max(tl.abs(q.to(tl.float32)), 1), 1e-30)
    divisor = tl.exp2(tl.floor(tl.log2(largest)))
    return (q.to(tl.float32) / divisor[:, None]).to(tl.float16), divisor


@triton.jit
def head_and_column(kv_head, column, DIM: tl.constexpr, TOGETHER: tl.constexpr):
    """Which KV head a column belongs to, and which of its columns that is.

    `TOGETHER` heads are read as one, `kv_head`, whose numbers are `DIM` together.
    """
    if TOGETHER == 1:
        return kv_head, column
    else:
        part = column // (DIM // TOGETHER)
        return kv_head * TOGETHER + part, column - part * (DIM // TOGETHER)


@triton.jit
def _wait():
    """Wait for the end of the kernel before this one, as `tl.extra.cuda.gdc_wait` does.

    That is an operation of its own since Triton 3.9, and in a loop that has one, no
    tile is asked for before the round that needs it.
    """
    tl.inline_asm_elementwise(
        "griddepcontrol.wait; // $0", "=r", [], tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _queries(
    q_places, q_mask, scale,
    IN_EIGHT_BITS: tl.constexpr, TURNED: tl.constexpr,
    WAITS: tl.constexpr, HANDS_OVER: tl.constexpr,
):  # fmt: skip
    """Wait for q, then read it: even columns, odd columns, and a scale for each row.

    IN_EIGHT_BITS: is K? Otherwise q is not split, and both are all columns.
    """
    if WAITS:
        _wait()
    if HANDS_OVER:
        tl.extra.cuda.gdc_launch_dependents()
    even = tl.load(q_places, mask=q_mask, other=0.0)
    odd, scales = even, scale + tl.zeros([even.shape[0]], tl.float32)
    if IN_EIGHT_BITS:
        q, divisor = as_float16(even)
        even, odd = tl.split(tl.reshape(q, [q.shape[0], q.shape[1] // 2, 2]))
        scales = scales * divisor
    if TURNED:
        even, odd = tl.trans(even), tl.trans(odd)
    return even, odd, scales


@triton.jit
def over_words(
    maximum, total,
    start, stop, q_places, q_mask, key_head, value_head, table, scale, softcap,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    PADDED_KEY_DIM: tl.constexpr,
    PADDED_VALUE_DIM: tl.constexpr,
    TILE: tl.constexpr,
    WAITS: tl.constexpr,
    HANDS_OVER: tl.constexpr,
):  # fmt: skip
    """As `tile.over_tiles` where all rows see all positions, for V in 8 bits.

    K and V are read in words of two numbers: that is what the matrix units' own loads
    move. So even and odd numbers are multiplied apart, those of K by those of q.

    With half the bytes to wait for, instructions count. After the last position, the
    last is read again, and hidden, which needs no masks. The matrix units add up the
    weights, too. Weights go up to 2**14, because float16 has no small numbers.

    The beginning counts, too. Only q comes from the kernel before this one. So the
    first tiles are asked for, and then the first round of the loop waits for q: the
    compiler's pipeline asks for tiles before the rounds that need them.

    q_places, q_mask: [rows, key dim]. scale: a number, or [rows]. There must be less
    than 2**31 slots, and no weighted values yet.
    """
    IN_EIGHT_BITS: tl.constexpr = key_head.dtype.element_ty == tl.float8e4nv
    ROWS: tl.constexpr = q_places.shape[0]
    key_words = key_head.to(tl.pointer_type(tl.int16))
    value_words = value_head.to(tl.pointer_type(tl.int16))
    if IN_EIGHT_BITS:
        q_even = tl.zeros([ROWS, PADDED_KEY_DIM // 2], tl.float16)
    else:
        q_even = tl.zeros([ROWS, PADDED_KEY_DIM], q_places.dtype.element_ty)
    q_odd, scales = q_even, tl.zeros([ROWS], tl.float32)
    even = tl.zeros([ROWS, PADDED_VALUE_DIM // 2], tl.float32)
    odd = even
    ones = tl.full([TILE, 8], 1.0, tl.float16)  # the fewest columns that units take
    totals = total[:, None] + tl.zeros([ROWS, 8], tl.float32)
    for first in range(start, stop, TILE):
        if first == start:
            q_even, q_odd, scales = _queries(
                q_places, q_mask, scale, IN_EIGHT_BITS, False, WAITS, HANDS_OVER
            )
        seen = first + tl.arange(0, TILE)
        hidden = tl.where(seen < stop, 0.0, float("-inf"))
        seen = tl.minimum(seen, stop - 1)
        block = tl.load(table + seen // BLOCK_SIZE).to(tl.int32)
        slots = (block * BLOCK_SIZE + seen % BLOCK_SIZE).to(tl.int64)
        if IN_EIGHT_BITS:
            k = load_tile(
                key_words, slots, None,
                NUM_KV_HEADS * KEY_DIM // 2, KEY_DIM // 2, PADDED_KEY_DIM // 2, False,
            )  # fmt: skip
            low, high = _low_and_high(tl.trans(k))
            logits = tl.dot(q_odd, high, tl.dot(q_even, low))
        else:
            k = load_tile(
                key_head, slots, None,
                NUM_KV_HEADS * KEY_DIM, KEY_DIM, PADDED_KEY_DIM, False,
            )  # fmt: skip
            logits = tl.dot(q_even, tl.trans(k))
        v = load_tile(
            value_words, slots, None,
            NUM_KV_HEADS * VALUE_DIM // 2, VALUE_DIM // 2, PADDED_VALUE_DIM // 2, False,
        )  # fmt: skip
        logits = capped(logits * scales[:, None], softcap) + hidden[None, :]
        new_maximum = tl.maximum(maximum, tl.max(logits, 1) - 14.0)
        weights = tl.exp2(logits - new_maximum[:, None]).to(tl.float16)
        rescale = tl.exp2(maximum - new_maximum)[:, None]
        low, high = _low_and_high(v)
        totals = tl.dot(weights, ones, totals * rescale)
        even = tl.dot(weights, low, even * rescale)
        odd = tl.dot(weights, high, odd * rescale)
        maximum = new_maximum
    return maximum, tl.max(totals, 1), tl.interleave(even, odd)


@triton.jit
def _load_turned(
    head_start, slots,
    SLOT_STRIDE: tl.constexpr, DIM: tl.constexpr, PADDED_DIM: tl.constexpr,
):  # fmt: skip
    """As `tile.load_tile` without a mask of slots, turned: [PADDED_DIM, N]."""
    column = tl.arange(0, PADDED_DIM)
    pointers = head_start + slots[None, :] * SLOT_STRIDE + column[:, None]
    if DIM < PADDED_DIM:
        return tl.load(pointers, mask=(column < DIM)[:, None], other=0)
    else:
        return tl.load(pointers)


@triton.jit
def over_words_with_few_heads(
    maximum, total,
    start, stop, q_places, q_mask, key_head, value_head, table, scale, softcap,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    PADDED_KEY_DIM: tl.constexpr,
    PADDED_VALUE_DIM: tl.constexpr,
    TILE: tl.constexpr,
    WAITS: tl.constexpr,
    HANDS_OVER: tl.constexpr,
):  # fmt: skip
    """As `over_words`, for at most 8 query heads of a KV head.

    A matrix unit multiplies 16 rows by 8 columns. Query heads are 16 rows in
    `over_words`, of which most would be empty here. So K and V turn into the rows, and
    the heads are the columns: half as many products, and half as many numbers of each.

    Each position of a tile adds up its weights apart; they are added at the end.
    """
    IN_EIGHT_BITS: tl.constexpr = key_head.dtype.element_ty == tl.float8e4nv
    ROWS: tl.constexpr = q_places.shape[0]
    key_words = key_head.to(tl.pointer_type(tl.int16))
    value_words = value_head.to(tl.pointer_type(tl.int16))
    if IN_EIGHT_BITS:
        q_even = tl.zeros([PADDED_KEY_DIM // 2, ROWS], tl.float16)
    else:
        q_even = tl.zeros([PADDED_KEY_DIM, ROWS], q_places.dtype.element_ty)
    q_odd, scales = q_even, tl.zeros([ROWS], tl.float32)
    even = tl.zeros([PADDED_VALUE_DIM // 2, ROWS], tl.float32)
    odd = even
    is_first = tl.arange(0, TILE) == 0
    totals = tl.where(is_first[:, None], total[None, :], 0.0)
    for first in range(start, stop, TILE):
        if first == start:
            q_even, q_odd, scales = _queries(
                q_places, q_mask, scale, IN_EIGHT_BITS, True, WAITS, HANDS_OVER
            )
        seen = first + tl.arange(0, TILE)
        hidden = tl.where(seen < stop, 0.0, float("-inf"))
        seen = tl.minimum(seen, stop - 1)
        block = tl.load(table + seen // BLOCK_SIZE).to(tl.int32)
        slots = (block * BLOCK_SIZE + seen % BLOCK_SIZE).to(tl.int64)
        if IN_EIGHT_BITS:
            k = _load_turned(
                key_words, slots,
                NUM_KV_HEADS * KEY_DIM // 2, KEY_DIM // 2, PADDED_KEY_DIM // 2,
            )  # fmt: skip
            low, high = _low_and_high(tl.trans(k))
            logits = tl.dot(high, q_odd, tl.dot(low, q_even))
        else:
            k = _load_turned(
                key_head, slots, NUM_KV_HEADS * KEY_DIM, KEY_DIM, PADDED_KEY_DIM
            )
            logits = tl.dot(tl.trans(k), q_even)
        v = _load_turned(
            value_words, slots,
            NUM_KV_HEADS * VALUE_DIM // 2, VALUE_DIM // 2, PADDED_VALUE_DIM // 2,
        )  # fmt: skip
        logits = capped(logits * scales[None, :], softcap) + hidden[:, None]
        new_maximum = tl.maximum(maximum, tl.max(logits, 0) - 14.0)
        weights = tl.exp2(logits - new_maximum[None, :])
        rescale = tl.exp2(maximum - new_maximum)[None, :]
        totals = totals * rescale + weights
        weights = weights.to(tl.float16)
        low, high = _low_and_high(v)
        even = tl.dot(low, weights, even * rescale)
        odd = tl.dot(high, weights, odd * rescale)
        maximum = new_maximum
    return maximum, tl.sum(totals, 0), tl.interleave(tl.trans(even), tl.trans(odd))


def takes_words(q: torch.Tensor, cache: LayerCache) -> bool:
    """Can `over_words` read this layer's blocks, for these queries [T, H, key dim]?"""
    num_blocks, block_size, num_kv_heads, value_dim = cache.values.shape
    _, num_heads, key_dim = q.shape
    # A matrix unit takes 16 numbers at least, so that many pairs.
    key_fits = cache.key_scale is None or (key_dim > 16 and key_dim % 2 == 0)
    return (
        cache.value_scale is not None
        and q.element_size() == 2
        and num_heads <= 16 * num_kv_heads  # more rows are not tried yet
        and key_fits
        and value_dim % 2 == 0
        and num_blocks * block_size < 2**31
    )


def read_together(q: torch.Tensor, cache: LayerCache) -> int:
    """How many KV heads `step_kernel` reads as one, for these queries [T, H, key dim].

    In 8 bits, a head of 64 numbers has 64 bytes at each position: half of a cache line,
    and too few words for the rows of four warps. So two such heads are read as one of
    128 numbers, with the query heads of both. A query head has zeros where K is the
    other head's, and keeps its own half of the result.
    """
    num_kv_heads, value_dim = cache.values.shape[2:]
    in_eight_bits = takes_words(q, cache) and cache.key_scale is not None
    is_short = q.shape[2] == value_dim == 64 and num_kv_heads % 2 == 0
    fits = q.shape[1] <= 8 * num_kv_heads  # the queries of both are 16 rows at most
    return 2 if in_eight_bits and is_short and fits else 1


def check_scales(
    dtype: torch.dtype, heads: int, **blocks: tuple[torch.Tensor, torch.Tensor | None]
) -> None:
    """Refuse blocks that are neither of this type nor in 8 bits with a scale a head.

    blocks: by name, the keys or values of a layer and their scale.
    """
    for name, (tensor, scale) in blocks.items():
        wanted = dtype if scale is None else E4M3
        if tensor.dtype != wanted:
            raise ValueError(
                f"{name} are {tensor.dtype}, but {wanted} is wanted "
                f"{'without a scale' if scale is None else 'where there is a scale'}: "
                "convert them first"
            )
        if scale is None:
            continue
        if not INTERPRETED and torch.cuda.get_device_capability(tensor.device) < (8, 9):
            raise ValueError(
                "this GPU does not know e4m3, numbers of 8 bits; from compute "
                "capability 8.9 on, GPUs do: use attention='gathered', or no kv_dtype"
            )
        if scale.shape != (heads,) or scale.dtype != torch.float32:
            raise ValueError(
                f"the scale of {name} must be [{heads}] float32, got "
                f"{list(scale.shape)} {scale.dtype}"
            )
