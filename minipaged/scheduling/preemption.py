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
    sequences together give all of their blocks back, and it is first in line again.
    The earliest one is never preempted, so somebody always goes on, and all end.

    What a preempted request has computed is computed again (recompute); or, with a
    `swap_space`, it lies there meanwhile (swap), while there is room.

    Source: PagedAttention paper, section 4.5.
    """

    swap_space: "SwapSpace | None" = field(default=None, kw_only=True)
    max_sequences: float = field(default=inf, kw_only=True)  # that run together
    swapped: list[Request] = field(default_factory=list, init=False)
    _soon: int = field(default=0, init=False)  # blocks that those running want next

    def _admit(self) -> None:
        """Make room for those running; only if there was enough, start others."""
        self._tidy_swap_space()
        size, free = self.pool.block_size, self.pool.num_free
        self._soon = sum([blocks_soon(request, size) for request in self.running])
        if self._soon > free and self._make_room():
            return  # whoever was preempted would come back at once
        while self.waiting and self.waiting[0].swapped is not None:
            if not self._resume(self.waiting[0]):
                return
        if self.waiting and not self._is_crowded(self.waiting[0]):
            super()._admit()

    def _may_start(self, request: Request, cached: list[int], num_blocks: int) -> bool:
        """Is there room for what it takes soon? It may be `num_blocks` in the end."""
        free_now = sum(self.pool.refcount(block_id) == 0 for block_id in cached)
        soon = blocks_soon(request, self.pool.block_size) - len(cached) + free_now
        return request.swapped is None and self._is_room(request, soon, free_now)

    def _is_room(self, request: Request, soon: int, at_once: int) -> bool:
        """For the request, beside those running? Then it is counted among them.

        `at_once` of the blocks that it takes `soon` are not free any more by then.
        """
        if self._is_crowded(request) or self._soon + soon > self.pool.num_free:
            return False
        self._soon += soon - at_once
        return True

    def _is_crowded(self, request: Request) -> bool:
        """Would more sequences run together with it than may?"""
        running = sum(one.num_parallel for one in self.running)
        return running > 0 and running + request.num_parallel > self.max_sequences

    def _make_room(self) -> bool:
        """Preempt the latest until the others can all go on; was anybody preempted?

        Never one whose blocks a plan in flight computes: then nobody is.
        """
        flying = {work.request for plan in self.in_flight for work in plan.works}
        count = len(self.running)
        while not self._fits(super()._pick_works()):
            *others, latest = self.running
            if not others or latest in flying:
                break
            self.preempt(latest)
        return len(self.running) < count

    def _pick_works(self) -> list[Work]:
        """As always; but who finds no room while a plan is in flight skips a step."""
        works = super()._pick_works()
        if self._soon <= self.pool.num_free:  # there is room for all, and more
            return works
        while self.in_flight and not self._fits(works):
            latest = works[-1].request
            works = [work for work in works if work.request is not latest]
        return works

    def _fits(self, works: list[Work]) -> bool:
        appends = ((work.sequence.table, work.num_tokens) for work in works)
        return blocks_needed_together(appends) <= self.pool.num_free

    def preempt(self, request: Request) -> None:
        """Take all of its blocks, of all its sequences; it is first in line again.

        It must be running, and in no plan in flight. Its answer does not change.
        """
        tables = [one.table for one in request.sequences if one.table is not None]
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
        self.running = [one for one in self.running if one is not request]
        self.waiting.appendleft(request)
        self.observers.preempted(request)

    def _swap_out(self, request: Request, tables: list[BlockTable]) -> "Swapped | None":
        """Store its blocks, shared ones once; None if they are to be computed again."""
        blocks = list(dict.fromkeys(chain.from_iterable(t.block_ids for t in tables)))
        num_free = 0 if self.swap_space is None else self.swap_space.pool.num_free
        if not blocks or len(blocks) > num_free:
            return None
        self.swapped.append(request)
        place = dict(zip(blocks, self.swap_space.store(blocks), strict=True))
        return Swapped(
            [one for one in request.sequences if one.table is not None],
            [[place[block_id] for block_id in table.block_ids] for table in tables],
            [table.num_tokens for table in tables],
        )

    def _resume(self, request: Request) -> bool:
        """Bring its blocks back, if there is room for them and for the next step."""
        stored = list(dict.fromkeys(chain.from_iterable(request.swapped.places)))
        soon = blocks_soon(request, self.pool.block_size)
        if not self._is_room(request, soon, len(stored)):
            return False
        block_ids = [self.pool.allocate() for _ in stored]
        self.swap_space.load(stored, block_ids)
        block_of, taken = dict(zip(stored, block_ids, strict=True)), set()
        for sequence, places, num_tokens in zip(*request.swapped, strict=True):
            own = [block_of[place] for place in places]
            for block_id in taken.intersection(own):
                self.pool.share(block_id)
            taken.update(own)
            sequence.table = BlockTable(self.pool, own, num_tokens)
        request.swapped = None
        self.running.append(request)
        self.waiting.popleft()
        self.observers.admitted(request)
        return True

    def _tidy_swap_space(self) -> None:
        """Free what belongs to nobody: to who is back, aborted, or was interrupted."""
        if self.swap_space is None or not self.swapped:
            return
        stay = [one for one in self.swapped if one.swapped is not None and one.live]
        pool = self.swap_space.pool
        places = {p for one in stay for own in one.swapped.places for p in own}
        if len(places) != pool.num_blocks - pool.num_free:
            pool.restore([int(place in places) for place in range(pool.num_blocks)])
        self.swapped = list(dict.fromkeys(stay))  # last: interrupted, it is done again


class Swapped(NamedTuple):
    """Where a preempted request's K and V lie: per sequence that had blocks."""

    sequences: list[Sequence]
    places: list[list[int]]  # block ids of the swap space
    num_tokens: list[int]


def blocks_needed_together(appends: Iterable[tuple[BlockTable, int]]) -> int:
    """How many free blocks these `append(n)` calls take together: no more, no less.

    `appends` are (table, n) pairs, each table once. If all holders of a part-filled
    block write in one step, the last of them keeps it: h holders need h - 1 copies.
    """
    needed, writers = 0, Counter()  # writers: how many write into a shared block
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
    """How many blocks it takes until all its sequences have decoded a token.

    At most: beams may share more than this counts on.
    """
    if request.num_parallel == 1 and not request.drafts:
        # Most are: what is below, but without a call.
        (sequence,) = request.sequences
        if sequence.finish_reason is not None:
            return 0
        end, last = len(sequence.tokens) + sequence.num_pending, request.max_computed
        table, computed, held = sequence.table, 0, 0
        if table is not None:
            computed, held = table.num_tokens, len(table.block_ids)
        if computed < sequence.num_prefill_tokens:
            end += 1  # the prompt first, then a token
        soon = -(-(end if end < last else last) // block_size) - held
        return soon if soon > 0 else 0
    live, last = request.live, request.max_computed
    ends = [next_end(one, last) for one in live]
    if len(request.answers) < request.num_parallel:
        ends *= request.num_parallel  # it will be forked
    shared = len(request.prompt) // block_size if len(ends) > 1 else 0
    wanted = shared + sum(-(-end // block_size) - shared for end in ends)
    tables = [one.table.block_ids for one in live if one.table is not None]
    held = len(tables[0]) if len(tables) == 1 else len(set().union(*tables))
    return max(0, wanted - held)


def next_end(sequence: Sequence, max_computed: int) -> int:
    """How many tokens it will have computed when it has decoded one more."""
    end = sequence.num_tokens
    is_prefilling = sequence.num_computed < sequence.num_prefill_tokens
    return min(end + is_prefilling, max_computed)  # the prompt first, then a token
