"""Lesson 5: attention that streams over blocks (paper, equation 4)."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from minipaged.attention.backend import AttentionBatch, Backend, Masking
from minipaged.attention.partial import Partial
from minipaged.attention.rectangles import Rectangle, pad_to_rectangles
from minipaged.memory.eight_bits import EightBitKVCache, from_eight_bits
from minipaged.memory.kv_cache import LayerCache

# Tokens of each sequence in a tile: enough for its work to outweigh its calls.
TILE_TOKENS = 256
# A tile has fewer tokens if there are many queries, so that its logits stay in the
# processor's cache; but at least a quarter, for it rescales all rows, too.
TILE_LOGITS = 2**19

# The rows that see a tile: of which sequences, KV heads and stacked queries.
TileRows = tuple[slice, slice, slice]
Read = Callable[..., Iterator[tuple[TileRows, Tensor, Tensor | None]]]


def attend_in_one_pass(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> Tensor:
    """Causal attention of new tokens, read a few blocks at a time, in one pass.

    The memory that it needs does not grow with the context: a tile's K or V, its
    logits, and a Partial for each query. Sums are in float32 at least.

    Args and result: those of `attend_gathered`. A token that sees nothing gets zeros.
    Source: Milakov and Gimelshein (the running maximum); paper, section 4.1.
    """
    return _attend(_in_one_pass, q, cache, batch, masking)


def attend_in_two_passes(
    q: Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> Tensor:
    """The same in two passes: the first finds every query's largest logit.

    This is simpler, since nothing is ever rescaled; but K is read twice.

    Args and result: those of `attend_gathered`. A token that sees nothing gets zeros.
    """
    return _attend(_in_two_passes, q, cache, batch, masking)


online_softmax = Backend(attend_in_one_pass, in_eight_bits=EightBitKVCache)
safe_softmax = Backend(attend_in_two_passes, in_eight_bits=EightBitKVCache)
# What `PagedModel(..., attention="streamed")` uses: one pass reads less than two.
streamed_attention = online_softmax


def _in_one_pass(so_far: Partial, read: Read) -> Partial:
    for rows, logits, v in read():
        so_far[rows] = so_far[rows].merge(Partial.of(logits, v))
        del logits, v  # before the next tile allocates
    return so_far


def _in_two_passes(so_far: Partial, read: Read) -> Partial:
    maximum = so_far.maximum
    for rows, logits, _ in read(with_values=False):
        maximum[rows] = torch.maximum(maximum[rows], logits.amax(dim=-1))
    for rows, logits, v in read():
        part = Partial.of(logits, v, maximum[rows])
        del logits, v
        so_far.total[rows] += part.total
        so_far.weighted[rows] += part.weighted
    return so_far


def _attend(
    passes: Callable[[Partial, Read], Partial],
    q: Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
) -> Tensor:
    """Attention of each rectangle, put back into the order of the tokens."""
    if "rectangles" not in batch.scratch:  # all layers use the same
        batch.scratch["rectangles"] = pad_to_rectangles(batch)
    rectangles, row_of_token = batch.scratch["rectangles"]
    num_kv_heads, value_dim = cache.values.shape[2:]
    outs = []
    for rectangle in rectangles:
        # Query heads that share a KV head are stacked like more queries: K and V are
        # used as they are, and never repeated for each head.
        rows = q[rectangle.tokens].to(torch.promote_types(q.dtype, torch.float32))
        rows = (rows * masking.scale).unflatten(2, (num_kv_heads, -1))
        rows = rows.transpose(1, 2).flatten(2, 3)  # [S, KV, Q * G, key_dim]
        nothing = Partial.nothing(*rows.shape[:3], value_dim, like=rows)
        read = partial(_read, rows, rectangle, cache, batch, masking)
        out = passes(nothing, read).result()
        out = out.unflatten(2, (rectangle.tokens.shape[1], -1)).transpose(1, 2)
        outs.append(out.flatten(0, 1).flatten(1, 2))  # [S * Q, num_heads, value_dim]
    return torch.cat(outs)[row_of_token].to(q.dtype)


def _read(
    rows: Tensor,
    rectangle: Rectangle,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    with_values: bool = True,
) -> Iterator[tuple[TileRows, Tensor, Tensor | None]]:
    """For each tile, which rows see it, their logits, and the values.

    rows: [S, KV, Q * G, key_dim], scaled. Yields logits [n, KV, rows, P] and values
    [n, KV, P, value_dim] (or None), in memory that the next tile overwrites. A caller
    that keeps the logits until then holds the logits of two tiles.
    """
    num_seqs, num_kv_heads, num_rows, key_dim = rows.shape
    num_queries = rectangle.tokens.shape[1]
    value_dim = cache.values.shape[3]
    group_size = num_rows // num_queries
    if masking.sinks is not None:
        yield (slice(None),) * 3, *_sinks(rows, masking.sinks, value_dim)
    num_tokens = max(TILE_LOGITS // rows[..., 0].numel(), TILE_TOKENS // 4)
    num_tokens = min(num_tokens, TILE_TOKENS)
    size = num_seqs * num_kv_heads * num_tokens * max(key_dim, value_dim)
    widest = max(cache.keys.element_size(), cache.values.element_size())
    # For K, and for V after K was used.
    memory = cache.keys.new_empty(size * widest, dtype=torch.uint8)
    for tile in _tiles(rectangle, num_tokens, masking.sliding_window):
        queries = tile.queries
        stacked = slice(queries.start * group_size, queries.stop * group_size)
        tile_rows = slice(tile.num_sequences), slice(None), stacked
        places = _places(tile.positions, rectangle, cache, batch)
        k = _gather(cache.keys, places, memory)
        k = from_eight_bits(k, cache.key_scale, rows.dtype)
        logits = rows[tile_rows] @ k.mT
        del k
        if (cap := masking.softcap) is not None:
            logits = cap * torch.tanh(logits / cap)
        if tile.hidden is not None:
            of_query = logits.unflatten(2, (-1, group_size))  # [n, KV, Q, G, P]
            of_query.masked_fill_(tile.hidden[:, None, :, None], -math.inf)
        v = None
        if with_values:
            v = _gather(cache.values, places, memory)
            v = from_eight_bits(v, cache.value_scale, rows.dtype)
        yield tile_rows, logits, v
        del logits, v


def _sinks(rows: Tensor, sinks: Tensor, value_dim: int) -> tuple[Tensor, Tensor]:
    """A tile with one more logit in each row, whose value is zero.

    After this tile, the row's Partial is (sink, 1, 0).
    """
    num_seqs, num_kv_heads, num_rows, _ = rows.shape
    by_head = sinks.to(rows.dtype).view(num_kv_heads, -1)  # [KV, G]
    num_queries = num_rows // by_head.shape[1]
    logits = by_head.repeat(num_seqs, 1, num_queries)[..., None]
    return logits, rows.new_zeros(num_seqs, num_kv_heads, 1, value_dim)


class Tile(NamedTuple):
    """What is read at a time: the same number of positions of some sequences."""

    num_sequences: int  # n, the first of the rectangle; the other contexts have ended
    queries: slice  # the queries of the rectangle that see any of the positions
    positions: Tensor  # [n, P]
    hidden: Tensor | None  # [n, Q, P]: what a query does not see; None: it sees all


def _tiles(rectangle: Rectangle, num_tokens: int, window: int | None) -> Iterator[Tile]:
    """The tiles of a rectangle: up to `num_tokens` positions of each sequence.

    Tiles begin at the first position that any query of the sequence sees. Counted from
    there, the sequence's query 0 stands at `lead`, and its context ends at `end`:

        first                                   lead          end
        [= = = = tile = = = =][= = = = tile = = = =][= = tile =]
                                                  0 1 2 3 4 5 6   (queries)
    """
    query_at = rectangle.positions
    if window is None:
        window = int(query_at.max()) + 1  # hides nothing
    first = (query_at[:, :1] + 1 - window).clamp(min=0)
    leads = (query_at[:, :1] - first).flatten().tolist()
    ends = (query_at[:, -1:] + 1 - first).flatten().tolist()
    for start in range(0, max(ends), num_tokens):
        stop = min(start + num_tokens, max(ends))
        n = max(s for s, end in enumerate(ends) if end > start) + 1
        low, high = min(leads[:n]), max(leads[:n])
        # Query i stands at lead + i, and sees positions from lead + i - window + 1 on.
        queries = slice(max(0, start - high), stop - 1 + window - low)
        positions = first[:n] + torch.arange(start, stop, device=query_at.device)
        hidden = None
        # Unless the first query sees the tile's end, and the last its beginning:
        if low < stop - 1 or high + query_at.shape[1] - window > start:
            key_at = positions[:, None]
            asks_at = query_at[:n, queries, None]
            hidden = (key_at > asks_at) | (key_at <= asks_at - window)
        yield Tile(n, queries, positions, hidden)


def _places(
    position: Tensor, rectangle: Rectangle, cache: LayerCache, batch: AttentionBatch
) -> Tensor:
    """The places of the K and V of these positions [n, P]: [n, KV, P].

    A place is a KV head of a slot: number slot * KV heads + head.
    """
    _, block_size, num_kv_heads, _ = cache.keys.shape
    n = len(position)
    # After a sequence's end, its table may hold any number, and slots may hold NaN,
    # which a weight of 0 does not remove. So the last token is read again instead.
    position = position.minimum(rectangle.positions[:n, -1:])
    sequences = rectangle.sequences[:n, None]
    blocks = batch.block_tables[sequences, position // block_size]
    slots = blocks * block_size + position % block_size
    head = torch.arange(num_kv_heads, device=slots.device)[:, None]
    return slots[:, None] * num_kv_heads + head


def _gather(blocks: Tensor, places: Tensor, memory: Tensor) -> Tensor:
    """The K or V at these places: [n, KV, P, dim].

    Every call uses the same memory: on a CPU, the page faults of some megabytes of
    fresh memory cost more than the gathering.
    """
    vectors = blocks.flatten(0, 2)
    num_bytes = places.numel() * vectors.shape[1] * vectors.element_size()
    out = memory[:num_bytes].view(vectors.dtype).view(-1, vectors.shape[1])
    torch.index_select(vectors, 0, places.flatten(), out=out)
    return out.view(*places.shape, -1)
