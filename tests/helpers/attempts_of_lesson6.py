"""Right and wrong attempts at lesson 6's exercises."""

from minipaged.attention.kernels.setup import tl, triton


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
def split(
    means, logs, q, keys, values, table, num_tokens, scale,
    SHARE: tl.constexpr,
    GROUP: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    RESCALES: tl.constexpr = True,
):  # fmt: skip
    """From the last block to the first; an empty split leaves at once."""
    head, split = tl.program_id(0), tl.program_id(1)
    column, offset = tl.arange(0, DIM), tl.arange(0, BLOCK_SIZE)
    row = head * tl.num_programs(1) + split
    start, stop = split * SHARE, tl.minimum((split + 1) * SHARE, num_tokens)
    if stop <= start:
        tl.store(means + row * DIM + column, tl.zeros([DIM], tl.float32))
        tl.store(logs + row, float("-inf"))
        return
    query = tl.load(q + head * DIM + column)
    maximum, total = float("-inf"), 0.0
    weighted = tl.zeros([DIM], tl.float32)
    num_blocks = tl.cdiv(stop - start, BLOCK_SIZE)
    for back in range(num_blocks):
        first = start + (num_blocks - 1 - back) * BLOCK_SIZE
        block = tl.load(table + first // BLOCK_SIZE).to(tl.int64)
        rows = (block * BLOCK_SIZE + offset) * NUM_KV_HEADS + head // GROUP
        places = rows[:, None] * DIM + column[None, :]
        exists = first + offset < num_tokens
        k = tl.load(keys + places, mask=exists[:, None], other=0.0)
        v = tl.load(values + places, mask=exists[:, None], other=0.0)
        logits = tl.where(exists, tl.sum(k * query[None, :], 1) * scale, float("-inf"))
        larger = tl.maximum(maximum, tl.max(logits, 0))
        weights, rescale = tl.exp(logits - larger), tl.exp(maximum - larger)
        if not RESCALES:  # a mistake
            rescale = 1.0
        total = total * rescale + tl.sum(weights, 0)
        weighted = weighted * rescale + tl.sum(weights[:, None] * v, 0)
        maximum = larger
    tl.store(means + row * DIM + column, weighted / total)
    tl.store(logs + row, maximum + tl.log(total))


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
def at_once(
    means, logs, q, keys, values, table, num_tokens, scale,
    SHARE: tl.constexpr,
    GROUP: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    IS_SAFE: tl.constexpr = True,
    MASKS_VALUES: tl.constexpr = True,
    HEADS_GO_ROUND: tl.constexpr = False,
    FORGETS: tl.constexpr = 0,
    USES_TABLE: tl.constexpr = True,
    STOPS: tl.constexpr = True,
    DIVIDES: tl.constexpr = True,
    DIVIDES_BY_ZERO: tl.constexpr = False,
    BASE_2: tl.constexpr = False,
    ADDS_MAXIMUM: tl.constexpr = True,
    STARTS_AT_0: tl.constexpr = False,
    USES_SCALE: tl.constexpr = True,
    HEADS_ON: tl.constexpr = 0,
):  # fmt: skip
    """All weights at once, for 32 tokens; each flag that is changed is a mistake."""
    head, split = tl.program_id(0), tl.program_id(1)
    column, position = tl.arange(0, DIM), split * SHARE + tl.arange(0, 32)
    query = tl.load(q + head * DIM + column)
    exists = position < num_tokens - FORGETS
    if STOPS:
        exists = exists & (position < (split + 1) * SHARE)
    block = position // BLOCK_SIZE
    if USES_TABLE:
        block = tl.load(table + block, mask=exists, other=0)
    kv_head = head // GROUP
    if HEADS_GO_ROUND:
        kv_head = head % NUM_KV_HEADS
    rows = (block * BLOCK_SIZE + position % BLOCK_SIZE) * NUM_KV_HEADS + kv_head
    places = rows[:, None] * DIM + column[None, :]
    k = tl.load(keys + places, mask=exists[:, None], other=0.0)
    v = tl.load(values + places, mask=exists[:, None], other=0.0)
    if not MASKS_VALUES:
        v = tl.where(exists[:, None], v, float("nan"))
    if not USES_SCALE:
        scale = DIM**-0.5
    logits = tl.where(exists, tl.sum(k * query[None, :], 1) * scale, float("-inf"))
    maximum = tl.max(logits, 0)
    if STARTS_AT_0:
        maximum = tl.maximum(maximum, 0.0)
    lowered = tl.where(maximum == float("-inf"), 0.0, maximum)
    if not IS_SAFE:
        lowered = 0.0
    weights = tl.exp(logits - lowered)
    total = tl.sum(weights, 0)
    mean = tl.sum(weights[:, None] * v, 0)
    if DIVIDES_BY_ZERO:
        mean = mean / total
    elif DIVIDES:
        mean = mean / tl.where(total == 0.0, 1.0, total)
    log = tl.log(total)
    if ADDS_MAXIMUM:
        log += lowered
    if BASE_2:
        log *= 1.4426950408889634
    row = (head + HEADS_ON) * tl.num_programs(1) + split
    tl.store(means + row * DIM + column, mean)
    tl.store(logs + row, log)


def flawed(name, kernel=at_once, **flags):
    """A kernel of its own, of which this flag is set."""

    class Flawed(triton.KernelInterface):
        fn = kernel.fn
        __name__ = name

        def run(self, *arguments, **options):
            return kernel.run(*arguments, **options, **flags)

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
    "split": [
        flawed("unsafe", IS_SAFE=False),
        flawed("unmasked", MASKS_VALUES=False),
        flawed("go_round", HEADS_GO_ROUND=True),
        flawed("forgets", FORGETS=1),
        flawed("no_table", USES_TABLE=False),
        flawed("never_stops", STOPS=False),
        flawed("leaves_a_sum", DIVIDES=False),
        flawed("divides_by_zero", DIVIDES_BY_ZERO=True),
        flawed("base_2", BASE_2=True),
        flawed("no_maximum", ADDS_MAXIMUM=False),
        flawed("starts_at_0", STARTS_AT_0=True),
        flawed("no_scale", USES_SCALE=False),
        flawed("one_head_on", HEADS_ON=1),
        flawed("never_rescales", split, RESCALES=False),
        slots,
        lambda *a: split,
    ],
}
