"""Lesson 5: attention that streams over blocks (paper, equation 4)."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from types import EllipsisType

import torch

from minipaged.attention.interface import AttentionBatch
from minipaged.attention.partial import Partial
from minipaged.attention.tiles import Tiling, locate, plan_tiles
from minipaged.attention.workspace import borrow

# Sequences, KV heads, stacked queries; or all of them.
Rows = tuple[slice, slice, slice] | EllipsisType
Read = Callable[..., Iterator[tuple[Rows, torch.Tensor, torch.Tensor | None]]]


def online_softmax(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Causal attention of new tokens, read a few blocks at a time, in one pass.

    What is held beside the cache does not grow with the context: one step's K, V and
    logits, and a Partial for each query. Sums are in float32 at least.

    Args and result: as of `gathered_attention`. A token that sees nothing gets zeros.
    Source: Milakov and Gimelshein (the running maximum); paper, section 4.1.
    """
    options = (scale, sliding_window, softcap)
    return _attend(_in_one_pass, q, keys, values, batch, *options)


# What `PagedModel(..., attention="streamed")` uses: one pass reads less than two.
streamed_attention = online_softmax


def safe_softmax(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """The same in two passes: the first finds every query's largest logit.

    Simpler, since nothing is ever rescaled; but K is read twice.

    Args and result: as of `gathered_attention`. A token that sees nothing gets zeros.
    """
    options = (scale, sliding_window, softcap)
    return _attend(_in_two_passes, q, keys, values, batch, *options)


def _in_one_pass(running: Partial, read: Read) -> Partial:
    for rows, logits, v in read():
        running[rows] = running[rows].merge(Partial.of(logits, v))
        del logits, v  # before the next step makes its own
    return running


def _in_two_passes(running: Partial, read: Read) -> Partial:
    maximum = running.maximum
    for rows, logits, _ in read(with_values=False):
        maximum[rows] = torch.maximum(maximum[rows], logits.amax(dim=-1))
    for rows, logits, v in read():
        part = Partial.of(logits, v, maximum[rows])
        del logits, v
        running.total[rows] += part.total
        running.weighted[rows] += part.weighted
    return running


def _attend(
    passes: Callable[[Partial, Read], Partial],
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    scale: float,
    sliding_window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """Attention of each group of sequences, put back into the order of the tokens."""
    tilings, row_of_token = plan_tiles(q, keys, batch, sliding_window)
    num_kv_heads, value_dim = values.shape[2:]
    dtype = torch.promote_types(q.dtype, torch.float32)
    outs = []
    for tiling in tilings:
        num_seqs, num_queries = tiling.rectangle.queries.shape
        # The query heads that share a KV head are stacked like more queries, so K and V
        # are used as they are, and never repeated for each head.
        rows = q[tiling.rectangle.queries].to(dtype) * scale
        rows = rows.view(num_seqs, num_queries, num_kv_heads, -1, q.shape[2])
        rows = rows.transpose(1, 2).flatten(2, 3)  # [S, kv heads, Q * G, key dim]

        options = (keys, values, batch, sliding_window, softcap)
        read = partial(_read, tiling, rows, *options)
        running = Partial.nothing(*rows.shape[:3], value_dim, like=rows)
        out = passes(running, read).result()
        out = out.unflatten(2, (num_queries, -1)).transpose(1, 2)
        outs.append(out.reshape(num_seqs * num_queries, q.shape[1], value_dim))
    return torch.cat(outs)[row_of_token].to(q.dtype)


def _read(
    tiling: Tiling,
    rows: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: AttentionBatch,
    sliding_window: int | None,
    softcap: float | None,
    with_values: bool = True,
) -> Iterator[tuple[Rows, torch.Tensor, torch.Tensor | None]]:
    """For each step, which rows it concerns, their logits and the values.

    rows: [S, kv heads, Q * G, key dim], scaled. Yields logits [n, kv heads, rows, C]
    and values [n, kv heads, C, value dim] (or None); the next step overwrites these,
    and whoever keeps them until then holds two steps' memory.
    """
    group_size = rows.shape[2] // tiling.rectangle.queries.shape[1]
    keys, values = keys.flatten(0, 2), values.flatten(0, 2)  # [places, dim]
    for tile in tiling.tiles:
        places, hidden = locate(tile, tiling, batch, sliding_window)
        k = _gather(keys, places, batch).to(rows.dtype)
        queries = slice(tile.queries.start * group_size, tile.queries.stop * group_size)
        here = slice(tile.num_sequences), slice(None), queries
        if tile.is_whole:
            here = ...
        logits = rows[here] @ k.transpose(2, 3)
        del k  # in half precision it is a copy, as V will be
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        if hidden is not None:
            of_query = hidden[:, None, :, None]  # [n, 1, Q, 1, C]
            logits.unflatten(2, (-1, group_size)).masked_fill_(of_query, -math.inf)
        v = None
        if with_values:
            v = _gather(values, places, batch).to(rows.dtype)
        yield here, logits, v
        del logits, v


def _gather(
    cache: torch.Tensor, places: torch.Tensor, batch: AttentionBatch
) -> torch.Tensor:
    """The K or V [n, kv heads, C, dim] at these places of the cache.

    Always in the same memory: when V comes, the K of its step has been used.
    """
    out = borrow(batch.workspace, "streamed", places.numel(), cache)
    torch.index_select(cache, 0, places.flatten(), out=out)
    return out.view(*places.shape, -1)
