"""Right and wrong attempts at lesson 6's exercises.

A flag that is changed is a mistake; `FAULTS` says what a check must answer to it.
"""

from minipaged.attention.kernels.setup import tl, triton


@triton.jit
def sums(
    out, x, y, num_columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MASKS_Y: tl.constexpr = True,
    MASKS_SUMS: tl.constexpr = True,
    COLUMNS_APART: tl.constexpr = False,
    ONE_COLUMN_MORE: tl.constexpr = False,
    EXCHANGES: tl.constexpr = False,
    TRANSPOSES: tl.constexpr = False,
    FIRST_X: tl.constexpr = False,
    MULTIPLIES: tl.constexpr = False,
    ONLY_X: tl.constexpr = False,
    MASKS_ROWS: tl.constexpr = False,
    STORES: tl.constexpr = True,
    INDEXES: tl.constexpr = False,
):  # fmt: skip
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    if INDEXES:
        number = x[row] + y[column]
    elif EXCHANGES:
        number = tl.load(x + column) + tl.load(y + row)
    elif FIRST_X:
        number = tl.load(x) + tl.load(y + column, mask=column < num_columns)
    elif MASKS_Y:
        number = tl.load(x + row) + tl.load(y + column, mask=column < num_columns)
    else:
        number = tl.load(x + row) + tl.load(y + column)
    if MULTIPLIES:
        number = tl.load(x + row) * tl.load(y + column, mask=column < num_columns)
    if ONLY_X:
        number = tl.load(x + row) + tl.zeros([ROWS, COLUMNS], tl.float32)
    places = row * num_columns + column
    if COLUMNS_APART:
        places = row * COLUMNS + column
    if TRANSPOSES:
        places = column * num_columns + row
    exists = (row >= 0) & (column < num_columns + ONE_COLUMN_MORE)
    if MASKS_ROWS:
        exists = exists & (row < num_columns)
    if STORES:
        if MASKS_SUMS:
            tl.store(out + places, number, mask=exists)
        else:
            tl.store(out + places, number)


@triton.jit
def sums_row_by_row(out, x, y, num_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    for row in range(ROWS):
        number = tl.load(x + row) + tl.load(y + column, mask=column < num_columns)
        place = out + row * num_columns + column
        tl.store(place, number, mask=column < num_columns)


@triton.jit
def stores_one_row(out, x, y, num_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    number = tl.load(x) + tl.load(y + column, mask=column < num_columns)
    tl.store(out + column, number, mask=column < num_columns)


@triton.jit
def stores_a_diagonal(
    out, x, y, num_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    number = tl.load(x + row) + tl.load(y + column, mask=column < num_columns)
    tl.store(out + row * num_columns + column, number, mask=column < num_columns)


@triton.jit
def stores_on_into_the_next_row(
    out, x, y, num_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Only what lies behind `out` is masked; and the first row is stored last."""
    row, column = tl.arange(0, ROWS)[None, :], tl.arange(0, COLUMNS)[:, None]
    number = tl.load(x + row) + tl.load(y + column, mask=column < num_columns, other=0)
    places = row * num_columns + column
    tl.store(out + places, number, mask=places < ROWS * num_columns)


@triton.jit
def slots(
    slots, table, positions, num_tokens,
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    MASKS_POSITIONS: tl.constexpr = True,
    MASKS_TABLE: tl.constexpr = True,
    MASKS_STORE: tl.constexpr = True,
    WIDENS: tl.constexpr = True,
    PADS: tl.constexpr = True,
    ONLY_FIRST: tl.constexpr = False,
    USES_TABLE: tl.constexpr = True,
    ASKS_TILE: tl.constexpr = False,
    STORES_PADS: tl.constexpr = True,
    OFFSET_OF_PLACE: tl.constexpr = False,
    BLOCK_OF_PLACE: tl.constexpr = False,
):  # fmt: skip
    program = tl.program_id(0)
    if ONLY_FIRST:
        program = 0
    at = program * TILE + tl.arange(0, TILE)
    here = at < num_tokens
    if MASKS_POSITIONS:
        position = tl.load(positions + at, mask=here, other=-1)
    else:
        position = tl.load(positions + at)
    is_token = position >= 0
    if ASKS_TILE and not is_token:
        position = 0
    block = (at if BLOCK_OF_PLACE else position) // BLOCK_SIZE
    if USES_TABLE:
        if MASKS_TABLE:
            block = tl.load(table + block, mask=is_token, other=0)
        else:
            block = tl.load(table + block)
    if WIDENS:
        block = block.to(tl.int64)
    else:
        block = block.to(tl.int32)
        position = position.to(tl.int32)
    if OFFSET_OF_PLACE:
        position = at
    slot = block * BLOCK_SIZE + position % BLOCK_SIZE
    if PADS:
        slot = tl.where(is_token, slot, -1)
    if not STORES_PADS:
        here = here & is_token
    if MASKS_STORE:
        tl.store(slots + at, slot, mask=here)
    else:
        tl.store(slots + at, slot)


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
def known_only_at_run_time(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    at = tl.program_id(0) * TILE + tl.arange(0, num_tokens)
    tl.store(slots + at, at)


@triton.jit
def changes_the_table(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    tl.store(table, 0)


@triton.jit
def keeps_a_slot_in_a_loop(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    """Right, but `slot` is a whole number first, and then 64 bits wide."""
    slot = 0
    for i in range(TILE):
        at = tl.program_id(0) * TILE + i
        here = at < num_tokens
        position = tl.load(positions + at, mask=here, other=-1)
        block = tl.load(table + position // BLOCK_SIZE, mask=position >= 0, other=0)
        slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
        tl.store(slots + at, tl.where(position >= 0, slot, -1), mask=here)


@triton.jit
def masks_nothing(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    position = tl.load(positions + at)
    block = tl.load(table + position // BLOCK_SIZE).to(tl.int64)
    tl.store(slots + at, block * BLOCK_SIZE + position % BLOCK_SIZE)


@triton.jit
def slots_stub(
    slots, table, positions, num_tokens, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr
):
    raise NotImplementedError


def slots_without_jit(slots, table, positions, num_tokens, BLOCK_SIZE, TILE):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(slots + at, at)


@triton.jit
def merge_splits(
    out, means, logs, num_splits,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    MASKS: tl.constexpr = True,
    BEHIND: tl.constexpr = float("-inf"),
    LOWERS: tl.constexpr = True,
    GUARDS_EMPTY: tl.constexpr = True,
    WEIGHS: tl.constexpr = True,
    BASE_2: tl.constexpr = False,
    DIVIDES: tl.constexpr = True,
    AXIS: tl.constexpr = 0,
    FORGETS: tl.constexpr = 0,
    STRIDE: tl.constexpr = None,
    DIVIDES_BY_ZERO: tl.constexpr = False,
    WEIGHS_MEANS: tl.constexpr = True,
    BY_COUNT: tl.constexpr = False,
):  # fmt: skip
    """All splits at once."""
    head, split, column = tl.program_id(0), tl.arange(0, SPLITS), tl.arange(0, DIM)
    row = head * num_splits + split
    if STRIDE is not None:
        row = head * STRIDE + split
    exists = split < num_splits - FORGETS
    if MASKS:
        log = tl.load(logs + row, mask=exists, other=BEHIND)
    else:
        log = tl.load(logs + row)
    places = row[:, None] * DIM + column[None, :]
    mean = tl.load(means + places, mask=exists[:, None], other=0.0)
    largest = tl.max(log, 0)
    if GUARDS_EMPTY:
        largest = tl.where(largest == float("-inf"), 0.0, largest)
    if not LOWERS:
        largest = 0.0
    weight = tl.exp2(log - largest) if BASE_2 else tl.exp(log - largest)
    if not WEIGHS:
        weight = tl.where(exists, 1.0, 0.0)
    total = tl.sum(weight, 0)
    if not DIVIDES_BY_ZERO:
        total = tl.where(total == 0.0, 1.0, total)
    if not WEIGHS_MEANS:
        weight = tl.where(exists, 1.0, 0.0)
    result = tl.sum(weight[:, None] * mean, AXIS)
    if BY_COUNT:
        result = result / num_splits
    elif DIVIDES:
        result = result / total
    tl.store(out + head * DIM + column, result)


@triton.jit
def merges_in_a_loop(
    out, means, logs, num_splits,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    OF_SUM: tl.constexpr = True,
    OF_VALUES: tl.constexpr = True,
    GUARDS_EMPTY: tl.constexpr = True,
    UPSIDE_DOWN: tl.constexpr = False,
    STARTS_AT_0: tl.constexpr = False,
):  # fmt: skip
    """A split at a time, as lesson 5 merges: right without a flag."""
    row, column = tl.program_id(0) * num_splits, tl.arange(0, DIM)
    maximum, total = float("-inf"), 0.0
    if STARTS_AT_0:
        maximum = 0.0
    weighted = tl.zeros([DIM], tl.float32)
    for split in range(num_splits):
        log = tl.load(logs + row + split)
        mean = tl.load(means + (row + split) * DIM + column)
        larger = tl.maximum(maximum, log)
        lowered = larger
        if GUARDS_EMPTY:
            lowered = tl.where(larger == float("-inf"), 0.0, larger)
        weight, rescale = tl.exp(log - lowered), tl.exp(maximum - lowered)
        if UPSIDE_DOWN:
            rescale = tl.where(rescale == 0.0, 0.0, tl.exp(lowered - maximum))
        total = total * (rescale if OF_SUM else 1.0) + weight
        weighted = weighted * (rescale if OF_VALUES else 1.0) + weight * mean
        maximum = larger
    result = weighted / tl.where(total == 0.0, 1.0, total)
    tl.store(out + tl.program_id(0) * DIM + column, result)


@triton.jit
def counts_in_integers(
    out, means, logs, num_splits, DIM: tl.constexpr, SPLITS: tl.constexpr
):
    """Right, but for the compiler: `total` is an integer first, and then a float."""
    row, column = tl.program_id(0) * num_splits, tl.arange(0, DIM)
    maximum, total, weighted = float("-inf"), 0, tl.zeros([DIM], tl.float32)
    for split in range(num_splits):
        log = tl.load(logs + row + split)
        mean = tl.load(means + (row + split) * DIM + column)
        larger = tl.maximum(maximum, log)
        lowered = tl.where(larger == float("-inf"), 0.0, larger)
        weight, rescale = tl.exp(log - lowered), tl.exp(maximum - lowered)
        total = total * rescale + weight
        weighted = weighted * rescale + weight * mean
        maximum = larger
    result = weighted / tl.where(total == 0.0, 1.0, total)
    tl.store(out + tl.program_id(0) * DIM + column, result)


@triton.jit
def keeps_a_list(out, means, logs, num_splits, DIM: tl.constexpr, SPLITS: tl.constexpr):
    """Right, but for the compiler, which knows no lists."""
    row, column, seen = tl.program_id(0) * num_splits, tl.arange(0, DIM), []
    largest = float("-inf")
    for split in range(num_splits):
        seen.append(tl.load(logs + row + split))
        largest = tl.maximum(largest, seen[split])
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    total, weighted = 0.0, tl.zeros([DIM], tl.float32)
    for split in range(num_splits):
        weight = tl.exp(seen[split] - largest)
        mean = tl.load(means + (row + split) * DIM + column)
        total += weight
        weighted += weight * mean
    result = weighted / tl.where(total == 0.0, 1.0, total)
    tl.store(out + tl.program_id(0) * DIM + column, result)


@triton.jit
def largest_of(log):
    largest = tl.max(log, 0)
    return tl.where(largest == float("-inf"), 0.0, largest)


@triton.jit
def merges_with_help(
    out, means, logs, num_splits, DIM: tl.constexpr, SPLITS: tl.constexpr
):
    """Right; of another function, the compiler is not asked."""
    head, split, column = tl.program_id(0), tl.arange(0, SPLITS), tl.arange(0, DIM)
    exists, row = split < num_splits, head * num_splits + split
    log = tl.load(logs + row, mask=exists, other=float("-inf"))
    places = row[:, None] * DIM + column[None, :]
    mean = tl.load(means + places, mask=exists[:, None], other=0.0)
    weight = tl.exp(log - largest_of(log))
    total = tl.sum(weight, 0)
    result = tl.sum(weight[:, None] * mean, 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out + head * DIM + column, result)


@triton.jit
def merges_nothing(
    out, means, logs, num_splits, DIM: tl.constexpr, SPLITS: tl.constexpr
):
    head, column = tl.program_id(0), tl.arange(0, DIM)
    log = tl.load(logs + head * num_splits)
    if column > 0:
        log = 0.0
    tl.store(out + head * DIM + column, log)


@triton.jit
def packed(
    out, q, keys, values, block_tables, context_lengths, table_width, scale,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    MASKS_KEYS: tl.constexpr = True,
    MASKS_VALUES: tl.constexpr = True,
    MASKS_LOGITS: tl.constexpr = True,
    MASKS_Q: tl.constexpr = True,
    MASKS_STORE: tl.constexpr = True,
    SCALES: tl.constexpr = True,
    POWERS_OF_E: tl.constexpr = False,
    GOES_ROUND: tl.constexpr = False,
    FORGETS_KV_HEAD: tl.constexpr = False,
    READS_K_TWICE: tl.constexpr = False,
    OF_SUM: tl.constexpr = True,
    OF_VALUES: tl.constexpr = True,
    STARTS_AT_0: tl.constexpr = False,
    WIDENS: tl.constexpr = 1,
    AXIS: tl.constexpr = 1,
    LOOPS: tl.constexpr = True,
    WHOLE_BLOCKS: tl.constexpr = False,
    FIRST_TABLE: tl.constexpr = False,
    DIVIDES: tl.constexpr = True,
    DOTS: tl.constexpr = True,
    DOTS_LOGITS: tl.constexpr = True,
    DOTS_VALUES: tl.constexpr = True,
    READS: tl.constexpr = 1,
    CASTS: tl.constexpr = True,
    ALL_ROWS: tl.constexpr = None,
    TRANSPOSES: tl.constexpr = True,
    KEEPS_MAXIMUM: tl.constexpr = True,
    ADDS_TOTAL: tl.constexpr = True,
    ADDS_VALUES: tl.constexpr = True,
    LOOKS_UP_EACH: tl.constexpr = False,
):  # fmt: skip
    kv_head, seq = tl.program_id(0), tl.program_id(1)
    context = tl.load(context_lengths + seq)
    if WHOLE_BLOCKS:
        context = context // BLOCK_SIZE * BLOCK_SIZE
    row, column = tl.arange(0, ALL_ROWS or ROWS), tl.arange(0, DIM)
    head = kv_head * GROUP + row
    if GOES_ROUND:
        head = row * NUM_KV_HEADS + kv_head
    q_rows = (seq * NUM_KV_HEADS * GROUP + head)[:, None] * DIM + column[None, :]
    mask = (row < GROUP)[:, None]
    query = tl.load(q + q_rows, mask=mask | (not MASKS_Q), other=0.0)
    maximum = tl.full([ALL_ROWS or ROWS], float("-inf"), tl.float32)
    if STARTS_AT_0:
        maximum = tl.zeros([ALL_ROWS or ROWS], tl.float32)
    total = tl.zeros([ALL_ROWS or ROWS], tl.float32)
    weighted = tl.zeros([ALL_ROWS or ROWS, DIM], tl.float32)
    table = block_tables if FIRST_TABLE else block_tables + seq * table_width
    for first in range(0, context if LOOPS else 1, BLOCK_SIZE):
        position = first + tl.arange(0, BLOCK_SIZE)
        exists = (position < context)[:, None]
        block = tl.load(table + first // BLOCK_SIZE)
        if LOOKS_UP_EACH:  # as rung 1 does
            one = position // BLOCK_SIZE
            block = tl.load(table + one, mask=position < context, other=0)
        if WIDENS == 1:
            block = block.to(tl.int64)
        slot = block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        if WIDENS == 2:  # too late
            slot = slot.to(tl.int64)
        which = 0 if FORGETS_KV_HEAD else kv_head
        rows = (slot * NUM_KV_HEADS + which)[:, None] * DIM + column[None, :]
        for _ in tl.static_range(READS):
            if MASKS_KEYS:
                k = tl.load(keys + rows, mask=exists, other=0.0)
            else:
                k = tl.load(keys + rows)
        if READS_K_TWICE:
            v = tl.load(keys + rows, mask=exists, other=0.0)
        elif MASKS_VALUES:
            v = tl.load(values + rows, mask=exists, other=0.0)
        else:
            v = tl.load(values + rows)
        if DOTS and DOTS_LOGITS:
            logits = tl.dot(query, tl.trans(k) if TRANSPOSES else k)
        else:
            logits = tl.sum(query[:, None, :].to(tl.float32) * k[None, :, :], 2)
        if SCALES:
            logits = logits * scale
        if MASKS_LOGITS:
            logits = tl.where(position[None, :] < context, logits, float("-inf"))
        larger = tl.maximum(maximum, tl.max(logits, AXIS))
        if POWERS_OF_E:
            weight, rescale = tl.exp(logits - larger[:, None]), tl.exp(maximum - larger)
        else:
            weight = tl.exp2(logits - larger[:, None])
            rescale = tl.exp2(maximum - larger)
        total = total * (rescale if OF_SUM else 1.0) + tl.sum(weight, AXIS)
        if not ADDS_TOTAL:
            total = tl.sum(weight, AXIS)
        if OF_VALUES:
            weighted = weighted * rescale[:, None]
        if not ADDS_VALUES:
            weighted = tl.zeros([ALL_ROWS or ROWS, DIM], tl.float32)
        if DOTS and DOTS_VALUES:
            weighted += tl.dot(weight.to(v.dtype) if CASTS else weight, v)
        else:
            weighted += tl.sum(weight[:, :, None] * v[None, :, :], 1)
        if KEEPS_MAXIMUM:
            maximum = larger
    result = weighted / total[:, None] if DIVIDES else weighted
    tl.store(out + q_rows, result, mask=mask | (not MASKS_STORE))


@triton.jit
def counts_blocks_in_a_list(
    out, q, keys, values, block_tables, context_lengths, table_width, scale,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    """Right, but for the compiler, which knows no lists."""
    kv_head, seq = tl.program_id(0), tl.program_id(1)
    context, blocks = tl.load(context_lengths + seq), []
    for first in range(0, context, BLOCK_SIZE):
        blocks.append(tl.load(block_tables + seq * table_width + first // BLOCK_SIZE))
    row, column = tl.arange(0, ROWS), tl.arange(0, DIM)
    heads = (seq * NUM_KV_HEADS + kv_head) * GROUP + row
    places, is_head = heads[:, None] * DIM + column[None, :], (row < GROUP)[:, None]
    query = tl.load(q + places, mask=is_head, other=0.0)
    maximum = tl.full([ROWS], float("-inf"), tl.float32)
    total, weighted = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, DIM], tl.float32)
    for at in range(len(blocks)):
        slots = blocks[at].to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        exists = at * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE) < context
        rows = (slots * NUM_KV_HEADS + kv_head)[:, None] * DIM + column[None, :]
        k = tl.load(keys + rows, mask=exists[:, None], other=0.0)
        v = tl.load(values + rows, mask=exists[:, None], other=0.0)
        logits = tl.dot(query, tl.trans(k)) * scale
        logits = tl.where(exists[None, :], logits, float("-inf"))
        larger = tl.maximum(maximum, tl.max(logits, 1))
        weights = tl.exp2(logits - larger[:, None])
        rescale = tl.exp2(maximum - larger)
        total = total * rescale + tl.sum(weights, 1)
        weighted = weighted * rescale[:, None] + tl.dot(weights.to(v.dtype), v)
        maximum = larger
    tl.store(out + places, weighted / total[:, None], mask=is_head)


@triton.jit
def asks_a_tile(
    out, q, keys, values, block_tables, context_lengths, table_width, scale,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    position = tl.arange(0, BLOCK_SIZE)
    if position < tl.load(context_lengths):
        tl.store(out + position, 0.0)


def flawed(name, kernel, **flags):
    """A kernel of its own, of which this flag is set."""

    class Flawed(triton.KernelInterface):
        fn = staticmethod(kernel.fn)
        __name__ = name

        def run(self, *arguments, **options):
            return kernel.run(*arguments, **options, **flags)

        __call__ = run  # as of every kernel

    return Flawed()


def _flawed(kernel, **flags):
    return flawed("_".join(flags).lower(), kernel, **flags)


# Unlike what the notebook does, and right as well.
ALSO_RIGHT = [
    ("merge_splits", merges_in_a_loop),
    ("merge_splits", merges_with_help),
    # The logits that come of it become -inf all the same.
    ("packed", _flawed(packed, MASKS_KEYS=False)),
    ("sums", sums_row_by_row),
]


# What the check must say of a mistake.
FAULTS = {
    "sums": [
        (_flawed(sums, INDEXES=True), "a pointer is no tensor: tl.load(x + row)"),
        (_flawed(sums, MASKS_SUMS=False), "stored behind the last row; mask the store"),
        (_flawed(sums, ONE_COLUMN_MORE=True), "behind the last row; mask the store"),
        (stores_on_into_the_next_row, "row 0 was stored on into row 1: mask the store"),
        (
            _flawed(sums, MASKS_Y=False),
            "loads number 6 of y, which has 6 (0 to 5): mask",
        ),
        (_flawed(sums, COLUMNS_APART=True), "8 numbers apart, which is COLUMNS; a row"),
        (
            _flawed(sums, MASKS_SUMS=False, COLUMNS_APART=True),
            "8 numbers apart, which is COLUMNS",
        ),
        (_flawed(sums, EXCHANGES=True), "all of out is x[j] + y[i]"),
        (_flawed(sums, TRANSPOSES=True), "all of out is x[j] + y[i]"),
        (_flawed(sums, MULTIPLIES=True), "all of out is x[i] * y[j]"),
        (_flawed(sums, STORES=False), "nothing was stored in out"),
        (stores_one_row, "only row 0 of 4 was stored"),
        (stores_a_diagonal, "out[0, 1], only in out[i, i]: which tile is [:, None]"),
        (_flawed(sums, FIRST_X=True), "got 101, expected 201; that is x[0] + y[0]"),
        (_flawed(sums, ONLY_X=True), "got 100, expected 101; that is x[0]"),
        (_flawed(sums, MASKS_ROWS=True), "nothing was stored in out[3, 0]"),
        (lambda *a: None, "write @triton.jit above it"),
    ],
    "slots": [
        (_flawed(slots, MASKS_POSITIONS=False), "number 1 of positions, which has 1"),
        (_flawed(slots, MASKS_TABLE=False), "number -1 of table, which has 9"),
        (_flawed(slots, MASKS_STORE=False), "number 1 of slots, which has 1 (0 to 0)"),
        (_flawed(slots, MASKS_STORE=False), "mask it, or is the place wrong?"),
        (_flawed(slots, WIDENS=False), "it wrapped: widen the block id"),
        (_flawed(slots, PADS=False), "(which only pads)"),
        (_flawed(slots, ONLY_FIRST=True), "stored by two programs"),
        (_flawed(slots, BLOCK_OF_PLACE=True), "the block is that of the place i"),
        (
            _flawed(slots, USES_TABLE=False),
            "that is the position; where does the table",
        ),
        (_flawed(slots, STORES_PADS=False), "pads): nothing was stored, expected -1"),
        (_flawed(slots, OFFSET_OF_PLACE=True), "the block is right, the place in it"),
        (_flawed(slots, ASKS_TILE=True), "use tl.where, &, |, ~"),
        (sixteen_each, "slot"),
        (masks_nothing, "expected -1; nothing is masked"),
        (keeps_a_slot_in_a_loop, "Loop-carried variable slot"),
        (known_only_at_run_time, "only the parameters in capitals are"),
        (changes_the_table, "stored into table, which is an input"),
        (slots_without_jit, "write @triton.jit above it"),
        (lambda *a: slots, "write @triton.jit above it"),
    ],
    "merge_splits": [
        (_flawed(merge_splits, MASKS=False), "of logs, which has"),
        (_flawed(merge_splits, BEHIND=0.0), "behind the last split count"),
        (_flawed(merge_splits, LOWERS=False), "lower by the largest log first"),
        (_flawed(merge_splits, GUARDS_EMPTY=False), "all splits are empty"),
        (_flawed(merge_splits, DIVIDES_BY_ZERO=True), "0 / 0"),
        (_flawed(merge_splits, WEIGHS=False), "every split counts the same"),
        (_flawed(merge_splits, WEIGHS_MEANS=False), "the weights count in the total"),
        (_flawed(merge_splits, BASE_2=True), "the logs are natural ones: tl.exp"),
        (_flawed(merge_splits, DIVIDES=False), "divide by the sum of the weights"),
        (_flawed(merge_splits, BY_COUNT=True), "the divisor is not; divide by their"),
        (_flawed(merge_splits, AXIS=1), "the axis of each sum and max"),
        (_flawed(merge_splits, FORGETS=1), "the last split does not count"),
        (_flawed(merge_splits, STRIDE=1), "Each has num_splits of them"),
        (_flawed(merge_splits, STRIDE=8), "lie num_splits apart, not SPLITS"),
        (_flawed(merges_in_a_loop, OF_SUM=False, OF_VALUES=False), "is never rescaled"),
        (_flawed(merges_in_a_loop, OF_SUM=False), "the sum of the weights is not"),
        (_flawed(merges_in_a_loop, OF_VALUES=False), "the weighted values are not"),
        (_flawed(merges_in_a_loop, UPSIDE_DOWN=True), "upside down"),
        (_flawed(merges_in_a_loop, GUARDS_EMPTY=False), "-inf"),
        (_flawed(merges_in_a_loop, STARTS_AT_0=True), "all weights became 0"),
        (merges_nothing, "use tl.where"),
        (counts_in_integers, "Triton's compiler refuses it: Loop-carried variable tot"),
        (counts_in_integers, "0 is an integer, 0.0 is not"),
        (counts_in_integers, ": for split in range(num_splits):"),
        (keeps_a_list, "a kernel has no lists"),
        (keeps_a_list, ": seen.append(tl.load(logs + row + split))"),
        (lambda *a: None, "write @triton.jit above it"),
    ],
    "packed": [
        (_flawed(packed, MASKS_VALUES=False), "values, line"),
        (_flawed(packed, MASKS_LOGITS=False), "with logit 0: set those to -inf"),
        (_flawed(packed, MASKS_Q=False), "of q, which has"),
        (_flawed(packed, MASKS_STORE=False), "of out, which has"),
        (_flawed(packed, SCALES=False), "right but for `scale`"),
        (_flawed(packed, POWERS_OF_E=True), "made for tl.exp2"),
        (_flawed(packed, GOES_ROUND=True), "query heads took turns"),
        (_flawed(packed, READS_K_TWICE=True), "nothing was loaded from values"),
        (_flawed(packed, FORGETS_KV_HEAD=True), "read K and V of the first KV head"),
        (_flawed(packed, OF_SUM=False, OF_VALUES=False), "is never rescaled"),
        (_flawed(packed, OF_SUM=False), "the sum of the weights is not"),
        (_flawed(packed, OF_VALUES=False), "the weighted values are not"),
        (_flawed(packed, KEEPS_MAXIMUM=False), "is the maximum kept for the next?"),
        (_flawed(packed, ADDS_VALUES=False), "add to those before"),
        (_flawed(packed, ADDS_TOTAL=False), "add to that before"),
        (_flawed(packed, STARTS_AT_0=True), "the first maximum must be -inf, not 0"),
        (_flawed(packed, WIDENS=0), "wrap at 32 bits"),
        (
            _flawed(packed, LOOKS_UP_EACH=True, MASKS_KEYS=False),
            "is block 0 read, where a mask is missing?",
        ),
        (_flawed(packed, WIDENS=2), "wrap at 32 bits"),
        (_flawed(packed, AXIS=0), "the axis of each sum and max"),
        (_flawed(packed, LOOPS=False), "does each program walk over all blocks"),
        (_flawed(packed, WHOLE_BLOCKS=True), "from 0 to the context"),
        (_flawed(packed, FIRST_TABLE=True), "is it the sequence's block"),
        (_flawed(packed, DIVIDES=False), "divide by the sum of the weights"),
        (_flawed(packed, DOTS=False), "no tl.dot ran"),
        (_flawed(packed, DOTS_LOGITS=False), "one of the two products is no tl.dot"),
        (_flawed(packed, DOTS_LOGITS=False), ": weighted += tl.dot("),
        (_flawed(packed, DOTS_VALUES=False), ": logits = tl.dot("),
        (_flawed(packed, READS=4), "K was loaded 4 times over"),
        (_flawed(packed, CASTS=False), "weights.to(v.dtype)"),
        (_flawed(packed, ALL_ROWS=16), "not all was stored"),
        (_flawed(packed, TRANSPOSES=False), "is a tl.trans missing?"),
        (asks_a_tile, "use tl.where"),
        (counts_blocks_in_a_list, "a kernel has no lists"),
        (lambda *a: None, "write @triton.jit above it"),
    ],
}

# Nobody looks on where a kernel is compiled, and nothing comes of these.
UNSEEN = {"masks_positions", "masks_table", "masks_q", "dots", "reads", "widens"}
UNSEEN |= {"dots_logits", "dots_values", "masks_y", "stores_on_into_the_next_row"}
