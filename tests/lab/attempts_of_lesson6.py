"""Right and wrong attempts at lesson 6's exercises."""

from minipaged.attention.triton_setup import tl, triton


def least_time(contexts, num_kv_heads, head_dim, bytes_each, gb_per_s):
    """Token by token, unlike the solution in the notebook."""
    row = 2 * num_kv_heads * head_dim * bytes_each
    return sum(context * row for context in contexts) / gb_per_s / 1000


@triton.jit
def slots(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    position = tl.load(positions + at, mask=at < num_tokens, other=-1)
    is_token = position >= 0
    block = tl.load(table + position // BLOCK_SIZE, mask=is_token, other=0)
    slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
    tl.store(slots + at, tl.where(is_token, slot, -1), mask=at < num_tokens)


@triton.jit
def decode(
    out, q, keys, values, table, num_tokens, scale,
    GROUP: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    MASKS_VALUES: tl.constexpr = True,
    HEADS_GO_ROUND: tl.constexpr = False,
    FORGETS: tl.constexpr = 0,
    USES_TABLE: tl.constexpr = True,
    USES_SCALE: tl.constexpr = True,
    RESCALES: tl.constexpr = True,
    ROUNDS: tl.constexpr = False,
    START: tl.constexpr = float("-inf"),
    SHIFT: tl.constexpr = 0,
):  # fmt: skip
    """From the last block to the first; every flag is a mistake."""
    head = tl.program_id(0)
    column, offset = tl.arange(0, DIM), tl.arange(0, BLOCK_SIZE)
    query = tl.load(q + head * DIM + column)
    maximum, total = START, 0.0
    weighted = tl.zeros([DIM], tl.float32)
    kv_head = head % NUM_KV_HEADS if HEADS_GO_ROUND else head // GROUP
    num_blocks = tl.cdiv(num_tokens, BLOCK_SIZE)
    for back in range(num_blocks):
        block = num_blocks - 1 - back
        exists = block * BLOCK_SIZE + offset < num_tokens - FORGETS
        if USES_TABLE:
            block = tl.load(table + block).to(tl.int64)
        rows = (block * BLOCK_SIZE + offset) * NUM_KV_HEADS + kv_head
        places = rows[:, None] * DIM + column[None, :]
        k = tl.load(keys + places, mask=exists[:, None], other=0.0)
        if MASKS_VALUES:
            v = tl.load(values + places, mask=exists[:, None], other=0.0)
        else:
            v = tl.load(values + places)
        factor = scale if USES_SCALE else DIM**-0.5
        logits = tl.sum(k * query[None, :], 1) * factor
        logits = tl.where(exists, logits, float("-inf"))
        larger = tl.maximum(maximum, tl.max(logits, 0))
        weights, rescale = tl.exp(logits - larger), tl.exp(maximum - larger)
        if ROUNDS:
            weights = weights.to(tl.float16).to(tl.float32)
        if RESCALES:
            weighted = weighted * rescale
        total = total * rescale + tl.sum(weights, 0)
        weighted = weighted + tl.sum(weights[:, None] * v, 0)
        maximum = larger
    tl.store(out + (head + SHIFT) * DIM + column, weighted / total)


# --- what is wrong --------------------------------------------------------------------


@triton.jit
def wraps(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    position = tl.load(positions + at, mask=at < num_tokens, other=-1).to(tl.int32)
    block = tl.load(table + position // BLOCK_SIZE, mask=position >= 0, other=0)
    slot = block * BLOCK_SIZE + position % BLOCK_SIZE
    tl.store(slots + at, tl.where(position >= 0, slot, -1), mask=at < num_tokens)


@triton.jit
def stores_too_much(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    position = tl.load(positions + at, mask=at < num_tokens, other=-1)
    block = tl.load(table + position // BLOCK_SIZE, mask=position >= 0, other=0)
    slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
    tl.store(slots + at, tl.where(position >= 0, slot, -1))


@triton.jit
def forgets_the_padding(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    position = tl.load(positions + at, mask=at < num_tokens, other=0)
    block = tl.load(table + position // BLOCK_SIZE, mask=at < num_tokens, other=0)
    slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
    tl.store(slots + at, slot, mask=at < num_tokens)


@triton.jit
def only_the_first_program(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    at = tl.arange(0, TILE)
    position = tl.load(positions + at, mask=at < num_tokens, other=-1)
    block = tl.load(table + position // BLOCK_SIZE, mask=position >= 0, other=0)
    slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
    tl.store(slots + at, tl.where(position >= 0, slot, -1), mask=at < num_tokens)


@triton.jit
def sixteen_each(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    at = tl.program_id(0) * 16 + tl.arange(0, 16)
    position = tl.load(positions + at, mask=at < num_tokens, other=-1)
    block = tl.load(table + position // BLOCK_SIZE, mask=position >= 0, other=0)
    slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
    tl.store(slots + at, tl.where(position >= 0, slot, -1), mask=at < num_tokens)


@triton.jit
def slots_stub(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    raise NotImplementedError


@triton.jit
def plain_weights(
    out, q, keys, values, table, num_tokens, scale,
    GROUP: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    """All weights at once, for 32 tokens, with no maximum."""
    head = tl.program_id(0)
    column, position = tl.arange(0, DIM), tl.arange(0, 32)
    query = tl.load(q + head * DIM + column)
    exists = position < num_tokens
    block = tl.load(table + position // BLOCK_SIZE, mask=exists, other=0)
    slot = block * BLOCK_SIZE + position % BLOCK_SIZE
    rows = slot * NUM_KV_HEADS + head // GROUP
    places = rows[:, None] * DIM + column[None, :]
    k = tl.load(keys + places, mask=exists[:, None], other=0.0)
    v = tl.load(values + places, mask=exists[:, None], other=0.0)
    logits = tl.where(exists, tl.sum(k * query[None, :], 1) * scale, float("-inf"))
    weights = tl.exp(logits)
    mean = tl.sum(weights[:, None] * v, 0) / tl.sum(weights, 0)
    tl.store(out + head * DIM + column, mean)


def flawed(name, **flags):
    """A kernel of its own: `decode`, of which this flag is set."""

    class Flawed(triton.KernelInterface):
        fn = decode.fn
        __name__ = name

        def run(self, *arguments, **options):
            return decode.run(*arguments, **options, **flags)

        __call__ = run  # as of every kernel

    return Flawed()


WRONG = {
    "least_time": [
        lambda *a: least_time(*a) / 2,
        lambda *a: least_time(*a) / 1.024**3,
        lambda *a: least_time(*a) / 1e6,
        lambda contexts, *rest: least_time([max(contexts, default=0)], *rest),
        lambda contexts, kv, dim, size, rate: least_time(contexts, kv, dim, 2, rate),
        lambda *a: str(least_time(*a)),
        lambda *a: float("nan"),
    ],
    "slots": [
        wraps,
        stores_too_much,
        forgets_the_padding,
        only_the_first_program,
        sixteen_each,
        lambda *a: slots,
    ],
    "decode": [
        plain_weights,
        flawed("unmasked", MASKS_VALUES=False),
        flawed("go_round", HEADS_GO_ROUND=True),
        flawed("forgets", FORGETS=1),
        flawed("no_table", USES_TABLE=False),
        flawed("starts_at_0", START=0.0),
        flawed("no_scale", USES_SCALE=False),
        flawed("no_rescale", RESCALES=False),
        flawed("rounds", ROUNDS=True),
        flawed("one_row_on", SHIFT=1),
        slots,
        lambda *a: decode,
    ],
}
