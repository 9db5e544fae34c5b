"""Lesson 2: gather the blocks, then ordinary attention (paper, equation 3)."""

from typing import NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention

from minipaged.attention.interface import AttentionBatch


def gathered_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Causal attention of new tokens over their sequences' blocks, gathered first.

    Simple and exact, at the price of a second copy of every K and V that is read:
    lesson 5 streams over the blocks instead.

    Args:
        q: [T, num_heads, key_dim], the new tokens of all sequences one after another.
        keys: [num_blocks, block_size, num_kv_heads, key_dim], one layer of the cache.
        values: [num_blocks, block_size, num_kv_heads, value_dim].
        batch: which blocks, and how many tokens, belong to which sequence.
        scale: multiplies the logits, usually key_dim ** -0.5.
        sliding_window: a token sees this many positions, itself included.
        softcap: if given, logits become softcap * tanh(logits / softcap).

    Returns: [T, num_heads, value_dim].
    """
    group_size = q.shape[1] // keys.shape[2]
    key = ("gathered", sliding_window, group_size, q.dtype)
    if key not in batch.scratch:
        batch.scratch[key] = _plan(batch, keys.shape[1], *key[1:])
    groups, row_of_token = batch.scratch[key]
    rows = [
        _attend(q, keys, values, group, batch.workspace, scale, softcap)
        for group in groups
    ]
    return rows[0] if row_of_token is None else torch.cat(rows)[row_of_token]


class _Group(NamedTuple):
    """Sequences with a similar number of new tokens, padded to one rectangle.

    Letters: S sequences, Q new tokens of the longest, C tokens of its context, G query
    heads for each KV head.
    """

    queries: torch.Tensor | None  # [S, Q]: which token of the batch; None: token s
    slots: torch.Tensor  # [S, C]: where each position's K and V lie
    mask: torch.Tensor  # [S, 1, G * Q, C], added to the logits: 0 or -inf


def _plan(
    batch: AttentionBatch,
    block_size: int,
    sliding_window: int | None,
    group_size: int,
    dtype: torch.dtype,
) -> tuple[list[_Group], torch.Tensor | None]:
    """Lay the ragged batch out in padded groups; all layers share the result.

    A prompt of 500 tokens beside 31 single tokens would be mostly padding in one
    rectangle. So the sequences are grouped by their number of new tokens, rounded up to
    a power of two: at most half of a group's queries are padding.

    Returns the groups, and for each token its row in the groups' outputs put together
    (None: row t for token t).
    """

    def make(tables, starts, lengths, contexts, num_queries, num_positions) -> _Group:
        # Clamped to the last valid one, padding reads what is read anyway: never the
        # end of a table's row, never a slot that nobody wrote and that may hold NaN.
        position = torch.arange(num_positions, device=starts.device)
        readable = position.minimum(contexts[:, None] - 1)  # [S, C]
        blocks = tables.gather(1, readable // block_size)
        query = torch.arange(num_queries, device=starts.device)
        query = query.minimum(lengths[:, None] - 1)  # [S, Q]
        query_position = (contexts - lengths)[:, None, None] + query[:, :, None]
        hidden = position > query_position  # [S, Q, C]
        if sliding_window is not None:
            hidden |= position <= query_position - sliding_window
        mask = torch.zeros(hidden.shape, dtype=dtype, device=starts.device)
        mask = mask.masked_fill_(hidden, float("-inf"))[:, None]
        return _Group(
            queries=None if num_queries == 1 else starts[:, None] + query,
            slots=blocks * block_size + readable % block_size,
            mask=mask if num_queries == 1 else mask.repeat(1, 1, group_size, 1),
        )

    tables, contexts = batch.block_tables, batch.context_lengths
    starts, lengths = batch.query_starts[:-1], batch.query_starts.diff()
    if batch.max_query_length == 1:  # every sequence decodes: tokens are in order
        most = batch.max_context_length
        return [make(tables, starts, lengths, contexts, 1, most)], None
    groups, first_row, num_rows = [], torch.empty_like(starts), 0
    bucket = torch.log2(lengths).ceil().int()
    for b in bucket.unique().tolist():
        own = (bucket == b).nonzero()[:, 0]
        most = int(lengths[own].max()), int(contexts[own].max())
        group = make(tables[own], starts[own], lengths[own], contexts[own], *most)
        if group.queries is None:
            group = group._replace(queries=starts[own, None])
        groups.append(group)
        steps = torch.arange(len(own), device=own.device)
        first_row[own] = num_rows + steps * most[0]
        num_rows += len(own) * most[0]
    token = torch.arange(int(lengths.sum()), device=starts.device)
    return groups, token + (first_row - starts).repeat_interleave(lengths)


def _attend(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    group: _Group,
    workspace: dict[str, torch.Tensor],
    scale: float,
    softcap: float | None,
) -> torch.Tensor:
    """Attention of one group: [S * Q, num_heads, value_dim]."""
    k = _gather(keys, group.slots, workspace, "gathered keys")
    v = _gather(values, group.slots, workspace, "gathered values")
    num_heads, (num_seqs, num_kv_heads) = q.shape[1], k.shape[:2]
    group_size = num_heads // num_kv_heads
    # The query heads that share a KV head are stacked like more queries, so K and V are
    # used as they are: repeating them for every head would cost G times more.
    if group.queries is None:
        q = q.reshape(num_seqs, num_kv_heads, group_size, -1)
    else:
        q = q.index_select(0, group.queries.flatten())
        q = q.view(num_seqs, -1, num_kv_heads, group_size, q.shape[2])
        q = q.permute(0, 2, 3, 1, 4).flatten(2, 3)  # [S, kv heads, G * Q, key dim]
    if softcap is None:
        out = scaled_dot_product_attention(q, k, v, attn_mask=group.mask, scale=scale)
    else:
        logits = softcap * torch.tanh(q @ k.transpose(2, 3) * (scale / softcap))
        weights = torch.softmax(logits + group.mask, dim=-1, dtype=torch.float32)
        out = weights.to(v.dtype) @ v
    if group.queries is None:
        return out.flatten(1, 2)
    out = out.unflatten(2, (group_size, -1))  # [S, kv heads, G, Q, value dim]
    return out.permute(0, 3, 1, 2, 4).flatten(0, 1).flatten(1, 2)


def _gather(
    blocks: torch.Tensor,
    slots: torch.Tensor,
    workspace: dict[str, torch.Tensor],
    name: str,
) -> torch.Tensor:
    """Copy the slots [S, C] of one layer into one piece: [S, kv heads, C, dim].

    The piece is used again by the next layer and the next step: on a CPU, fresh memory
    of some megabytes costs more in page faults than the copy itself.
    """
    num_slots, (num_kv_heads, dim) = slots.numel(), blocks.shape[2:]
    size = num_slots * num_kv_heads * dim
    piece = workspace.get(name)
    if piece is None or len(piece) < size or piece.dtype != blocks.dtype:
        # Half as much again, since contexts grow by a token every step.
        piece = workspace[name] = blocks.new_empty(size + size // 2)
    out = piece[:size].view(num_slots, num_kv_heads, dim)
    torch.index_select(blocks.flatten(0, 1), 0, slots.flatten(), out=out)
    return out.view(*slots.shape, num_kv_heads, dim).transpose(1, 2)
