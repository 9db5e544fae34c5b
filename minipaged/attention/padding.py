"""Lesson 2: lay a ragged batch out in padded rectangles, for ordinary attention."""

from typing import NamedTuple

import torch

from minipaged.attention.grouping import Rectangle, group_by_length
from minipaged.attention.interface import AttentionBatch
from minipaged.attention.workspace import borrow


class Group(NamedTuple):
    """Sequences that are padded to one rectangle and attend together.

    Letters: S sequences, Q new tokens of the longest, C tokens of its context, G query
    heads for each KV head.
    """

    queries: torch.Tensor | None  # [S * Q]: which token of the batch; None: all, Q = 1
    mask: torch.Tensor | None  # [S, 1, G * Q, C], added to the logits; None: all seen
    slots: torch.Tensor  # [S * C]: where each position's K and V lie
    k_rows: torch.Tensor  # [S * C, kv heads, key dim]: K is gathered into this
    v_rows: torch.Tensor  # [S * C, kv heads, value dim]: and V into this
    k: torch.Tensor  # [S, kv heads, C, key dim]: the same memory, seen by attention
    v: torch.Tensor  # [S, kv heads, C, value dim]


# The groups; and for each token of the batch, its row in the groups' results put
# together (None: row t for token t).
Plan = tuple[list[Group], torch.Tensor | None]


def plan_padding(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    sliding_window: int | None,
) -> Plan:
    """The padded groups of this batch, with memory to gather K and V into.

    It depends on the shapes and dtypes of q, keys and values, not on what they hold. So
    it is made once in a step, and all layers of the same shapes and dtypes use it.
    """
    shapes = q.shape[1], keys.shape[1:], values.shape[1:]
    key = ("padding", *shapes, q.dtype, keys.dtype, sliding_window)
    if key not in batch.scratch:
        plan = _plan_decode if batch.max_query_length == 1 else _plan_prompts
        batch.scratch[key] = plan(q, keys, values, batch, sliding_window)
    return batch.scratch[key]


def _plan_decode(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    sliding_window: int | None,
) -> Plan:
    """One new token for each sequence: one group, and the tokens are in order."""
    num_positions = batch.max_context_length
    slots = _slots(batch.block_tables, keys.shape[1], num_positions)
    mask = None
    window = num_positions if sliding_window is None else sliding_window
    if min(batch.min_context_length, window) < num_positions:  # something is hidden
        contexts = batch.context_lengths[:, None]
        position = torch.arange(num_positions, device=q.device)
        visible = position < contexts  # [S, C]
        slots = _readable(slots, visible)
        if sliding_window is not None:
            visible = visible & (position >= contexts - sliding_window)
        mask = _additive(visible, q.dtype)[:, None, None]
    return [_group(None, mask, slots, keys, values, batch)], None


def _plan_prompts(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    sliding_window: int | None,
) -> Plan:
    """Prompts, parts of prompts and single tokens, in groups of similar length."""
    group_size = q.shape[1] // keys.shape[2]
    rectangles, row_of_token = group_by_length(batch)
    groups = [
        _pad(rectangle, group_size, q.dtype, keys, values, batch, sliding_window)
        for rectangle in rectangles
    ]
    return groups, row_of_token


def _pad(
    rectangle: Rectangle,
    group_size: int,
    dtype: torch.dtype,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    sliding_window: int | None,
) -> Group:
    """Lay it out: its most new tokens by its longest context."""
    own = rectangle.sequences
    position = torch.arange(max(rectangle.contexts), device=keys.device)
    last_seen = rectangle.positions[:, :, None]
    visible = position <= last_seen  # [S, Q, C]
    if sliding_window is not None:
        visible &= position > last_seen - sliding_window
    slots = _slots(batch.block_tables[own], keys.shape[1], len(position))
    slots = _readable(slots, position < batch.context_lengths[own, None])
    mask = _additive(visible, dtype)[:, None].repeat(1, 1, group_size, 1)
    return _group(rectangle.queries.flatten(), mask, slots, keys, values, batch)


def _slots(
    block_tables: torch.Tensor, block_size: int, num_positions: int
) -> torch.Tensor:
    """The slot of each position: [S, num_positions]."""
    offset = torch.arange(block_size, device=block_tables.device)
    slots = block_tables[:, :, None] * block_size + offset
    return slots.flatten(1)[:, :num_positions]


def _readable(slots: torch.Tensor, exists: torch.Tensor) -> torch.Tensor:
    """The slots, where a position exists, and elsewhere the sequence's first one.

    Past a sequence's end lie slots that nobody wrote. They may hold NaN, which a weight
    of 0 does not remove, and the ends of table rows may point anywhere.
    """
    return torch.where(exists, slots, slots[:, :1])


def _additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.where(visible, 0.0, float("-inf")).to(dtype)


def _group(
    queries: torch.Tensor | None,
    mask: torch.Tensor | None,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
) -> Group:
    """Give the group memory to gather into, which all layers use in turn."""
    k_rows, v_rows = (
        borrow(batch.workspace, f"gathered {name}", slots.numel(), blocks.flatten(0, 1))
        for name, blocks in (("keys", keys), ("values", values))
    )
    k, v = (
        r.view(*slots.shape, *r.shape[1:]).transpose(1, 2) for r in (k_rows, v_rows)
    )
    return Group(queries, mask, slots.flatten(), k_rows, v_rows, k, v)
