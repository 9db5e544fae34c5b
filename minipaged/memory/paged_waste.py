"""Lesson 2: the same server with a block pool: what is wasted now (paper, figure 2)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.contiguous import RequestLengths
from minipaged.memory.waste import WasteReport


@dataclass(frozen=True)
class PagedReport(WasteReport):
    """A WasteReport, and the price of reserving nothing."""

    preemptions: int = 0  # how often a running chat gave up its blocks
    recomputed_tokens: int = 0  # tokens that were in memory and are computed again


@dataclass(eq=False)
class Chat:
    """A request on its way. While it runs, its table has room for whole blocks."""

    num_tokens: int  # in memory; while it waits, those to be computed when it starts
    num_to_come: int  # tokens still to be produced
    table: BlockTable | None = None  # None: it waits

    @property
    def is_full(self) -> bool:
        """Does it need a block for its next token?"""
        return self.num_tokens == self.table.num_tokens

    def add_token(self) -> None:
        """Add a token, for which the last block has room."""
        self.num_tokens += 1
        self.num_to_come -= 1


def simulate_paged(
    requests: Sequence[RequestLengths],
    num_slots: int,
    block_size: int,
    *,
    keep_free: int = 0,
) -> PagedReport:
    """Serve `requests` in order from a real BlockPool, one token each per iteration.

    The counterpart of lesson 1's `simulate`: the same queue, the same iterations
    counted, and the same four kinds. `reserved` and `internal` can only lie in a
    sequence's last block; `external` are the free blocks, and slots that make no whole
    block. `stays` is empty.

    If a running chat finds no block for its next token, the newest chat is preempted:
    it gives up its blocks and waits at the head of the queue; all its tokens are
    computed again later.

    Args:
        keep_free: a chat starts only if so many blocks stay free, for others to grow.

    Raises ValueError, before any request runs, for a request that never fits.
    Source: PagedAttention paper, section 4.5 (preemption, recomputation). The paper's
    server also lets no new request start until all preempted requests have ended.
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
    waiting = deque(Chat(request.prompt, request.output) for request in requests)
    running: list[Chat] = []
    lost: list[int] = []  # tokens in memory of each chat that was preempted
    under_load = []  # per iteration: the four kinds, and how many ran
    idle = []  # the same, where nobody waits
    while waiting or running:
        lost += _grow(running, waiting, pool)
        _admit(running, waiting, pool, keep_free)
        # Only while somebody waits is a free slot a loss.
        (under_load if waiting else idle).append((*_kinds(running, pool), len(running)))
        for chat in [chat for chat in running if chat.num_to_come == 0]:
            chat.table.free()
            running.remove(chat)
    rows = under_load or idle
    *counts, ran = map(sum, zip(*rows, strict=True))
    # num_slots may be no multiple of block_size; the remaining slots serve nobody.
    counts[3] += len(rows) * (num_slots - pool.num_blocks * block_size)
    shares = [count / (len(rows) * num_slots) for count in counts]
    return PagedReport(
        *shares,
        mean_running=ran / len(rows),
        peak_running=max(row[4] for row in rows),
        slot_iterations=tuple(counts),
        rounded_up=0.0,
        stays=(),
        num_steps=len(under_load) + len(idle),
        preemptions=len(lost),
        recomputed_tokens=sum(lost),
    )


def _grow(running: list[Chat], waiting: deque[Chat], pool: BlockPool) -> list[int]:
    """Add a token to each running chat; preempt the newest chat until there is room.

    Returns how many tokens each preempted chat had in memory.
    """
    lost = []
    full = [chat for chat in running if chat.is_full]
    while len(full) > pool.num_free:
        newest = running.pop()
        lost.append(newest.num_tokens)
        newest.table.free()
        newest.table = None
        waiting.appendleft(newest)
        full = [chat for chat in full if chat is not newest]
    for chat in full:
        chat.table.append(pool.block_size)
    for chat in running:
        chat.add_token()
    return lost


def _admit(
    running: list[Chat], waiting: deque[Chat], pool: BlockPool, keep_free: int
) -> None:
    """Start the head of the queue while its tokens and one more fit."""
    while waiting:
        chat = waiting[0]
        # A chat that runs alone may take all blocks, or a long prompt would never run.
        spare = pool.num_free - (keep_free if running else 0)
        wanted = -(-(chat.num_tokens + 1) // pool.block_size)
        if wanted > spare:
            return
        chat.table = BlockTable(pool)
        chat.table.append(wanted * pool.block_size)
        chat.add_token()
        running.append(waiting.popleft())


def _kinds(running: list[Chat], pool: BlockPool) -> tuple[int, int, int, int]:
    """How many slots of each kind there are now."""
    tokens = sum(chat.num_tokens for chat in running)
    held = (pool.num_blocks - pool.num_free) * pool.block_size
    reserved = sum(
        min(chat.table.num_tokens - chat.num_tokens, chat.num_to_come)
        for chat in running
    )
    return tokens, reserved, held - tokens - reserved, pool.num_free * pool.block_size
