"""Lesson 2: lay a ragged batch out in padded rectangles, for ordinary attention."""

import math
from typing import NamedTuple

import torch

from minipaged.attention.interface import AttentionBatch


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

    It depends on the shapes of q, keys and values, not on what they hold. So it is made
    once in a step, and all layers of the same shapes use it.
    """
    key = ("padding", q.shape[1], keys.shape[2:], values.shape[2:], sliding_window)
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
    shortest = min(batch.min_context_length, sliding_window or num_positions)
    if shortest < num_positions:  # something is to be hidden
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
    """Prompts, parts of prompts and single tokens, in groups of similar length.

    A prompt of 500 tokens beside 31 single tokens would be mostly padding in one
    rectangle. So the sequences are grouped by their number of new tokens, rounded up to
    a power of two: at most half of a group's queries are padding.
    """
    group_size = q.shape[1] // keys.shape[2]
    starts, lengths = batch.query_starts[:-1], batch.query_starts.diff()
    bucket = torch.log2(lengths).ceil().int()
    groups, first_row, num_rows = [], torch.empty_like(starts), 0
    for power in bucket.unique().tolist():
        own = (bucket == power).nonzero()[:, 0]
        length, context = lengths[own, None], batch.context_lengths[own, None]  # [S, 1]
        num_queries, num_positions = int(length.max()), int(context.max())
        position = torch.arange(num_positions, device=q.device)
        query = torch.arange(num_queries, device=q.device)
        query = query.minimum(length - 1)  # [S, Q]: padding repeats the last token
        last_seen = (context - length + query)[:, :, None]
        visible = position <= last_seen  # [S, Q, C]
        if sliding_window is not None:
            visible &= position > last_seen - sliding_window
        slots = _slots(batch.block_tables[own], keys.shape[1], num_positions)
        slots = _readable(slots, position < context)
        mask = _additive(visible, q.dtype)[:, None].repeat(1, 1, group_size, 1)
        queries = (starts[own, None] + query).flatten()
        groups.append(_group(queries, mask, slots, keys, values, batch))
        steps = torch.arange(len(own), device=q.device)
        first_row[own] = num_rows + steps * num_queries
        num_rows += len(own) * num_queries
    token = torch.arange(q.shape[0], device=q.device)
    return groups, token + (first_row - starts).repeat_interleave(lengths)


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
    k_rows = _piece(batch.workspace, "gathered keys", slots.numel(), keys)
    v_rows = _piece(batch.workspace, "gathered values", slots.numel(), values)
    k, v = (
        r.view(*slots.shape, *r.shape[1:]).transpose(1, 2) for r in (k_rows, v_rows)
    )
    return Group(queries, mask, slots.flatten(), k_rows, v_rows, k, v)


def _piece(
    workspace: dict[str, torch.Tensor], name: str, num_rows: int, like: torch.Tensor
) -> torch.Tensor:
    """Memory for `num_rows` slots of these blocks: [num_rows, kv heads, dim].

    It is used again in every step: on a CPU, fresh memory of some megabytes costs more
    in page faults than the gathering itself.
    """
    shape = (num_rows, *like.shape[2:])
    size, piece = math.prod(shape), workspace.get(name)
    if piece is None or len(piece) < size or piece.dtype != like.dtype:
        # Half as much again, since contexts grow by a token every step.
        piece = workspace[name] = like.new_empty(size + size // 2)
    return piece[:size].view(shape)
