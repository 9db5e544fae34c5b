"""Lesson 5: what attention reads in one step: a few block columns of many sequences."""

from typing import NamedTuple

import torch

from minipaged.attention.grouping import Rectangle, group_by_length
from minipaged.attention.interface import AttentionBatch

# How much a step reads. Numbers of K, or of logits, whichever are more: so that a step
# stays in a processor's cache (a megabyte in float32) however long the contexts are.
STEP_NUMBERS = 2**18
# But so many tokens at least: in each step a row is rescaled, which costs value_dim
# numbers, and that must not be more than the logits of the step.
STEP_TOKENS = 64


class Tile(NamedTuple):
    """A few block columns, and who in the group reads them.

    A sequence's columns are counted from the first block that any of its queries sees.
    """

    num_sequences: int  # the first ones: those that are so long
    queries: slice  # those that see anything of it
    columns: range
    is_masked: bool  # some of these queries do not see all of it


class Tiling(NamedTuple):
    """A group of sequences, and how it is read."""

    group: Rectangle
    tiles: list[Tile]
    contexts: torch.Tensor  # [S, 1]: tokens of each sequence
    first_blocks: torch.Tensor  # [S, 1]: the first column of its table that is read
    safe_slots: torch.Tensor  # [S, 1]: a slot that holds K and V of it


def plan_tiles(
    q: torch.Tensor,
    keys: torch.Tensor,
    batch: AttentionBatch,
    sliding_window: int | None,
) -> tuple[list[Tiling], torch.Tensor]:
    """What is read in which step; and for each token its row in the groups' results.

    It is made once in a step, and all layers of the same shapes use it.
    """
    key = ("tiles", q.shape[1:], keys.shape[1:], sliding_window)
    if key not in batch.scratch:
        groups, row_of_token = group_by_length(batch)
        plans = [_plan(group, q, keys, batch, sliding_window) for group in groups]
        batch.scratch[key] = plans, row_of_token
    return batch.scratch[key]


def _plan(
    group: Rectangle,
    q: torch.Tensor,
    keys: torch.Tensor,
    batch: AttentionBatch,
    sliding_window: int | None,
) -> Tiling:
    _, block_size, num_kv_heads, key_dim = keys.shape
    num_seqs, num_queries = group.queries.shape
    per_token = num_seqs * max(num_kv_heads * key_dim, q.shape[1] * num_queries)
    num_tokens = max(STEP_TOKENS, STEP_NUMBERS // per_token)
    window = sliding_window or max(group.contexts) + 1  # one that hides nothing
    first_positions = [
        context - length
        for context, length in zip(group.contexts, group.lengths, strict=True)
    ]
    first_blocks = [max(0, p + 1 - window) // block_size for p in first_positions]
    sequences, device = group.sequences[:, None], keys.device
    firsts = torch.tensor(first_blocks, device=device)[:, None]
    return Tiling(
        group,
        _tiles(group, first_positions, first_blocks, window, block_size, num_tokens),
        batch.context_lengths[sequences],
        firsts,
        batch.block_tables[sequences, firsts] * block_size,
    )


def _tiles(
    group: Rectangle,
    first_positions: list[int],
    first_blocks: list[int],
    window: int,
    block_size: int,
    num_tokens: int,
) -> list[Tile]:
    """Steps of `num_tokens`, from the first column that anybody sees to the last."""
    num_queries = group.queries.shape[1]
    num_columns = [
        -(-context // block_size) - first
        for context, first in zip(group.contexts, first_blocks, strict=True)
    ]
    tiles, width = [], max(1, num_tokens // block_size)
    for start in range(0, max(num_columns), width):
        columns = range(start, min(start + width, max(num_columns)))
        num_reading = max(s for s, n in enumerate(num_columns) if n > start) + 1
        # Where each sequence's part begins, seen from its first query.
        begins = [
            (first_blocks[s] + start) * block_size - first_positions[s]
            for s in range(num_reading)
        ]
        end = max(begins) + len(columns) * block_size
        first = max(0, min(begins))  # earlier queries see none of it,
        last = min(num_queries, end - 1 + window)  # nor do those from here on
        is_masked = end > first + 1 or min(begins) < last - window
        # Somebody may have ended, before others that are shorter but read more blocks.
        is_masked |= min(num_columns[:num_reading]) <= start
        tiles.append(Tile(num_reading, slice(first, last), columns, is_masked))
    return tiles


def locate(
    tile: Tile,
    tiling: Tiling,
    batch: AttentionBatch,
    block_size: int,
    sliding_window: int | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Where the tile lies, and what of it is hidden from whom.

    Returns its slots [n, C] for n sequences and C tokens, and for each of Q queries
    whether a position is hidden from it [n, Q, C]; None if nothing is.
    """
    n, tables = tile.num_sequences, batch.block_tables
    step = torch.arange(tile.columns.start, tile.columns.stop, device=tables.device)
    columns = tiling.first_blocks[:n] + step  # [n, number of columns]
    inside = columns.clamp(max=tables.shape[1] - 1)
    blocks = tables[tiling.group.sequences[:n, None], inside]
    offset = torch.arange(block_size, device=tables.device)
    slots = (blocks[:, :, None] * block_size + offset).flatten(1)
    if not tile.is_masked:
        return slots, None
    position = (columns[:, :, None] * block_size + offset).flatten(1)
    # Past a sequence's end lie slots that nobody wrote. They may hold NaN, which a
    # weight of 0 does not remove, and the ends of table rows may point anywhere. So a
    # slot of the sequence that is surely written stands in for them.
    slots = torch.where(position < tiling.contexts[:n], slots, tiling.safe_slots[:n])
    own = tiling.group.positions[:n, tile.queries, None]  # [n, Q, 1]
    hidden = position[:, None] > own
    if sliding_window is not None:
        hidden |= position[:, None] <= own - sliding_window
    return slots, hidden
