"""Lab: the check of appendix B's third exercise: a scheduler that preempts."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise, takewhile
from random import Random
from types import FrameType
from typing import Any

from minipaged.lab.check.diagnose import Case, telling, which, why
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many, short
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.request import Request
from minipaged.simulate.without_model import steps

Lengths = Sequence[tuple[int, int]]
MOST_LINES = 200_000  # that an attempt runs in a case; a right one needs a few thousand
_SCHEDULES = (
    ([(21, 24), (7, 2), (13, 14), (13, 24)], 16, 4),  # the appendix's four
    ([(5, 3)], 4, 4),
    ([(4, 1), (4, 1)], 2, 4),
    ([(4, 5), (4, 5)], 3, 4),
    ([(6, 6), (6, 6), (2, 2)], 5, 4),
    ([(1, 9), (1, 9), (1, 9)], 3, 3),
    ([(2, 3), (1, 4), (1, 4)], 3, 2),  # the last waits for one who was preempted
)


@exercise
def schedule(attempt: Attempt) -> Callable[[], str]:
    """(requests, num_blocks, block_size) -> who computes, in each step.

    Compared with the package's scheduler, to which the paper's rule is added.
    """
    for case in (*_SCHEDULES, *map(_random_case, range(40))):
        right, call = _by_package(*case), attempt.call(*case)
        with _an_end(call):
            found = attempt(*case)
        if found != right:
            with telling(call):
                _say_what_differs(found, right, case)

    def reward() -> str:
        steps = attempt.function(*_SCHEDULES[0])
        starts = [d for c, d in pairwise(steps) if 3 in d and 3 not in c]
        return (
            f"yours serves the appendix's four users in {len(steps)} steps, and brings "
            f"D back {'twice' if len(starts) == 2 else f'{len(starts)} times'}, as the "
            "package does: nobody new comes there, whom the paper's rule could stop"
        )

    return reward


def _say_what_differs(found: Any, right: list[list[int]], case: Case) -> None:
    """Raise Rejected with the first step that differs, and why it does."""
    if found is None:
        raise Rejected("got None; is a return missing?")
    if not isinstance(found, list):
        raise Rejected(f"expected a list of lists, got {short(found)}")
    lists = [id(own) for own in found if isinstance(own, list)]
    rules = {said: partial(_by_rules, **flags) for said, flags in _MISTAKES.items()}
    later = "each step needs a list of its own, which does not change later"
    mistakes = {later: len({*lists}) < len(lists)}
    told = why(found, mistakes | {which(rules, [(case, found)]): True})
    for step, (own, one) in enumerate(zip(found, right, strict=False), start=1):
        if own != one:
            said = f"in step {step}, {short(own)} compute, expected {short(one)}"
            raise Rejected(said + told)
    raise Rejected(f"{many(len(found), 'step')}, expected {len(right)}{told}")


@contextmanager
def _an_end(call: str) -> Iterator[None]:
    """Raise Rejected inside the `with` block once it has run too many lines."""
    left, before = MOST_LINES, sys.gettrace()

    def look(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0:
            why = "does who has ended give its blocks back?"
            raise Rejected(f"{call} does not end; {why}")
        return look

    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


def _random_case(seed: int) -> tuple[list[tuple[int, int]], int, int]:
    draw = Random(seed)
    size = draw.randint(1, 5)
    requests = [(draw.randint(1, 12), draw.randint(1, 9)) for _ in range(4)]
    most = max(-(-(prompt + new - 1) // size) for prompt, new in requests)
    return requests, most + draw.randint(0, most), size


class _Patient(PreemptingScheduler):
    """Who is new waits until all who were preempted have ended: the paper's rule."""

    def _may_start(self, request: Request, cached: list[int], num_blocks: int) -> bool:
        if not request.num_restarts and any(one.num_restarts for one in self.running):
            return False
        return super()._may_start(request, cached, num_blocks)


def _by_package(requests: Lengths, num_blocks: int, size: int) -> list[list[int]]:
    scheduler = _Patient(BlockPool(num_blocks, size))
    made = [Request([0] * prompt, new) for prompt, new in requests]
    for request in made:
        scheduler.add(request)
    plans = takewhile(lambda plan: plan.works, steps(scheduler))
    return [[made.index(work.request) for work in plan.works] for plan in plans]


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
    skips: bool = False,
    patient: bool = True,
) -> list[list[int]]:
    """The rules of the exercise, or with a mistake; IndexError if it never ends."""
    waiting, running, steps = deque(range(len(requests))), [], []
    said, held = [0] * len(requests), [0] * len(requests)
    preempted: set[int] = set()

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
            preempted.add(one)
            (waiting.appendleft if to_front else waiting.append)(one)
        soon = sum(map(wanted, running)) * runs_first
        while waiting:
            is_new = waiting[0] not in preempted
            if patient and is_new and preempted.intersection(running):
                break
            soon = soon * counts + wanted(waiting[0], more)
            if soon > free:
                break
            running.append(waiting.popleft())
        steps.append(list(running))
        if len(steps) > 1000 or not running:
            raise IndexError
        for one in running if skips else list(running):
            held[one] += wanted(one)
            said[one] += 1
            if said[one] == requests[one][1]:
                running.remove(one)
                held[one] = 0
    return steps


_MISTAKES = {
    "the latest goes, not the earliest": {"victim": 0},
    "who was preempted is first in line": {"to_front": False},
    "a request starts only if a token more fits, too": {"more": 0},
    "who is new waits until all who were preempted have ended, not only until they "
    "run again": {"patient": False},
    "the last token is never computed: it needs no slot": {"last": 0},
    "who comes back has its prompt and its answer to compute": {"keeps": False},
    "who starts is counted before the next one is let in": {"counts": False},
    "those who run come first: their wishes are counted before others start": {
        "runs_first": False
    },
    "it is certain, not hopeful: do not count what a request may become": {
        "promises": True
    },
    "removing from a list skips the next one; go through a copy": {"skips": True},
}
