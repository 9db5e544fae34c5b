"""Lesson 2: what tables and cache refuse, in words (the border)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from minipaged.memory.block_pool import BlockPool


def check_new_table(pool: BlockPool, block_ids: list[int], num_tokens: int) -> None:
    """Raise unless these blocks are held, and `num_tokens` tokens fill exactly them."""
    if not isinstance(pool, BlockPool):
        raise TypeError(f"pool must be a BlockPool, got {pool!r:.60}")
    check_whole_number(num_tokens, "hold")
    if len(block_ids) != -(-num_tokens // pool.block_size):
        raise ValueError(
            f"{num_tokens} tokens in blocks of {pool.block_size} do not fill "
            f"{len(block_ids)} blocks, but that many block ids were given"
        )
    if not block_ids:  # most often
        return
    holds = Counter(block_ids)
    for block_id in holds:
        if pool.refcount(block_id) < holds[block_id]:
            raise ValueError(
                f"block {block_id} has too few holders: allocate() or share() it "
                "before a table takes it over"
            )


def check_whole_number(n: Any, verb: str, most: int | None = None) -> None:
    """Raise ValueError unless `n` is a whole number from 0 to `most`."""
    if type(n) is int and n >= 0 and (most is None or n <= most):
        return
    if most is None:
        raise ValueError(f"cannot {verb} {n!r} tokens; give a whole number from 0")
    raise ValueError(f"cannot {verb} {n!r} of {most} tokens")


def check_positions(start: int, stop: int, num_tokens: int) -> None:
    """Raise IndexError unless a table of `num_tokens` has room for these positions."""
    if not 0 <= start <= stop <= num_tokens:
        last = f" to {stop - 1}" * (stop != start + 1)
        raise IndexError(
            f"position {start}{last} of a table that holds 0 to {num_tokens - 1}; "
            "append() first to have more"
        )


def checked_shapes(shapes: Any) -> list[tuple[int, int, int]]:
    """The shapes as a list; ValueError unless they are sizes of K and V per layer."""
    layers = list(shapes) if isinstance(shapes, Iterable) else []
    right = (
        isinstance(layer, list | tuple)
        and len(layer) == 3
        and all(type(size) is int and size > 0 for size in layer)
        for layer in layers
    )
    if not layers or not all(right):
        raise ValueError(
            "shapes must have (num_kv_heads, key_dim, value_dim) for each layer, all "
            f"from 1, got {shapes!r:.60}"
        )
    return layers


def check_copies(copies: Sequence[tuple[int, int]]) -> None:
    """Raise ValueError if the result of these block copies depends on their order."""
    sources, destinations = zip(*copies, strict=True)
    distinct = set(destinations)
    if len(distinct) < len(destinations) or distinct & set(sources):
        raise ValueError(
            f"block copies {list(copies)} clash: destinations must be distinct, and no "
            "block may be both source and destination"
        )
