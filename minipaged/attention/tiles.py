"""Lesson 5: what attention reads in one step: a few block columns of many sequences."""

from typing import NamedTuple

import torch

from minipaged.attention.grouping import Rectangle, group_by_length
from minipaged.attention.interface import AttentionBatch

# A step reads so many tokens of each sequence, so that its work outweighs its calls.
STEP_TOKENS = 256
# But fewer where many queries are waiting, so that a step's logits stay in the cache,
STEP_LOGITS = 2**19
# and these at least: each step rescales value_dim numbers of a row, which should not
# cost more than its logits do.
FEWEST_TOKENS = 64


class Tile(NamedTuple):
    """A few block columns, and who in the group reads them.

    A sequence's columns are counted from the first block that any of its queries sees.
    """

    num_sequences: int  # the first ones: those that are so long
    queries: slice  # those that see anything of it
    columns: range
    is_whole: bool  # all sequences and all queries: nothing need be cut out
    is_masked: bool  # some of these queries do not see all of it


class Tiling(NamedTuple):
    """A group of sequences, and how it is read.

    A place is where one slot's K (or V) of one KV head lies in a layer's cache: number
    slot * kv heads + head. Shapes are as in locate: sequences, KV heads, columns, slots
    of a block.
    """

    rectangle: Rectangle
    tiles: list[Tile]
    contexts: torch.Tensor  # [S, 1, 1, 1]: tokens of each sequence
    first_blocks: torch.Tensor  # [S, 1, 1, 1]: the first column that is read
    first_entries: torch.Tensor  # [S, 1, 1, 1]: where that is among all tables' entries
    last_entries: torch.Tensor  # [S, 1, 1, 1]: where its last block is
    places_in_block: torch.Tensor  # [kv heads, 1, block_size]: those of block 0
    safe_places: torch.Tensor  # [S, kv heads, 1, 1]: one that is surely written


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
        rectangles, row_of_token = group_by_length(batch)
        tilings = [_tiling(one, q, keys, batch, sliding_window) for one in rectangles]
        batch.scratch[key] = tilings, row_of_token
    return batch.scratch[key]


def _tiling(
    rectangle: Rectangle,
    q: torch.Tensor,
    keys: torch.Tensor,
    batch: AttentionBatch,
    sliding_window: int | None,
) -> Tiling:
    _, block_size, num_kv_heads, _ = keys.shape
    num_seqs, num_queries = rectangle.queries.shape
    per_token = num_seqs * num_queries * q.shape[1]  # logits
    num_tokens = min(STEP_TOKENS, max(STEP_LOGITS // per_token, FEWEST_TOKENS))
    window = sliding_window
    if window is None:
        window = max(rectangle.contexts) + 1  # one that hides nothing
    first_positions = [
        context - length
        for context, length in zip(rectangle.contexts, rectangle.lengths, strict=True)
    ]
    # The block of the first position that is seen; of its own where none is.
    first_blocks = [
        max(0, p + 1 - max(window, 1)) // block_size for p in first_positions
    ]
    tiles = _tiles(
        rectangle, first_positions, first_blocks, window, block_size, num_tokens
    )
    sequences = rectangle.sequences.view(-1, 1, 1, 1)
    contexts = batch.context_lengths[sequences]
    firsts = torch.tensor(first_blocks, device=keys.device).view(-1, 1, 1, 1)
    starts = sequences * batch.block_tables.shape[1]
    head = torch.arange(num_kv_heads, device=keys.device).view(-1, 1, 1)
    offset = torch.arange(block_size, device=keys.device)
    safe_slots = batch.block_tables.take(starts + firsts) * block_size
    return Tiling(
        rectangle,
        tiles,
        contexts,
        firsts,
        starts + firsts,
        starts + (contexts - 1) // block_size,
        offset * num_kv_heads + head,
        safe_slots * num_kv_heads + head,
    )


def _tiles(
    rectangle: Rectangle,
    first_positions: list[int],
    first_blocks: list[int],
    window: int,
    block_size: int,
    num_tokens: int,
) -> list[Tile]:
    """Steps of `num_tokens`, from the first column that anybody sees to the last."""
    num_queries = rectangle.queries.shape[1]
    num_columns = [
        -(-context // block_size) - first
        for context, first in zip(rectangle.contexts, first_blocks, strict=True)
    ]
    tiles, width = [], max(1, num_tokens // block_size)
    for start in range(0, max(num_columns), width):
        columns = range(start, min(start + width, max(num_columns)))
        num_reading = max(s for s, n in enumerate(num_columns) if n > start) + 1
        # Positions are counted from a sequence's first query: query i stands at i, and
        # sees from i - window + 1 to i. A tile begins elsewhere in each sequence.
        #
        #                 begin               end
        #                   [= = = tile = = = =)
        #     [- - - window - - - i]                  query i sees some of it
        begins = [
            (first_blocks[s] + start) * block_size - first_positions[s]
            for s in range(num_reading)
        ]
        first_begin = min(begins)
        last_end = max(begins) + len(columns) * block_size
        first_query = max(0, first_begin)  # those before it stand before the tile
        stop_query = min(num_queries, last_end - 1 + window)  # from here on, they see
        # only what comes after the tile. It is masked if the first of these queries
        # does not see its end, or the last one not its beginning;
        is_masked = first_query < last_end - 1 or stop_query - window > first_begin
        # or if somebody's blocks have ended. With a window that may be anybody: a long
        # sequence may have fewer blocks to read than a shorter one.
        is_masked |= min(num_columns[:num_reading]) <= start
        queries = slice(first_query, stop_query)
        is_whole = (num_reading, queries) == (len(num_columns), slice(0, num_queries))
        tiles.append(Tile(num_reading, queries, columns, is_whole, is_masked))
    return tiles


def locate(
    tile: Tile, tiling: Tiling, batch: AttentionBatch, sliding_window: int | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Where the tile lies, and what of it is hidden from whom.

    Returns its places (see Tiling) [n, kv heads, C] for n sequences and C tokens. And
    for each of Q queries whether a position is hidden from it [n, Q, C]; None if
    nothing is.
    """
    n, places_in_block = tile.num_sequences, tiling.places_in_block
    device, block_size = places_in_block.device, places_in_block.shape[2]
    columns = torch.arange(tile.columns.start, tile.columns.stop, device=device)
    columns = columns[:, None]
    entries = tiling.first_entries[:n] + columns  # [n, 1, columns, 1]
    if tile.is_masked:  # past a sequence's last block, its table may say anything
        entries = entries.minimum(tiling.last_entries[:n])
    blocks = batch.block_tables.take(entries)
    places = blocks * places_in_block.numel() + places_in_block
    if not tile.is_masked:
        return places.flatten(2), None
    offset = torch.arange(block_size, device=device)
    position = (tiling.first_blocks[:n] + columns) * block_size + offset
    # Past a sequence's end lie slots that nobody wrote. They may hold NaN, which a
    # weight of 0 does not remove. So a place that is surely written stands in for them.
    places = torch.where(position < tiling.contexts[:n], places, tiling.safe_places[:n])
    position = position.flatten(1)[:, None]  # [n, 1, C]
    own = tiling.rectangle.positions[:n, tile.queries, None]  # [n, Q, 1]
    hidden = position > own
    if sliding_window is not None:
        hidden |= position <= own - sliding_window
    return places.flatten(2), hidden
