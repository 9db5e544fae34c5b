"""Appendix F: servers that reserve contiguous memory, the paper's baselines (6.1)."""

from dataclasses import dataclass, field
from math import inf

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.contiguous import (
    Allocator,
    BuddyAllocator,
    NoPiece,
    Piece,
    Policy,
    RequestLengths,
)
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler


@dataclass(eq=False)
class ReservingScheduler(Scheduler):
    """Orca: continuous batching, in memory that is reserved as a request starts.

    Every answer of a request has a piece of its own, prompt included: nothing is
    shared. `policy` says how large it is. A sequence's table here is a single block, as
    long as the model allows, so it only counts positions. What samples and beams copy
    from each other takes no time, in favour of this baseline.

    Source: PagedAttention paper, section 6.1: Orca (Max), (Pow2), (Oracle).
    """

    policy: Policy = field(kw_only=True)
    memory: Allocator = field(kw_only=True)  # of token slots
    max_sequences: float = field(default=inf, kw_only=True)  # that run together
    _pieces: dict[Request, list[Piece | None]] = field(default_factory=dict, init=False)

    @classmethod
    def over(
        cls, num_slots: int, max_length: int, policy: Policy, **limits: float
    ) -> "ReservingScheduler":
        """Over `num_slots` slots for tokens of a model with `max_length` positions.

        As many sequences can run as there are slots, so there are as many blocks.
        """
        pool = BlockPool(num_slots, max_length)
        return cls(pool, policy=policy, memory=BuddyAllocator(num_slots), **limits)

    def schedule(self) -> Plan:
        """As every scheduler's; the copies are left out."""
        plan = super().schedule()
        plan.copies.clear()
        return plan

    def commit(self, plan: Plan) -> None:
        """Free the pieces of answers that have ended, too."""
        super().commit(plan)
        for work in plan.works:
            if work.sequence.finish_reason is not None:
                self._free_ended(work.request)

    def fits(self, request: Request) -> bool:
        """Could it start now, if nothing runs? Takes nothing."""
        if request.num_parallel > self.max_sequences or not self._reserve(request):
            return False
        for piece in self._pieces.pop(request):
            self.memory.free(piece)
        return True

    def _admit(self) -> None:
        """Start requests, in order, while there are pieces for them."""
        running = sum(request.num_parallel for request in self.running)
        while self.waiting:
            request = self.waiting[0]
            running += request.num_parallel
            if running > self.max_sequences or not self._reserve(request):
                return
            request.start(BlockTable(self.pool))
            self.running.append(request)
            self.waiting.popleft()
            self.observers.admitted(request)

    def _reserve(self, request: Request) -> bool:
        """Take a piece for each answer of its script, or none."""
        pieces = []
        for length in request.strategy.lengths:
            lengths = RequestLengths(len(request.prompt), length)
            slots = self.policy(lengths, self.pool.block_size)
            try:
                pieces.append(self.memory.allocate(slots))
            except NoPiece:
                for piece in pieces:
                    self.memory.free(piece)
                return False
        self._pieces[request] = pieces
        return True

    def _free_ended(self, request: Request) -> None:
        pieces = self._pieces.get(request, [])
        for place, answer in enumerate(request.answers if pieces else []):
            if answer.finish_reason is not None and pieces[place] is not None:
                self.memory.free(pieces[place])
                pieces[place] = None
        if not any(pieces):
            self._pieces.pop(request, None)


@dataclass(eq=False)
class StaticBatches(ReservingScheduler):
    """FasterTransformer: the next requests start when all of a batch have ended.

    A batch is as large as memory allows. A request that has ended costs nothing until
    then, and prompts are not padded, in favour of this baseline.

    Source: PagedAttention paper, section 6.1, baseline 1.
    """

    def _admit(self) -> None:
        if not self.running:
            super()._admit()
