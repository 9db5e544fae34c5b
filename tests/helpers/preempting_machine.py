"""The scheduler that preempts, driven at random like the certain one; no torch.

python -m helpers.preempting_machine 100000
"""

import sys
from random import Random

from helpers.scheduling_machine import HASHES, Machine, operate
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.preemption import PreemptingScheduler


class Shelf:
    """A swap space for a machine's contents."""

    def __init__(self, machine, num_blocks):
        self.machine = machine
        self.pool = BlockPool(num_blocks, machine.pool.block_size)
        self.rows = {}

    def store(self, block_ids):
        rows = [self.pool.allocate() for _ in block_ids]
        size, content = self.pool.block_size, self.machine.content
        for row, block in zip(rows, block_ids, strict=True):
            self.rows[row] = content[block * size : (block + 1) * size]
        self.machine.seen["stored"] += len(rows)
        return rows

    def load(self, rows, block_ids):
        size = self.pool.block_size
        for row, block in zip(rows, block_ids, strict=True):
            self.machine.content[block * size : (block + 1) * size] = self.rows[row]
        self.machine.seen["loaded"] += len(rows)


class PreemptingMachine(Machine):
    """A machine whose requests start early, and may have to start again."""

    def __init__(
        self, num_blocks, block_size, hash_function=None, num_rows=0, **budget
    ):
        super().__init__(num_blocks, block_size, hash_function)
        self.shelf = Shelf(self, num_rows) if num_rows else None
        self.scheduler = PreemptingScheduler(
            self.pool, self.prefix, swap_space=self.shelf, **budget
        )
        self.scheduler.observers.append(self)

    def __getattr__(self, event):
        """Other events of an observer."""
        if event.startswith("_"):
            raise AttributeError(event)
        return lambda *arguments: None

    def preempted(self, request):
        self.seen["swapped" if request.swapped else "recomputed"] += 1
        assert request is not self.scheduler.running[0], "the earliest lost its blocks"
        assert not request.holds_blocks, "a part of it is left"

    @property
    def spare(self):
        """What others may take, so that each request still fits alone."""
        worst = max((self.worst[one] for one in self.requests), default=0)
        return max(
            0, min(self.pool.num_free, self.pool.num_blocks - worst - len(self.theirs))
        )

    def check(self):
        super().check()
        running = sum(one.num_parallel for one in self.scheduler.running)
        assert running <= self.scheduler.max_sequences or (
            len(self.scheduler.running) == 1
        ), "too many at one time"
        if self.shelf:
            own = [one.swapped for one in self.scheduler.waiting if one.swapped]
            rows = [row for one in own for row in set().union(*one.places)]
            assert len(rows) == len(set(rows)), "rows of two"
            assert all(self.shelf.pool.refcount(row) == 1 for row in rows), "lost rows"
            taken = self.shelf.pool.num_blocks - self.shelf.pool.num_free
            assert self.robbed or taken >= len(rows)


def random_machine(random: Random) -> PreemptingMachine:
    """Small, so that blocks run out often."""
    budget = {}
    if random.random() < 0.5:
        budget["max_prompt_tokens"] = random.randint(1, 8)
    if random.random() < 0.5:
        budget["max_tokens"] = random.randint(1, 12)
    if random.random() < 0.5:
        budget["max_sequences"] = random.randint(1, 6)
    if random.random() < 0.6:
        budget["num_rows"] = random.randint(1, 20)
    hash_function = random.choice([None, *HASHES, *HASHES])
    size = random.randint(1, 4)
    return PreemptingMachine(random.randint(3, 20), size, hash_function, **budget)


def run_operations(seed: int, count: int, each: int = 80):
    """So many operations, with a new machine after `each`; returns what was seen."""
    from collections import Counter

    random, seen = Random(seed), Counter()
    for done in range(0, count, each):
        machine = random_machine(random)
        for _ in range(min(each, count - done)):
            operate(machine, random)
        machine.drain()
        if machine.shelf:
            machine.scheduler._tidy_swap_space()
        seen += machine.seen
    return seen


if __name__ == "__main__":
    print(dict(run_operations(0, int(sys.argv[1]))))
