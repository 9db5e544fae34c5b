"""Lesson 2: the same server with a block pool: what is wasted now (paper, figure 2)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.contiguous import RequestLengths
from minipaged.memory.waste import WasteReport


@dataclass(eq=False)
class Running:
    """A request in memory, its table, and how many tokens it is still to produce."""

    request: RequestLengths
    table: BlockTable
    left: int


@dataclass(frozen=True)
class PagedReport(WasteReport):
    """A WasteReport, and what it cost that nobody reserves."""

    preemptions: int = 0  # times that a running request gave up its blocks
    recomputed_tokens: int = 0  # tokens that were in memory and are computed again


def simulate_paged(
    requests: Sequence[RequestLengths],
    num_slots: int,
    block_size: int,
    keep_free: int = 0,
) -> PagedReport:
    """Serve `requests` in order from a real BlockPool, one token each per iteration.

    The counterpart of lesson 1's `simulate`: same queue, same iterations counted, and
    the same four kinds. `reserved` and `internal` can only lie in a sequence's last
    block; `external` are the free blocks, and slots that make no whole block.

    The queue's head is admitted when its prompt and first token fit, and `keep_free`
    blocks more, for the others to grow. If a running request finds no block, the newest
    one gives up its blocks and waits in front; what it had is computed again later
    (section 4.5). `stays` is empty.

    Raises ValueError, before any runs, for a request that never fits.
    """
    pool = BlockPool(num_slots // block_size, block_size)
    if keep_free < 0:
        raise ValueError(f"{keep_free=}; keep 0 blocks free, or more")
    for request in requests:
        if request.prompt < 0 or request.output < 1:
            raise ValueError(f"{request} has no such lengths")
        if -(-sum(request) // block_size) > pool.num_blocks:
            raise ValueError(f"{request} never fits into {pool}; raise num_slots")
    if not requests:
        raise ValueError("no requests to serve; give at least one")
    waiting, running = deque(requests), []
    lost: list[int] = []  # tokens of each request that gave up its blocks
    under_load, idle = [], []  # per iteration: the four kinds, and how many ran
    while waiting or running:
        lost += _grow(running, waiting, pool)
        _admit(running, waiting, pool, keep_free)
        # Only while somebody waits is a free slot a loss.
        (under_load if waiting else idle).append((*_kinds(running, pool), len(running)))
        for ended in [one for one in running if one.left == 0]:
            ended.table.free()
            running.remove(ended)
    rows = under_load or idle
    *counts, ran = map(sum, zip(*rows, strict=True))
    # num_slots may be no multiple of block_size; what is left over serves nobody.
    counts[3] += len(rows) * (num_slots - pool.num_blocks * block_size)
    shares = [count / (len(rows) * num_slots) for count in counts]
    peak = max(row[4] for row in rows)
    in_use = (*shares, ran / len(rows), peak, tuple(counts))
    return PagedReport(*in_use, 0.0, (), len(lost), sum(lost))


def _grow(running: list[Running], waiting: deque, pool: BlockPool) -> list[int]:
    """One more token for everyone; the newest step back until there is room.

    Returns how many tokens each of those had in memory.
    """
    lost = []
    while sum(one.table.blocks_needed(1) for one in running) > pool.num_free:
        newest = running.pop()
        produced = newest.request.output - newest.left
        lost.append(newest.table.num_tokens)
        newest.table.free()
        prompt = newest.request.prompt + produced
        waiting.appendleft(RequestLengths(prompt, newest.left))
    for one in running:
        one.table.append(1)
        one.left -= 1
    return lost


def _admit(
    running: list[Running], waiting: deque, pool: BlockPool, keep_free: int
) -> None:
    """Let the head of the queue in while its prompt and first token fit."""
    while waiting:
        table, request = BlockTable(pool), waiting[0]
        # Alone, it may take all: else a long prompt would wait for ever.
        spare = pool.num_free - (keep_free if running else 0)
        if table.blocks_needed(request.prompt + 1) > spare:
            return
        table.append(request.prompt + 1)
        running.append(Running(waiting.popleft(), table, request.output - 1))


def _kinds(running: list[Running], pool: BlockPool) -> tuple[int, int, int, int]:
    """How many slots of each kind there are now."""
    tokens = sum(one.table.num_tokens for one in running)
    held = (pool.num_blocks - pool.num_free) * pool.block_size
    room = [
        (len(one.table.block_ids) * pool.block_size - one.table.num_tokens, one.left)
        for one in running
    ]
    reserved = sum(min(slots, left) for slots, left in room)
    return tokens, reserved, held - tokens - reserved, pool.num_free * pool.block_size
