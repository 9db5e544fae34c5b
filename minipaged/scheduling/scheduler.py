"""Lesson 2: who computes what next, and in which blocks (paper, sections 4.3, 4.5)."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import TYPE_CHECKING

from minipaged.errors import OutOfBlocks
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.observer import Observers
from minipaged.scheduling.plan import Plan, Work
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache


@dataclass(eq=False)
class Scheduler:
    """First come first served, and certain: who has started will never lack a block.

    `schedule` makes the plan of a step, `commit` is called after the step. One plan
    more may be made before that: requests of a plan in flight keep their blocks.

    Source: PagedAttention paper, sections 4.3 (steps), 4.5 (first come first served).
    """

    pool: BlockPool
    prefix_cache: "PrefixCache | None" = None
    max_tokens: float = field(default=inf, kw_only=True)  # computed in a step
    max_prompt_tokens: float = field(default=inf, kw_only=True)  # of them, of prompts
    waiting: deque[Request] = field(default_factory=deque, init=False)
    running: list[Request] = field(default_factory=list, init=False)
    in_flight: deque[Plan] = field(default_factory=deque, init=False)  # uncommitted
    observers: Observers = field(default_factory=Observers, kw_only=True)

    def __post_init__(self) -> None:
        self.sharing = None
        self._scores_prompts = False  # has there been a request that does?
        if self.prefix_cache is not None:
            from minipaged.scheduling.sharing import PrefixSharing  # lesson 3

            self.sharing = PrefixSharing(self.prefix_cache)

    def add(self, request: Request) -> None:
        """Let it wait for its turn; ValueError if no step can hold its sequences."""
        if self.max_tokens < (least := request.num_parallel):
            raise ValueError(f"max_tokens must be at least {least}, one a sequence")
        request.observers = self.observers
        self._scores_prompts |= request.scores_prompt
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Let it end. Its blocks come back at once, or with the plans in flight."""
        self.waiting = deque(one for one in self.waiting if one is not request)
        request.end("aborted")
        self._let_go(request.sequences)

    def schedule(self) -> Plan:
        """The next step: who computes which tokens, with room for them in the tables.

        Raises OutOfBlocks if the first in line does not fit even into an idle pool, or
        if others took certain blocks: some tables have grown then.
        """
        self._admit()
        works = self._pick_works()
        if self._scores_prompts:
            from minipaged.scheduling.prompt_logits import in_parts  # appendix A

            works = in_parts(works)
        if self.waiting and not (self.running or self.in_flight):  # nor ever will be
            needed = self.waiting[0].blocks_at_most(self.pool.block_size)
            raise OutOfBlocks(needed, self.pool.num_free, self.pool.num_blocks)
        copies = [one.sequence.table.append(one.stop - one.start) for one in works]
        plan = Plan(works, list(chain.from_iterable(copies)))
        self.in_flight.append(plan)
        self.observers.planned(plan)
        return plan

    def withdraw(self, plan: Plan) -> None:
        """Nobody computes this plan, the latest, as it has no works."""
        if plan.works or not self.in_flight or self.in_flight[-1] is not plan:
            raise ValueError("withdraw the latest plan only, if it computes nothing")
        self.in_flight.pop()

    def commit(self, plan: Plan) -> None:
        """The plan is computed, its tokens are chosen: publish, then free.

        Plans are committed in the order in which they were made: ValueError otherwise.
        """
        if not self.in_flight or self.in_flight[0] is not plan:
            raise ValueError("commit every plan once, and the oldest first")
        if self.sharing:
            self.sharing.publish(plan, self.observers)
        self.in_flight.popleft()
        self._let_go(plan.sequences)  # forks of this turn are among them
        self.observers.committed(plan)

    def _admit(self) -> None:
        """Start requests, in order, while their worst cases fit into the free blocks.

        Those running are promised what they may still take, and each request what it
        may take beyond the blocks that are found in the cache. Found blocks that nobody
        holds are counted, too: to take them uses free blocks up. A request whose next
        block another one is computing waits for it.

        For example, 6 of 9 blocks are free, and the one that runs may still take 2. The
        first in line may come to hold 5 blocks, and 2 of them are found: one that is
        held, and a free one. 2 + (5 - 2) + 1 = 6, so it starts. Now 5 blocks are free,
        and 2 + 3 = 5 are promised. So the next must wait.
        """
        size = self.pool.block_size
        running = self.running if self.waiting else []
        promised = sum(one.blocks_to_come(size) for one in running)
        while self.waiting:
            request = self.waiting[0]
            cached = self.sharing.find(request) if self.sharing else []
            promised += request.blocks_at_most(size) - len(cached)
            free_now = sum(self.pool.refcount(block_id) == 0 for block_id in cached)
            if not self._may_start(request, cached, promised + free_now):
                return
            if self.sharing and not self.sharing.take(request, cached):
                return  # it waits
            request.start(BlockTable(self.pool, cached, len(cached) * size))
            self.running.append(request)
            self.waiting.popleft()
            self.observers.admitted(request)

    def _may_start(self, request: Request, cached: list[int], num_blocks: int) -> bool:
        """Is all of it free: what it and those running may take?"""
        return num_blocks <= self.pool.num_free

    def _pick_works(self) -> list[Work]:
        """Who computes what: those that decode first, then prompts, each in order."""
        works, others, left = [], [], self.max_tokens
        for request in self.running:
            decodes = request.strategy.next_works(request, left)
            left -= sum([work.stop - work.start for work in decodes])
            works += decodes
            others += [] if decodes else [request]
        left = min(left, self.max_prompt_tokens)
        for request in others:
            for work in request.strategy.next_prefills(request, left):
                left -= work.num_tokens
                works.append(work)
        return works

    def _let_go(self, sequences: Iterable[Sequence]) -> None:
        """Free what has ended, unless its request is in a plan in flight."""
        ended = [one for one in sequences if one.finish_reason and one.table]
        if not ended:
            return
        busy = {sequence for plan in self.in_flight for sequence in plan.sequences}
        for sequence in ended:
            if sequence not in busy:
                sequence.free()
                self.observers.freed(sequence)
        self.running = [one for one in self.running if one.holds_blocks]
