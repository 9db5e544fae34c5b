"""Lab: a real pool under a real scheduler, moved step by step, without a model."""

from dataclasses import dataclass

from minipaged.lab.pool.board import Board
from minipaged.lab.pool.lanes import Lanes, Reached
from minipaged.lab.pool.names import Names
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence
from minipaged.simulate.without_model import Places, steps


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
        space = Places(serving.num_places, block_size) if serving.num_places else None
        self.reached = Reached()
        self.scheduler = PreemptingScheduler(
            self.pool, max_tokens=serving.max_tokens, swap_space=space
        )
        self.scheduler.observers.append(self.reached)
        self._steps = steps(self.scheduler)
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
        self._arrived.update(self.scheduler.waiting)
        self.plan = next(self._steps)
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
