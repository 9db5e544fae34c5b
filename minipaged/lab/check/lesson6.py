"""Lab: checks of lesson 6's exercises: sums, slots, heads that share."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from minipaged.lab.check.diagnose import diagnose, telling
from minipaged.lab.check.guard import GUARD
from minipaged.lab.check.kernel import ask_about, launch
from minipaged.lab.check.packing import Batch, compare_packed, draw_batch
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many


@exercise
def sums(attempt: Attempt) -> Callable[[], str] | None:
    """A kernel (out, x, y, num_columns, ROWS, COLUMNS), launched as one program."""
    # In the first case there is nothing to mask: what is wrong there is no mask.
    for rows, columns, padded in ((4, 4, 4), (4, 6, 8), (8, 3, 4), (2, 16, 16)):
        x, y = torch.arange(1.0, rows + 1) * 100, torch.arange(1.0, columns + 1)
        story = f"x has {many(rows, 'number')}, y has {columns}, COLUMNS={padded}"
        # As many rows again lie behind those of `out`, to see what is stored there.
        memory = torch.full((2 * rows, columns), float(GUARD))
        arguments = memory, x, y, columns, rows, padded
        launched = launch(attempt, story, (1,), *arguments)
        with telling(story):
            _summed(launched[0], x, y, padded)
    return ask_about(attempt, *arguments)


def _summed(memory: Tensor, x: Tensor, y: Tensor, padded: int) -> None:
    """Compare with x[i] + y[j]. memory: `out`, and what lies behind it."""
    right, rows, columns = x[:, None] + y, len(x), len(y)
    found, behind = memory[:rows], memory[rows:]
    is_stored = found != GUARD
    if (memory == GUARD).all():
        raise Rejected("nothing was stored in out")
    apart = memory.flatten()[: rows * padded].view(rows, padded)[:, :columns]
    if padded > columns and torch.equal(apart, right):
        said = f"rows are stored {padded} numbers apart, which is COLUMNS"
        raise Rejected(f"{said}; a row of out has num_columns, {columns}")
    if (behind != GUARD).any():
        said = "it stored behind the last row; mask the store: column < num_columns"
        raise Rejected(said)
    if not is_stored.all():
        i, j = (~is_stored).nonzero()[0].tolist()
        said = f"nothing was stored in out[{i}, {j}]"
        if is_stored[0].all() and not is_stored[1:].any():
            said = f"only row 0 of {rows} was stored"
        elif torch.equal(is_stored, torch.eye(rows, columns, dtype=torch.bool)):
            said += ", only in out[i, i]: which tile is [:, None], which [None, :]?"
        raise Rejected(said)
    is_square = rows == columns
    for place, number in enumerate(right.flatten().tolist()):
        i, j = divmod(place, columns)
        mistakes = {
            "all of out is x[i] * y[j]": torch.equal(found, x[:, None] * y),
            "all of out is x[j] + y[i]": is_square and torch.equal(found, right.T),
            _sum_said(found, i, j, rows, columns): True,
        }
        diagnose(
            f"out[{i}, {j}]", found[i, j].item(), number, mistakes, write="{:g}".format
        )


def _sum_said(found: Tensor, i: int, j: int, rows: int, columns: int) -> str:
    """What a wrong number is. x is 100, 200, ..., and y is 1, 2, ..."""
    mine = found[i, j].item()
    if i and (math.isnan(mine) or mine == 100 * i):  # x[i - 1] + 0
        said = f"row {i - 1} was stored on into row {i}"
        return f"{said}: mask the store, column < num_columns"
    if not math.isfinite(mine):
        return ""
    of_x, of_y = divmod(int(mine), 100)
    terms = [f"x[{of_x - 1}]"] * (0 < of_x <= rows)
    terms += [f"y[{of_y - 1}]"] * (0 < of_y <= columns)
    return f"that is {' + '.join(terms)}" if terms else ""


@exercise
def slots(attempt: Attempt) -> Callable[[], str] | None:
    """A kernel (slots, table, positions, num_tokens, BLOCK_SIZE, TILE)."""
    generator = torch.Generator().manual_seed(0)
    for num_tokens, block_size, tile, largest in (
        (16, 4, 16, 50),
        (1, 4, 16, 50),
        (21, 16, 32, 50),
        (40, 16, 16, 2**30),
        (9, 1, 8, 50),  # where -1 lies in no block: not even in block 0
    ):
        num_blocks = -(-num_tokens // block_size)
        table = torch.randint(largest // 2, largest, (num_blocks,), generator=generator)
        positions = torch.randperm(num_tokens, generator=generator)
        right = table[positions // block_size] * block_size + positions % block_size
        if num_tokens > 1:
            positions[1], right[1] = -1, -1
        story = (
            f"{many(num_tokens, 'position')}, blocks of {block_size}, {tile} in a "
            f"program, block ids up to {table.max():,}"
        )
        out = torch.full((num_tokens,), GUARD)
        arguments = out, table.int(), positions, num_tokens, block_size, tile
        launched = launch(attempt, story, (-(-num_tokens // tile),), *arguments)
        found = launched[0]
        by_place = table[torch.arange(num_tokens) // block_size] * block_size
        by_place += positions % block_size
        is_by_place = found.equal(torch.where(positions < 0, -1, by_place))
        for position, mine, slot in zip(
            positions.tolist(), found.tolist(), right.tolist(), strict=True
        ):
            what = f"slot of position {position}"
            what += " (which only pads)" * (position < 0)
            if mine == GUARD:
                said = f"nothing was stored, expected {slot}"
                raise Rejected(f"{story}; {what}: {said}")
            is_pad = position < 0
            mistakes = {
                "nothing is masked, no load and no store": (
                    is_pad and launched.is_unmasked
                ),
                "it wrapped: widen the block id before you multiply": (
                    (mine - slot) % 2**32 == 0
                ),
                "that is the position; where does the table come in?": (
                    not is_pad and mine == position
                ),
                "the block is right, the place in it is not": (
                    not is_pad and mine // block_size == slot // block_size
                ),
                "the block is that of the place i, not of positions[i]": is_by_place,
            }
            diagnose(f"{story}; {what}", mine, slot, mistakes, write=str)
    return ask_about(attempt, *arguments)


@exercise
def packed(attempt: Attempt) -> Callable[[], str] | None:
    """A kernel (out, q, keys, values, block_tables, context_lengths, table_width, ...).

    Behind them: scale, NUM_KV_HEADS, GROUP, ROWS, DIM, BLOCK_SIZE; a program for each
    KV head and sequence.
    """
    generator = torch.Generator().manual_seed(0)
    for contexts, kv_heads, group, dim, block_size, spread in (
        ([20], 1, 4, 16, 32, 1.0),
        ([7, 40], 2, 2, 32, 16, 1.0),
        ([1, 16, 17, 64], 2, 4, 16, 16, 1.0),
        ([35, 48], 3, 5, 16, 16, 60.0),
        ([33], 1, 20, 16, 16, 1.0),
        ([40, 9], 2, 4, 32, 32, -60.0),
    ):
        sizes = kv_heads, group, dim, block_size
        batch = draw_batch(generator, contexts, *sizes, spread)
        _packed(attempt, batch)
    # Only where addresses can be moved: of this pool, just the last blocks exist. Even
    # their slots pass 2**31.
    from minipaged.attention.kernels.setup import INTERPRETED

    if INTERPRETED:
        batch = draw_batch(generator, [20, 40], 2, 4, 32, 16, 1.0)
        _packed(attempt, batch, first_block=2**31 // 16 + 1)
    return ask_about(attempt, *_arguments(batch))


def _packed(attempt: Attempt, batch: Batch, first_block: int = 0) -> None:
    """One case of `packed`; of the pool, only blocks from `first_block` on exist."""
    story = batch.story
    if first_block:
        story += f", block ids from {first_block:,}"
    moved = first_block * batch.keys[0].nbytes
    launched = launch(
        attempt,
        story,
        (batch.keys.shape[2], len(batch.contexts)),
        *_arguments(batch, first_block),
        shifts={2: moved, 3: moved} if moved else None,
    )
    with telling(story):
        compare_packed(launched, batch)


def _arguments(batch: Batch, first_block: int = 0) -> tuple:
    """What `packed` is launched with."""
    contexts = torch.tensor(batch.contexts, dtype=torch.int32)
    tables = (batch.tables + first_block).int()
    pools = batch.q, batch.keys, batch.values
    out = torch.full_like(batch.q, GUARD)
    return out, *pools, tables, contexts, tables.shape[1], *batch.sizes
