"""The scheduler that preempts, driven at random like the certain one; no torch.

python -m helpers.preempting_machine 100000
"""

import sys
from functools import partial
from random import Random

from helpers import scheduling_machine
from helpers.scheduling_machine import HASHES, KINDS, SALTS, Machine, operate
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.preemption import PreemptingScheduler


class Shelf:
    """A swap space for what a machine's slots hold."""

    def __init__(self, machine: "PreemptingMachine", num_blocks: int):
        self.machine = machine
        self.pool = BlockPool(num_blocks, machine.pool.block_size)
        self.rows: dict[int, list[object]] = {}

    def store(self, block_ids):
        assert len(set(block_ids)) == len(block_ids), "a shared block is stored twice"
        assert len(block_ids) <= self.pool.num_free, "there are not so many rows"
        rows = [self.pool.allocate() for _ in block_ids]
        self.machine.pause()
        size, content = self.pool.block_size, self.machine.content
        for row, block in zip(rows, block_ids, strict=True):
            assert self.machine.pool.refcount(block), "its blocks are gone already"
            self.rows[row] = content[block * size : (block + 1) * size]
        self.machine.seen["stored"] += len(rows)
        return rows

    def load(self, rows, block_ids):
        size = self.pool.block_size
        for row, block in zip(rows, block_ids, strict=True):
            assert self.pool.refcount(row), "a row that somebody else may take"
            self.machine.content[block * size : (block + 1) * size] = self.rows[row]
            self.machine.pause()
        self.machine.seen["loaded"] += len(rows)


class Watch(Observer):
    """What must hold whenever blocks are taken, or somebody starts."""

    def __init__(self, machine: "PreemptingMachine"):
        self.machine = machine
        self.somebody_lost = False  # since the last plan was made

    def preempted(self, request):
        machine, scheduler = self.machine, self.machine.scheduler
        flying = [work.request for plan in scheduler.in_flight for work in plan.works]
        assert request not in flying, "its blocks are being computed"
        assert not request.holds_blocks, "a part of it is left"
        assert scheduler.waiting[0] is request, "it is not first in line"
        assert scheduler.running, "nobody goes on"
        for other in scheduler.running:
            assert machine.is_older(other, request), "it was not the latest"
        machine.seen["swapped" if request.swapped else "recomputed"] += 1
        machine.seen["groups"] += len(request.live) > 1
        self.somebody_lost = True

    def admitted(self, request):
        assert not self.somebody_lost, "it came where somebody had to leave"
        self.machine.seen["came back"] += request.num_restarts > 0

    def planned(self, plan):
        self.somebody_lost = False


class PreemptingMachine(Machine):
    """A machine whose requests start early, and may have to start again."""

    def __init__(
        self, num_blocks, block_size, hash_function=None, num_rows=0, **budget
    ):
        super().__init__(num_blocks, block_size, hash_function)
        self.shelf = Shelf(self, num_rows) if num_rows else None
        self.watch = Watch(self)
        self.scheduler = PreemptingScheduler(
            self.pool, self.prefix, swap_space=self.shelf, **budget
        )
        self.scheduler.observers.append(self.watch)

    def preempt(self):
        """The latest one loses its blocks, although there is room enough."""
        running, flying = self.scheduler.running, self.scheduler.in_flight
        if len(running) > 1 and running[-1].live and not flying:
            self.scheduler.preempt(running[-1])
            self.watch.somebody_lost = False  # it may come back at once
        self.check()

    def step(self, *arguments, **options):
        self.watch.somebody_lost = False  # an interrupted step made no plan
        super().step(*arguments, **options)

    @property
    def spare(self):
        """What others may take, so that each request still fits alone."""
        worst = max((self.worst[one] for one in self.requests), default=0)
        left = self.pool.num_blocks - worst - len(self.theirs)
        return max(0, min(self.pool.num_free, left))

    def check(self):
        super().check()
        scheduler = self.scheduler
        running = sum(one.num_parallel for one in scheduler.running)
        alone = len(scheduler.running) == 1
        assert alone or running <= scheduler.max_sequences, "too many at one time"
        if self.shelf:
            self.check_rows_of_shelf()

    def check_rows_of_shelf(self):
        """Whoever waits with a record has rows of its own; others' are tidied up."""
        waiting = self.scheduler.waiting
        own = [one.swapped.places for one in waiting if one.swapped]
        rows = [row for places in own for row in set().union(*places)]
        assert len(rows) == len(set(rows)), "rows of two"
        assert all(self.shelf.pool.refcount(row) == 1 for row in rows), "lost rows"

    def drain(self):
        super().drain()
        if self.shelf:
            self.scheduler._tidy_swap_space()
            assert self.shelf.pool.num_free == self.shelf.pool.num_blocks, "rows leak"


def random_machine(random: Random) -> PreemptingMachine:
    """Small, so that blocks run out often."""
    budget = {}
    if random.random() < 0.3:
        budget["max_prompt_tokens"] = random.randint(1, 8)
    if random.random() < 0.3:
        budget["max_tokens"] = random.randint(3, 12)
    if random.random() < 0.3:
        budget["max_sequences"] = random.randint(1, 6)
    if random.random() < 0.6:
        budget["num_rows"] = random.randint(1, 20)
    hash_function = random.choice([None, None, *HASHES])
    size = random.randint(1, 3)
    return PreemptingMachine(random.randint(6, 16), size, hash_function, **budget)


def operate_tightly(machine: PreemptingMachine, random: Random) -> None:
    """One operation; many are long answers to short prompts: they start, then grow."""
    if random.random() < 0.4 and len(machine.requests) < 6:
        prompt = [random.randint(0, 1) for _ in range(random.randint(1, 3))]
        kind, length = random.choice(list(KINDS)), random.randint(6, 24)
        machine.add(kind, prompt, length, random.randint(2, 3), random.choice(SALTS))
    elif random.random() < 0.02:
        machine.preempt()
    elif random.random() < 0.6:
        machine.step(random.random() < 0.3)
    else:
        operate(machine, random)


run_operations = partial(
    scheduling_machine.run_operations, make=random_machine, operate=operate_tightly
)


if __name__ == "__main__":
    print(dict(run_operations(0, int(sys.argv[1]))))
