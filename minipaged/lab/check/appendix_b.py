"""Lab: checks of appendix B's exercises: who goes, a group swapped, a scheduler."""

from collections import deque
from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any

from minipaged.errors import OutOfBlocks
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, expect, many, short
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.request import Request

# --- 1: who must go -------------------------------------------------------------------


@exercise
def num_preempted(attempt: Attempt) -> None:
    """(held, wanted, free) -> how many of the latest must go."""
    sizes = [(3, 4, 4), (9, 2), (5,), (2, 2, 2, 2), (1, 6, 1)]
    cases = [
        (list(held), list(wanted), free)
        for held in sizes
        for wanted in product((0, 1, 2), repeat=len(held))
        for free in (0, 1, 3)
    ]
    answers = {name: [rule(*case) for case in cases] for name, rule in _RULES.items()}
    found = []
    for case, right in zip(cases, answers["right"], strict=True):
        found.append(attempt(*case))
        if found[-1] != right:
            count = len(found)
            same = (n for n, own in answers.items() if own[:count] == found)
            said = _what_is_told(found[-1], next(same, ""))
            try:
                expect(attempt.call(*case), found[-1], right)
            except Rejected as error:
                raise Rejected(f"{error}{said}") from None


def _what_is_told(found: Any, name: str) -> str:
    if isinstance(found, list | tuple):
        return "; return how many go, not which"
    return f"; {name}" if name else ""


def _goes(
    held: Sequence[int],
    wanted: Sequence[int],
    free: int,
    *,
    frees: bool = True,
    drops_wish: bool = True,
    spares_first: bool = True,
    earliest: bool = False,
) -> int:
    """How many go, by the right rule or by a wrong one."""
    held, wanted, count = list(held), list(wanted), 0
    total = sum(wanted)
    while held and total > free:
        if spares_first and len(held) == 1:
            break
        at = 0 if earliest else -1
        blocks, wish = held.pop(at), wanted.pop(at)
        free += blocks * frees
        total -= wish * drops_wish
        count += 1
    return count


_RULES = {
    "right": _goes,
    "the blocks of those who go are free for the others": lambda h, w, f: _goes(
        h, w, f, frees=False
    ),
    "who goes wants nothing any more": lambda h, w, f: _goes(h, w, f, drops_wish=False),
    "the earliest always stays, so that somebody goes on": lambda h, w, f: _goes(
        h, w, f, spares_first=False
    ),
    "the latest go, which stand last; not the earliest": lambda h, w, f: _goes(
        h, w, f, earliest=True
    ),
    "it fits if as many are wanted as are free": lambda h, w, f: _goes(h, w, f - 1),
    "only as many go as must": lambda h, w, f: (len(h) - 1) * (sum(w) > f),
    "one may not be enough": lambda h, w, f: min(1, _goes(h, w, f)),
    "that is the number of blocks that are missing": lambda h, w, f: max(0, sum(w) - f),
}

# --- 2: a group is swapped out --------------------------------------------------------

# Block ids by table, of a group; the same number is the same block.
_GROUPS = (
    ([0, 1, 2],),
    ([0, 1], [0, 1]),
    ([0, 1, 2], [0, 1, 3]),
    ([0], [1, 2]),
    ([3, 1], [3, 0], [3, 1, 2]),
    ([],),
)


@exercise
def swap_out(attempt: Attempt) -> None:
    """(tables, rows, store) -> places: a group leaves the pool, shared blocks once."""
    for group, num_other, spare in product(_GROUPS, (0, 2), (4, 0)):
        _Leaving(attempt, group, num_other, spare).goes()
    for group in _GROUPS[:5]:
        wanted = len({block for own in group for block in own})
        _Leaving(attempt, group, 1, 0).refuses(wanted)


class _Leaving:
    """One case: a group's tables in a pool, and rows to store blocks in."""

    def __init__(
        self, attempt: Attempt, group: Sequence[list[int]], num_other: int, spare: int
    ):
        self.attempt, self.group, self.stored = attempt, group, []
        self.pool, size = BlockPool(16, 4), 4
        self.pool.allocate()  # somebody else's
        ids: dict[int, int] = {}
        self.tables = []
        for own in group:
            held = []
            for number in own:
                if number in ids:
                    held.append(self.pool.share(ids[number]))
                else:
                    held.append(ids.setdefault(number, self.pool.allocate()))
            self.tables.append(BlockTable(self.pool, held, size * len(held)))
        self.held = [list(table.block_ids) for table in self.tables]
        self.num_blocks = len(ids)
        self.outside = num_other and bool(ids)  # a holder who is no part of the group
        if self.outside:
            self.pool.share(next(iter(ids.values())))
        self.rows = BlockPool(self.num_blocks + spare + 2, 4)
        for _ in range(2):  # another group's
            self.rows.allocate()
        self.story = f"a group with the blocks {self.held}, {self.num_blocks} in all"

    def store(self, block_id: int, row: int) -> None:
        """The reader's K and V move."""
        self.stored.append((block_id, row))
        if self.pool.refcount(block_id) == 0:
            raise Rejected(
                f"{self.story}: block {block_id} is stored when nobody holds it any "
                "more; store first, then free"
            )
        if self.rows.refcount(row) == 0:
            raise Rejected(
                f"{self.story}: block {block_id} goes to row {row}, which is free; "
                "rows.allocate() gives a row"
            )

    def reject(self, said: str) -> None:
        raise Rejected(f"{self.story}: {said}")

    def goes(self) -> None:
        """There are rows enough."""
        free = self.rows.num_free
        try:
            places = self.attempt.shared(self.tables, self.rows, self.store)
        except Rejected as error:
            if isinstance(error.__cause__, OutOfBlocks):
                said = f"refused, but {many(self.num_blocks, 'row')} are enough"
                self.reject(f"{said}; {free} are free; a shared block needs one row")
            raise
        self.stored_once()
        self.places_are_right(places)
        expect(f"{self.story}: rows taken", free - self.rows.num_free, self.num_blocks)
        kept = [table for table in self.tables if table.block_ids]
        if kept:
            self.reject(f"a table still has the blocks {kept[0].block_ids}; free it")
        right = self.pool.num_blocks - 1 - bool(self.outside)
        if (now := self.pool.num_free) != right:
            self.reject(f"{many(now, 'block')} free afterwards, expected {right}")

    def stored_once(self) -> None:
        blocks = [block for block, _ in self.stored]
        twice = next((block for block in blocks if blocks.count(block) > 1), None)
        if twice is not None:
            self.reject(f"block {twice} is stored more than once; it is shared: once")
        missing = {block for own in self.held for block in own} - set(blocks)
        if missing:
            self.reject(f"block {min(missing)} is never stored")

    def places_are_right(self, places: Any) -> None:
        if places is None:
            self.reject("got None, expected a list of rows for each table")
        row_of = dict(self.stored)
        right = [[row_of[block] for block in own] for own in self.held]
        try:
            found = [list(own) for own in places]
        except TypeError:
            found = places
        if found != right:
            said = f"returned {short(places)}, expected {short(right)}"
            said += "; the rows of each table, in the order of its blocks"
            self.reject(said)

    def refuses(self, wanted: int) -> None:
        """A row too few."""
        self.rows.allocate()
        free = self.rows.num_free
        try:
            self.attempt.shared(self.tables, self.rows, self.store)
        except Rejected as error:
            if not isinstance(error.__cause__, OutOfBlocks):
                raise
            said = error.__cause__.wanted
        else:
            self.reject(f"{free} rows free, and no OutOfBlocks was raised")
        if [table.block_ids for table in self.tables] != self.held:
            self.reject("rightly refused, but tables were freed; count first")
        if self.rows.num_free != free:
            self.reject("rightly refused, but rows were taken; count first")
        if said != wanted:
            said = f"rightly refused, but the error says {said} wanted, not {wanted}"
            self.reject(said)


# --- 3: a scheduler -------------------------------------------------------------------

Lengths = Sequence[tuple[int, int]]
_SCHEDULES = (
    ([(21, 24), (7, 2), (13, 14), (13, 24)], 16, 4),  # the appendix's four
    ([(5, 3)], 4, 4),
    ([(4, 1), (4, 1)], 2, 4),
    ([(4, 5), (4, 5)], 3, 4),
    ([(6, 6), (6, 6), (2, 2)], 5, 4),
    ([(1, 9), (1, 9), (1, 9)], 3, 3),
)


@exercise
def schedule(attempt: Attempt) -> None:
    """(requests, num_blocks, block_size) -> who computes, in each step.

    Compared with the package's scheduler.
    """
    for case in (*_SCHEDULES, *map(_random_case, range(40))):
        right, found = _by_package(*case), attempt(*case)
        if found == right:
            continue
        call = attempt.call(*case)
        if found is None:
            raise Rejected(f"{call}: got None; is a return missing?")
        why = _why_scheduled_so(found, case)
        if not isinstance(found, list):
            raise Rejected(f"{call}: expected a list of lists, got {short(found)}")
        pairs = enumerate(zip(found, right, strict=False), start=1)
        step = next((at for at, (own, one) in pairs if own != one), None)
        if step is None:
            said = f"{many(len(found), 'step')}, expected {len(right)}"
            raise Rejected(f"{call}: {said}{why}")
        said = f"in step {step}, {short(found[step - 1])} compute, expected "
        raise Rejected(f"{call}: {said}{short(right[step - 1])}{why}")


def _random_case(seed: int) -> tuple[list[tuple[int, int]], int, int]:
    draw = Random(seed)
    size = draw.randint(1, 5)
    requests = [(draw.randint(1, 12), draw.randint(1, 9)) for _ in range(4)]
    most = max(-(-(prompt + new - 1) // size) for prompt, new in requests)
    return requests, most + draw.randint(0, most), size


def _by_package(requests: Lengths, num_blocks: int, size: int) -> list[list[int]]:
    scheduler = PreemptingScheduler(BlockPool(num_blocks, size))
    made = [Request([0] * prompt, new) for prompt, new in requests]
    for request in made:
        scheduler.add(request)
    steps = []
    while scheduler.waiting or scheduler.running:
        plan = scheduler.schedule()
        steps.append([made.index(work.request) for work in plan.works])
        for work in plan.works:
            work.sequence.append(0)
            if work.sequence.num_new == work.request.max_new_tokens:
                work.sequence.end("length")
        scheduler.commit(plan)
    return steps


_MISTAKES = {
    "the latest goes, not the earliest": {"victim": 0},
    "who was preempted is first in line": {"to_front": False},
    "a request starts only if a token more fits, too": {"more": 0},
    "the last token is never computed: it needs no slot": {"last": 0},
    "who comes back has its prompt and its answer to compute": {"keeps": False},
    "who starts is counted before the next one is let in": {"counts": False},
    "those who run come first: their wishes are counted before others start": {
        "runs_first": False
    },
    "it is certain, not hopeful: do not count what a request may become": {
        "promises": True
    },
}


def _why_scheduled_so(found: Any, case: tuple[Lengths, int, int]) -> str:
    for why, mistake in _MISTAKES.items():
        try:
            if _by_rules(*case, **mistake) == found:
                return f"; {why}"
        except IndexError:  # this mistake runs out of blocks here
            continue
    return ""


def _by_rules(
    requests: Lengths,
    num_blocks: int,
    size: int,
    *,
    victim: int = -1,
    to_front: bool = True,
    more: int = 1,
    last: int = 1,
    keeps: bool = True,
    counts: bool = True,
    runs_first: bool = True,
    promises: bool = False,
) -> list[list[int]]:
    """The rules of the exercise, or with a mistake; IndexError if it never ends."""
    waiting, running, steps = deque(range(len(requests))), [], []
    said, held = [0] * len(requests), [0] * len(requests)

    def wanted(one: int, extra: int = 0) -> int:
        prompt, new = requests[one]
        tokens = prompt + new if promises else prompt + said[one] + extra
        return max(0, -(-min(tokens, prompt + new - last) // size) - held[one])

    while waiting or running:
        free = num_blocks - sum(held)
        while sum(map(wanted, running)) > free and len(running) > 1:
            one = running.pop(victim)
            free, held[one] = free + held[one], 0
            said[one] *= keeps
            (waiting.appendleft if to_front else waiting.append)(one)
        soon = sum(map(wanted, running)) * runs_first
        while waiting:
            soon = soon * counts + wanted(waiting[0], more)
            if soon > free:
                break
            running.append(waiting.popleft())
        steps.append(list(running))
        if len(steps) > 1000 or not running:
            raise IndexError
        for one in running:
            held[one] += wanted(one)
            said[one] += 1
        for one in [one for one in running if said[one] == requests[one][1]]:
            running.remove(one)
            held[one] = 0
    return steps
