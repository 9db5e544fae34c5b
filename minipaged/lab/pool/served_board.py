"""Lab: a real pool under a real scheduler, moved step by step, without a model."""

from dataclasses import dataclass

from minipaged.lab.measure.without_model import answer_all
from minipaged.lab.pool.board import Board
from minipaged.lab.pool.lanes import Lanes, Reached
from minipaged.lab.pool.names import Names
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence


@dataclass(frozen=True)
class Serving:
    """What an engine of a scene is made with."""

    max_tokens: int = 64  # computed in a step
    num_places: int | None = None  # blocks in the CPU's memory; None: no swapping


class ServedBoard(Board):
    """A pool whose requests start, wait and are preempted as the scheduler decides.

    Its moves are `arrive` and `step`. Nothing is computed: every token is a 0. So the
    blocks are those of any model, for scheduling looks at numbers of tokens alone.
    """

    def __init__(self, num_blocks: int, block_size: int, serving: Serving):
        """An empty pool, and nobody waits."""
        super().__init__(num_blocks, block_size)
        space = _Places(serving, block_size) if serving.num_places else None
        self.reached = Reached()
        self.scheduler = PreemptingScheduler(
            self.pool, max_tokens=serving.max_tokens, swap_space=space
        )
        self.scheduler.observers.append(self.reached)
        self.requests: dict[str, Request] = {}
        self.plan: Plan | None = None  # the step that is computed now
        self._arrived: set[Request] = set()  # before the present step was planned
        self._letters: dict[Sequence, str] = {}
        self._new_names = Names()

    def arrive(self, num_tokens: int, num_new: int) -> None:
        """A request comes, with a prompt of so many tokens; it wants so many more."""
        request = Request([0] * num_tokens, num_new)
        name = self._new_names.new(self.requests)
        self.requests[name], self._letters[request.sequences[0]] = request, name
        self.scheduler.add(request)

    def step(self) -> None:
        """End the step that is computed, and plan the next: tables grow for it."""
        if self.plan is not None:
            answer_all(self.plan)
            self.scheduler.commit(self.plan)
        scheduler = self.scheduler
        self._arrived.update(scheduler.waiting)
        is_more = scheduler.waiting or scheduler.running
        self.plan = scheduler.schedule() if is_more else None
        self.sequences = {
            name: request.sequences[0]
            for name, request in self.requests.items()
            if request.sequences[0].table is not None
        }

    def snapshot(self) -> Snapshot:
        """What there is to see now."""
        lanes = Lanes.take(
            self.scheduler,
            self._letters,
            self.reached,
            self.plan,
            self._arrived.__contains__,
        )
        tables = {name: one.table for name, one in self.sequences.items()}
        return Snapshot.take(self.pool, tables, lanes=lanes)

    def _sequence(self, name: str) -> Sequence:
        raise ValueError("who gets blocks here is decided by the scheduler alone")

    def _check_room(self, num_more: int) -> None:
        self._sequence("")  # no sequence starts by hand, either


class _Places:
    """A SwapSpace that counts places and keeps no K and V: here there are none."""

    def __init__(self, serving: Serving, block_size: int):
        """All places are free."""
        self.pool = BlockPool(serving.num_places, block_size)

    def store(self, block_ids: list[int]) -> list[int]:
        """Take a place for each; the scheduler has asked whether there are so many."""
        return [self.pool.allocate() for _ in block_ids]

    def load(self, places: list[int], block_ids: list[int]) -> None:
        """Bring nothing back; the places stay taken, as those of a SwapSpace do."""
