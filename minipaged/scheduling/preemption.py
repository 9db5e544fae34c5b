"""Appendix B: start early, and take blocks back when they run out (paper, 4.5)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.interruption import lose_blocks
from minipaged.scheduling.plan import Work
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler
from minipaged.scheduling.sequence import Sequence

if TYPE_CHECKING:
    from minipaged.memory.swap_space import SwapSpace


@dataclass(eq=False)
class PreemptingScheduler(Scheduler):
    """First come first served, and hopeful: blocks are found when they are needed.

    A request starts when there is room for its prompt and a token more, not for its
    worst case. So blocks can run out. Then the latest request is preempted: all of its
    sequences give all of their blocks back, and it is first in line again. The earliest
    request is never preempted, so it always goes on, and in the end all requests do.

    The K and V of a preempted request are computed again (recompute). With a
    `swap_space`, they are stored there meanwhile (swap), if it has room.

    To start a request takes the CPU as long as some decoded tokens. So if hundreds of
    short prompts came at once, running requests would wait long for their next token.
    With `max_starts`, a step starts so many requests at most, and the next step others.

    Source: PagedAttention paper, section 4.5.
    """

    swap_space: "SwapSpace | None" = field(default=None, kw_only=True)
    max_sequences: float = field(default=inf, kw_only=True)  # that run together
    max_starts: float = field(default=inf, kw_only=True)  # requests, in a step; not 0
    swapped: list[Request] = field(default_factory=list, init=False)
    _soon: int = field(default=0, init=False)  # blocks that running requests need soon
    _num_growing: int = field(default=0, init=False)  # sequences of running requests
    _num_started: int = field(default=0, init=False)  # requests, in this step

    def _admit(self) -> None:
        """Make room for running requests; start others only if nobody was preempted."""
        self._tidy_swap_space()
        size = self.pool.block_size
        self._soon = sum([blocks_soon(request, size) for request in self.running])
        if self._soon > self.pool.num_free and self._make_room():
            return  # a preempted request would start again at once
        # Counted once, because many requests may start in a step.
        self._num_growing = sum([request.num_parallel for request in self.running])
        self._num_started = 0
        while self.waiting and self.waiting[0].swapped is not None:
            if not self._resume(self.waiting[0]):
                return
        if self.waiting and not self._is_crowded(self.waiting[0]):
            super()._admit()

    def _promised(self, running: list[Request]) -> int:
        """No block is promised: see the class."""
        return 0

    def _may_start(self, request: Request, cached: list[int], num_blocks: int) -> bool:
        """Is there room for the blocks that it needs soon, not for all `num_blocks`?"""
        free_now = sum(self.pool.refcount(block_id) == 0 for block_id in cached)
        soon = blocks_soon(request, self.pool.block_size) - len(cached) + free_now
        return request.swapped is None and self._is_room(request, soon, free_now)

    def _is_room(self, request: Request, soon: int, at_once: int) -> bool:
        """Is there room for it beside the running requests? If so, it is counted.

        There is none after `max_starts` requests have started in this step.
        It needs `soon` blocks, and takes `at_once` of them from the pool as it starts.
        """
        if self._num_started >= self.max_starts or self._is_crowded(request):
            return False
        if self._soon + soon > self.pool.num_free:
            return False
        self._soon += soon - at_once
        self._num_growing += request.num_parallel
        self._num_started += 1
        return True

    def _is_crowded(self, request: Request) -> bool:
        """Would more than `max_sequences` run with it? (Alone, it may always run.)"""
        running = self._num_growing
        return running > 0 and running + request.num_parallel > self.max_sequences

    def _make_room(self) -> bool:
        """Preempt the latest request until the others fit; was any request preempted?

        A request in a plan in flight keeps its blocks, so preempting stops there.
        """
        busy = {work.request for plan in self.in_flight for work in plan.works}
        num_running = len(self.running)
        while not self._fits(super()._pick_works()):
            *others, latest = self.running
            if not others or latest in busy:
                break
            self.preempt(latest)
        return len(self.running) < num_running

    def _pick_works(self) -> list[Work]:
        """The works of a step; while a plan is in flight, only those that have room.

        The latest requests skip the step then, because `_make_room` may not have been
        able to preempt them.
        """
        works = super()._pick_works()
        if self._soon <= self.pool.num_free:  # there is room for all works, and more
            return works
        while self.in_flight and not self._fits(works):
            latest = works[-1].request
            works = [work for work in works if work.request is not latest]
        return works

    def _fits(self, works: list[Work]) -> bool:
        appends = ((work.sequence.table, work.num_tokens) for work in works)
        return blocks_needed_together(appends) <= self.pool.num_free

    def preempt(self, request: Request) -> None:
        """Take all blocks of all its sequences, and put it first in line again.

        It must be running, and in no plan in flight. Its answer does not change.
        """
        tables = [
            sequence.table
            for sequence in request.sequences
            if sequence.table is not None
        ]
        swapped = self._swap_out(request, tables)
        if swapped is None:
            lose_blocks(request)
        else:  # nothing is to be computed again
            request.num_restarts += 1
            request.swapped = swapped
            for sequence in request.sequences:
                sequence.table = None
        for table in tables:
            table.free()
        self.running = [other for other in self.running if other is not request]
        self.waiting.appendleft(request)
        self.observers.preempted(request)

    def _swap_out(self, request: Request, tables: list[BlockTable]) -> "Swapped | None":
        """Store its blocks, shared blocks once; None if there is no room for them."""
        all_ids = chain.from_iterable(table.block_ids for table in tables)
        distinct = list(dict.fromkeys(all_ids))
        num_free = 0 if self.swap_space is None else self.swap_space.pool.num_free
        if not distinct or len(distinct) > num_free:
            return None
        self.swapped.append(request)
        place_of = dict(zip(distinct, self.swap_space.store(distinct), strict=True))
        return Swapped(
            [sequence for sequence in request.sequences if sequence.table is not None],
            [[place_of[block_id] for block_id in table.block_ids] for table in tables],
            [table.num_tokens for table in tables],
        )

    def _resume(self, request: Request) -> bool:
        """Load its blocks, if there is room for them and for the next step."""
        stored = list(dict.fromkeys(chain.from_iterable(request.swapped.places)))
        soon = blocks_soon(request, self.pool.block_size)
        if not self._is_room(request, soon, len(stored)):
            return False
        allocated = [self.pool.allocate() for _ in stored]
        self.swap_space.load(stored, allocated)
        block_of = dict(zip(stored, allocated, strict=True))
        taken = set()  # blocks that a table holds; the next table must share them
        for sequence, places, num_tokens in zip(*request.swapped, strict=True):
            block_ids = [block_of[place] for place in places]
            for block_id in taken.intersection(block_ids):
                self.pool.share(block_id)
            taken.update(block_ids)
            sequence.table = BlockTable(self.pool, block_ids, num_tokens)
        request.swapped = None
        self.running.append(request)
        self.waiting.popleft()
        self.observers.admitted(request)
        return True

    def _tidy_swap_space(self) -> None:
        """Free the places of requests that run again, have ended or were interrupted.

        An interrupted step may have stored blocks of which no request knows.
        """
        if self.swap_space is None or not self.swapped:
            return
        stored = [
            request
            for request in self.swapped
            if request.swapped is not None and request.live
        ]
        tables = chain.from_iterable(request.swapped.places for request in stored)
        used = set(chain.from_iterable(tables))
        pool = self.swap_space.pool
        if len(used) != pool.num_blocks - pool.num_free:
            pool.restore([int(place in used) for place in range(pool.num_blocks)])
        # Last: if this call is interrupted, the next call does it all.
        self.swapped = list(dict.fromkeys(stored))


class Swapped(NamedTuple):
    """Where a preempted request's K and V lie, for each sequence that had blocks."""

    sequences: list[Sequence]
    places: list[list[int]]  # block ids of the swap space
    num_tokens: list[int]


def blocks_needed_together(appends: Iterable[tuple[BlockTable, int]]) -> int:
    """How many free blocks these `append(n)` calls take together: no more, no less.

    `appends` are (table, n) pairs, each table once. If all holders of a part-filled
    block write in one step, the last of them keeps it: h holders need h - 1 copies.
    """
    needed = 0
    writers = Counter()  # of each shared block
    for table, n in appends:
        needed += table.blocks_needed(n)
        if table.must_copy(n):
            writers[table.pool, table.block_ids[-1]] += 1
    kept = sum(
        num_writers == pool.refcount(block_id)
        for (pool, block_id), num_writers in writers.items()
    )
    return needed - kept


def blocks_soon(request: Request, block_size: int) -> int:
    """How many blocks it takes at most until each of its sequences decodes a token."""
    if request.num_parallel == 1 and not request.drafts:
        # Most requests come here: the same as below, but without calls.
        (sequence,) = request.answers
        if sequence.finish_reason is not None:
            return 0
        end = len(sequence.tokens) + sequence.num_pending
        last = request.max_computed
        table = sequence.table
        computed = 0
        held = 0
        if table is not None:
            computed = table.num_tokens
            held = len(table.block_ids)
        if computed < sequence.num_prefill_tokens:
            end += 1  # the prompt first, then a token
        soon = -(-(end if end < last else last) // block_size) - held
        return soon if soon > 0 else 0
    live = request.live
    ends = [next_end(sequence, request.max_computed) for sequence in live]
    if len(request.answers) < request.num_parallel:
        ends *= request.num_parallel  # it will be forked
    shared = len(request.prompt) // block_size if len(ends) > 1 else 0
    wanted = shared + sum(-(-end // block_size) - shared for end in ends)
    tables = [
        sequence.table.block_ids for sequence in live if sequence.table is not None
    ]
    held = len(tables[0]) if len(tables) == 1 else len(set().union(*tables))
    soon = max(0, wanted - held)
    if len(tables) == request.num_parallel:
        # All decode, and beams share blocks of their answers: then this is less.
        pairs = zip(live, ends, strict=True)
        one_by_one = sum(
            one.table.blocks_needed(end - one.num_computed) for one, end in pairs
        )
        soon = min(soon, one_by_one)
    return min(soon, request.blocks_to_come(block_size))


def next_end(sequence: Sequence, max_computed: int) -> int:
    """How many of its tokens are computed once it has decoded its next token."""
    end = sequence.num_tokens
    is_prefilling = sequence.num_computed < sequence.num_prefill_tokens
    return min(end + is_prefilling, max_computed)  # the prompt first, then a token
