"""Lab: checks of lesson 6's exercises: the least time, slots, heads that share."""

from collections.abc import Callable

import torch

from minipaged.lab.check.guard import GUARD
from minipaged.lab.check.kernel import ask_about, launch
from minipaged.lab.check.packing import Batch, compare_packed, draw_batch
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, expect, many


@exercise
def least_time(attempt: Attempt) -> None:
    """(contexts, num_kv_heads, head_dim, bytes_each, gb_per_s) -> microseconds."""
    for contexts, kv_heads, dim, bytes_each, rate in (
        ([1], 1, 64, 4, 1),
        ([2048] * 32, 8, 128, 2, 4589),
        ([100, 3000, 1], 2, 64, 2, 300),
        ([4096], 32, 128, 1, 2000),
        ([], 8, 128, 2, 4589),
    ):
        arguments = contexts, kv_heads, dim, bytes_each, rate
        found = attempt(*arguments)
        try:
            found = float(found + 0)  # text is no number
        except (TypeError, ValueError):
            raise Rejected(
                f"{attempt.call(*arguments)}: got {found!r:.40}, expected a number"
            ) from None
        one = sum(contexts) * kv_heads * dim * bytes_each / (rate * 1e3)
        if not abs(found - 2 * one) <= 1e-6 * one + 1e-12:  # nor is NaN
            said = _mistake(found, one, contexts)
            raise Rejected(
                f"{attempt.call(*arguments)}: got {found:.6g}, expected {2 * one:.6g}"
                f"{said}"
            )


def _mistake(found: float, one: float, contexts: list[int]) -> str:
    """What was forgotten, if it is a thing that often is."""
    longest = max(contexts, default=0)
    of_longest = 2 * one * longest / max(1, sum(contexts))
    mistakes = {
        one: "half of it; who else must be read beside K?",
        2 * one / 1.024**3: "a GB is 10**9 bytes, not 2**30",
        2 * one / 1e3: "these are milliseconds",
        2 * one / 1e6: "these are seconds",
        2e3 * one: "these are nanoseconds",
        16 * one: "these are bits; `bytes_each` and `gb_per_s` count bytes",
        len(contexts) * of_longest: "as if all were as long as the longest",
        of_longest: "only the longest is read; each sequence has its K and V",
    }
    near = [m for x, m in mistakes.items() if abs(found - x) < 1e-6 * abs(x)]
    return f"; {near[0]}" if near else ""


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
        for position, mine, slot in zip(
            positions.tolist(), found.tolist(), right.tolist(), strict=True
        ):
            what = f"{story}; slot of position {position}"
            if position < 0 and mine != slot:
                what += " (which only pads)"
            elif mine != slot and (mine - slot) % 2**32 == 0:
                what += " (it wrapped: 64 bits, before anything is multiplied)"
            elif mine == GUARD:
                raise Rejected(f"{what}: nothing was stored, expected {slot}")
            if position < 0 and mine != slot and launched.is_unmasked:
                said = "nothing is masked, no load and no store"
                raise Rejected(f"{what}: got {mine}, expected {slot}; {said}")
            expect(what, mine, slot)
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
    # Only where addresses can be moved: of this pool, just the last blocks exist.
    from minipaged.attention.kernels.setup import INTERPRETED

    if INTERPRETED:
        batch = draw_batch(generator, [20, 40], 2, 4, 32, 16, 1.0)
        _packed(attempt, batch, first_block=2**31 // (16 * 2 * 32) + 1)
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
    compare_packed(story, launched, batch)


def _arguments(batch: Batch, first_block: int = 0) -> tuple:
    """What `packed` is launched with."""
    contexts = torch.tensor(batch.contexts, dtype=torch.int32)
    tables = (batch.tables + first_block).int()
    pools = batch.q, batch.keys, batch.values
    out = torch.full_like(batch.q, GUARD)
    return out, *pools, tables, contexts, tables.shape[1], *batch.sizes
