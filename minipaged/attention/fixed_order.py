"""Appendix D: attention whose sums have the same order, whatever else is computed.

Floating-point sums depend on the order of their terms, and a library chooses an order
by the shapes that it is given. Here all shapes are fixed: 16 tokens of a sequence, 64
positions from a multiple of 64 on, eight such pairs at a time. So a token's result
depends on what it sees alone. It is the same, to the bit, in a prompt, in a part of
it, or as the next token of an answer, and whatever is in the batch.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from minipaged.attention.backend import AttentionBatch, Backend, Masking
from minipaged.attention.partial import Partial
from minipaged.memory.kv_cache import LayerCache

TOKENS = 16  # of a sequence; filled up, if it has fewer
TILE = 64  # positions
TOGETHER = 8  # runs of tokens that are computed at a time


class Runs(NamedTuple):
    """Up to 16 new tokens of a sequence, eight times; those that fill up see nothing.

    Letters: N runs, Q tokens of each.
    """

    tokens: Tensor  # [N, Q], numbers in the batch
    positions: Tensor  # [N, Q], each token's position; -1 for what fills up
    tables: Tensor  # [N, M]


def attend_in_fixed_order(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> Tensor:
    """Causal attention of new tokens, each as if it were alone.

    Args and result: those of `attend_gathered`. A token that sees nothing gets zeros.
    Sums are in float32 at least.
    """
    if "runs" not in batch.scratch:  # all layers use the same
        batch.scratch["runs"] = list(_runs(batch))
    num_kv_heads, value_dim = cache.values.shape[2:]
    out = q.new_zeros(*q.shape[:2], value_dim)
    for runs in batch.scratch["runs"]:
        rows = q[runs.tokens].to(torch.promote_types(q.dtype, torch.float32))
        rows = (rows * masking.scale).unflatten(2, (num_kv_heads, -1))
        # Query heads that share a KV head are stacked like more queries.
        rows = rows.transpose(1, 2).flatten(2, 3)  # [N, KV, Q * G, key_dim]
        state = _before(rows, masking.sinks, value_dim)
        for part in _parts(rows, runs, cache, masking):
            state = state.merge(part)
        result = state.result().unflatten(2, (TOKENS, -1)).transpose(1, 2).flatten(2, 3)
        exists = runs.positions >= 0
        out[runs.tokens[exists]] = result[exists].to(q.dtype)
    return out


def step_in_fixed_order(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> Tensor:
    """Write, then attend. The step may be filled up with tokens that have no slot."""
    count = len(batch.slots)
    cache.keys.flatten(0, 1)[batch.slots] = k[:count]
    cache.values.flatten(0, 1)[batch.slots] = v[:count]
    out = attend_in_fixed_order(q[:count], cache, batch, masking)
    return pad(out, (0, 0, 0, 0, 0, len(q) - count))


# What `PagedModel(..., attention="gathered", deterministic=True)` uses.
fixed_order_attention = Backend(attend_in_fixed_order, step=step_in_fixed_order)


def _runs(batch: AttentionBatch) -> Iterator[Runs]:
    """All new tokens, 16 of a sequence at a time, eight of these at a time."""
    contexts = batch.context_lengths.tolist()
    spans = pairwise(batch.query_starts.tolist())
    found = [
        (sequence, first, min(first + TOKENS, stop), context - stop)
        for sequence, (context, (start, stop)) in enumerate(
            zip(contexts, spans, strict=True)
        )
        for first in range(start, stop, TOKENS)
    ]
    found += [(0, 0, 0, 0)] * (-len(found) % TOGETHER)  # runs of no tokens
    device = batch.context_lengths.device
    numbers = torch.tensor(found, dtype=torch.int64, device=device)
    column = torch.arange(TOKENS, device=device)
    for sequence, first, stop, shift in (part.T for part in numbers.split(TOGETHER)):
        tokens = first[:, None] + column
        exists = tokens < stop[:, None]
        positions = torch.where(exists, tokens + shift[:, None], -1)
        yield Runs(tokens.where(exists, 0), positions, batch.block_tables[sequence])


def _before(rows: Tensor, sinks: Tensor | None, value_dim: int) -> Partial:
    """The state before the first position: nothing, or the sinks alone.

    A sink is a logit more for each head; its value is zero.
    """
    nothing = Partial.nothing(*rows.shape[:3], value_dim, like=rows)
    if sinks is None:
        return nothing
    by_head = sinks.to(rows.dtype).view(rows.shape[1], -1)  # [KV, G]
    maximum = by_head.repeat(len(rows), 1, TOKENS)
    return Partial(maximum, torch.ones_like(maximum), nothing.weighted)


def _parts(
    rows: Tensor, runs: Runs, cache: LayerCache, masking: Masking
) -> Iterator[Partial]:
    """A Partial for each tile that any of the rows sees."""
    block_size = cache.keys.shape[1]
    group_size = rows.shape[2] // TOKENS
    own = runs.positions[:, :, None]  # [N, Q, 1]
    last = runs.positions.amax(dim=1).clamp(min=0)[:, None]  # [N, 1]
    window = masking.sliding_window or int(last.max()) + 1  # that hides nothing
    lowest = runs.positions.masked_fill(runs.positions < 0, int(last.max())).min()
    first = max(0, int(lowest) - window + 1) // TILE * TILE
    for start in range(first, int(last.max()) + 1, TILE):
        position = torch.arange(start, start + TILE, device=rows.device)
        # Slots that nobody wrote may hold NaN. In their place, and in that of positions
        # which no row sees, the last token's slot is read.
        read = position.minimum(last)  # [N, P]
        slots = runs.tables.gather(1, read // block_size) * block_size
        slots += read % block_size
        k, v = (
            x.flatten(0, 1)[slots].transpose(1, 2).to(rows.dtype)  # [N, KV, P, dim]
            for x in (cache.keys, cache.values)
        )
        logits = rows @ k.mT
        if (cap := masking.softcap) is not None:
            logits = cap * torch.tanh(logits / cap)
        hidden = (position > own) | (position <= own - window)  # [N, Q, P]
        hidden = hidden.repeat_interleave(group_size, dim=1)[:, None]
        yield Partial.of(logits.masked_fill_(hidden, -torch.inf), v)
