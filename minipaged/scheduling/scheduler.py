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
    """First come first served, and certain: a started request never lacks a block.

    `schedule` makes the plan of a step, and `commit` is called after the step. The next
    plan may be made before that: requests of a plan in flight keep their blocks.

    Source: PagedAttention paper, sections 4.3 (steps), 4.5 (first come first served).
    """

    pool: BlockPool
    prefix_cache: "PrefixCache | None" = None
    max_tokens: float = field(default=inf, kw_only=True)  # computed in a step
    max_prompt_tokens: float = field(default=inf, kw_only=True)  # of these, for prompts
    waiting: deque[Request] = field(default_factory=deque, init=False)
    running: list[Request] = field(default_factory=list, init=False)
    in_flight: deque[Plan] = field(default_factory=deque, init=False)  # uncommitted
    observers: Observers = field(default_factory=Observers, kw_only=True)

    def __post_init__(self) -> None:
        self.sharing = None
        self._prompt_logits = False  # did any request want logits of its prompt?
        if self.prefix_cache is not None:
            from minipaged.scheduling.sharing import PrefixSharing  # lesson 3

            self.sharing = PrefixSharing(self.prefix_cache)

    def add(self, request: Request) -> None:
        """Let it wait for its turn; ValueError if no step can hold its sequences."""
        if self.max_tokens < (least := request.num_parallel):
            raise ValueError(f"max_tokens must be at least {least}, one a sequence")
        request.observers = self.observers
        self._prompt_logits |= request.prompt_logits
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """End the request. Its blocks come back now, or after its plans in flight."""
        self.waiting = deque(other for other in self.waiting if other is not request)
        request.end("aborted")
        self._let_go(request.sequences)

    def schedule(self) -> Plan:
        """The next step: which sequences compute which tokens; their tables have grown.

        Raises OutOfBlocks if the first request in line does not fit even into an idle
        pool; also if somebody outside this scheduler took promised blocks: then some
        tables have grown already.
        """
        self._admit()
        works = self._pick_works()
        if self._prompt_logits:
            from minipaged.scheduling.prompt_logits import in_parts  # appendix A

            works = in_parts(works)
        if self.waiting and not self.running and not self.in_flight:
            # No block will come back.
            needed = self.waiting[0].blocks_at_most(self.pool.block_size)
            raise OutOfBlocks(needed, self.pool.num_free, self.pool.num_blocks)
        copies = [work.sequence.table.append(work.stop - work.start) for work in works]
        plan = Plan(works, list(chain.from_iterable(copies)))
        self.in_flight.append(plan)
        self.observers.planned(plan)
        return plan

    def withdraw(self, plan: Plan) -> None:
        """Take back the latest plan, which nobody computes: it has no works."""
        if plan.works or not self.in_flight or self.in_flight[-1] is not plan:
            raise ValueError("withdraw the latest plan only, if it computes nothing")
        self.in_flight.pop()

    def commit(self, plan: Plan) -> None:
        """Once the plan is computed and its tokens are chosen: publish, then free.

        Plans are committed in the order in which they were made: ValueError otherwise.
        """
        if not self.in_flight or self.in_flight[0] is not plan:
            raise ValueError("commit every plan once, and the oldest first")
        if self.sharing:
            self.sharing.publish(plan, self.observers)
        self.in_flight.popleft()
        self._let_go(plan.sequences)  # with the forks of this step
        self.observers.committed(plan)

    def _admit(self) -> None:
        """Start requests, in order, while their worst cases fit into the free blocks.

        The scheduler promises blocks: to a running request, those that it may still
        take; to a new request, those that it may take beyond its cached blocks. A
        cached block that is free is needed, too: it is taken from the free blocks.
        A request waits while another one is computing a block that it needs.

        For example, 6 of 9 blocks are free, and the running request may still take 2.
        The first in line may come to hold 5 blocks. 2 of these are cached: one is held,
        and one is free. 2 + (5 - 2) + 1 = 6, so the request starts. Now 5 blocks are
        free, and 2 + 3 = 5 are promised, so the next request must wait.
        """
        size = self.pool.block_size
        running = self.running if self.waiting else []
        promised = self._promised(running)
        while self.waiting:
            request = self.waiting[0]
            cached = self.sharing.find(request) if self.sharing else []
            promised += request.blocks_at_most(size) - len(cached)
            free_now = sum(self.pool.refcount(block_id) == 0 for block_id in cached)
            if not self._may_start(request, cached, promised + free_now):
                return
            if self.sharing and not self.sharing.take(request, cached):
                return  # another request is computing a block that it needs
            request.start(BlockTable(self.pool, cached, len(cached) * size))
            self.running.append(request)
            self.waiting.popleft()
            self.observers.admitted(request)

    def _promised(self, running: list[Request]) -> int:
        """How many blocks these requests may still take."""
        size = self.pool.block_size
        return sum([request.blocks_to_come(size) for request in running])

    def _may_start(self, request: Request, cached: list[int], num_blocks: int) -> bool:
        """Are `num_blocks` free: all that it and the running ones may still take?"""
        return num_blocks <= self.pool.num_free

    def _pick_works(self) -> list[Work]:
        """The works of a step: first requests that decode, then prompts, in order."""
        works = []
        others = []
        budget = self.max_tokens
        for request in self.running:
            decodes = request.strategy.next_works(request, budget)
            for work in decodes:
                budget -= work.stop - work.start
            works += decodes
            others += [] if decodes else [request]
        budget = min(budget, self.max_prompt_tokens)
        for request in others:
            for work in request.strategy.next_prefills(request, budget):
                budget -= work.num_tokens
                works.append(work)
        return works

    def _let_go(self, sequences: Iterable[Sequence]) -> None:
        """Free the sequences that have ended, except those of plans in flight."""
        ended = [seq for seq in sequences if seq.finish_reason and seq.table]
        if not ended:
            return
        # A plan in flight keeps all sequences of the requests that it computes.
        busy = {sequence for plan in self.in_flight for sequence in plan.sequences}
        for sequence in ended:
            if sequence not in busy:
                sequence.free()
                self.observers.freed(sequence)
        self.running = [request for request in self.running if request.holds_blocks]
