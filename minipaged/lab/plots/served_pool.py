"""Lab: what a server's /pool tells, drawn as every pool is (appendix G)."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from minipaged.lab.plots.pool import plot_pool
from minipaged.lab.plots.render import Figure
from minipaged.lab.pool.snapshot import FrozenTable, Snapshot

Message = Mapping[str, Any]  # of /pool: see `serving.pool_watch.message_of`


def tables_told(messages: Sequence[Message]) -> list[dict[int, FrozenTable]]:
    """The tables at each message, by request; each message tells what has changed.

    For requests of one sequence, as `Engine` serves them without beams.
    """
    states: list[dict[int, FrozenTable]] = []
    before: dict[int, FrozenTable] = {}
    for message in messages:
        now = {}
        for request, _, _, _, num_tokens, kept, new in message["tables"]:
            old = before[request].block_ids[:kept] if kept else ()
            now[request] = FrozenTable((*old, *new), num_tokens)
        states.append(now)
        before = now
    return states


def plot_served_pool(
    tables: Mapping[int, FrozenTable],
    num_blocks: int,
    block_size: int,
    title: str,
    columns: int = 6,
) -> Figure:
    """The blocks and tables of a moment; requests are named A, B, C in their order.

    tables: one of `tables_told`.
    """
    named = dict(
        zip(ascii_uppercase, (tables[n] for n in sorted(tables)), strict=False)
    )
    holders = [0] * num_blocks
    for table in named.values():
        for block_id in table.block_ids:
            holders[block_id] += 1
    snapshot = Snapshot(block_size, tuple(holders), named, {}, {})
    return plot_pool(snapshot, named, title, columns)
