"""Lab: checks of appendix A's first exercises: static batches, and turns of users."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from minipaged.lab.check.diagnose import compare
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, short


@exercise
def static_steps(attempt: Attempt) -> None:
    """(answers, places) -> steps, idle places: batches that wait for their longest."""
    cases = [([5, 10, 3, 6, 4], 3), ([32, 2, 14, 32, 12, 2], 3), ([7], 4), ([2, 2], 1)]
    draw = Random(0)
    for _ in range(60):
        answers = [draw.randint(1, 30) for _ in range(draw.randint(1, 12))]
        cases.append((answers, draw.randint(1, 5)))
    compare(attempt, cases, _static, STATIC_FLAWS, read=_two_numbers)


def _two_numbers(found: Any) -> tuple:
    if not isinstance(found, Sequence) or len(found) != 2:
        raise Rejected(f"return two numbers, got {found!r}")
    return tuple(found)


def _static(answers: list[int], places: int) -> tuple[int, int]:
    batches = [answers[at : at + places] for at in range(0, len(answers), places)]
    steps = sum(map(max, batches))
    return steps, steps * places - sum(answers)


def _only_its_members(answers: list[int], places: int) -> tuple[int, int]:
    batches = [answers[at : at + places] for at in range(0, len(answers), places)]
    idle = sum(max(batch) * len(batch) - sum(batch) for batch in batches)
    return sum(map(max, batches)), idle


def _continuous(answers: list[int], places: int) -> tuple[int, int]:
    ends = [0] * places
    for answer in answers:
        ends[ends.index(min(ends))] += answer
    return max(ends), max(ends) * places - sum(answers)


STATIC_FLAWS = {
    "in the last batch, places without a user are idle, too": _only_its_members,
    "the batches are made in the order of the list, not by length": (
        lambda answers, places: _static(sorted(answers), places)
    ),
    "that is continuous batching: here nobody starts before all have ended": (
        _continuous
    ),
    "the other way round: first the steps": lambda *case: _static(*case)[::-1],
    "all answers are in one batch: there are only so many places": (
        lambda answers, places: (max(answers), max(answers) * places - sum(answers))
    ),
    "if the list is emptied on the way, its sum is 0: add up first": (
        lambda *case: (_static(*case)[0], _static(*case)[0] * case[1])
    ),
    "the step with the prompt brings the first token: n tokens take n steps": (
        lambda answers, places: _static([new - 1 for new in answers], places)
    ),
}


@exercise
def turns(attempt: Attempt) -> Callable[[], str]:
    """(waiting, running, places) -> who comes in: those of whom the fewest run."""
    draw, cases = Random(1), [("AAAAB", "A", 3), ("AB", "A", 2), ("BA", "", 4)]
    cases += [("ABAB", "", 2), ("", "AB", 3), ("AAB", "AAA", 3), ("AABBC", "B", 4)]
    for _ in range(80):
        users = "ABCDE"[: draw.randint(1, 5)]
        waiting = "".join(draw.choices(users, k=draw.randint(0, 7)))
        running = "".join(draw.choices(users, k=draw.randint(0, 5)))
        cases.append((waiting, running, len(running) + draw.randint(0, 6)))
    cases = [([*waiting], [*running], places) for waiting, running, places in cases]
    compare(attempt, cases, _turns, TURN_FLAWS, read=_indices, write=repr)
    return lambda: _what_turns_bring(attempt.function)


def _indices(found: Any) -> list:
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise Rejected(f"return a list of indices, got {short(found)}")
    return list(found)


def _turns(
    waiting: list[str],
    running: list[str],
    places: int,
    counts_running: bool = True,
    counts_new: bool = True,
    fewest_wait: bool = False,
    is_first: bool = True,
    by_name: bool = False,
    once: bool = False,
) -> list[int]:
    """The indices of those who come in, in order; the flags plant mistakes."""
    left, come = list(range(len(waiting))), []
    num = Counter(running if counts_running else ())
    wish = Counter(waiting)
    while left and len(running) + len(come) < places:
        if once:
            left = [at for at in left if waiting[at] not in {waiting[n] for n in come}]
            if not left:
                break

        def rank(at: int) -> tuple:
            user = waiting[at]
            number = wish[user] if fewest_wait else num[user]
            return number, user if by_name else at if is_first else -at

        come.append(min(left, key=rank))
        left.remove(come[-1])
        num[waiting[come[-1]]] += counts_new
    return come


def _shifted(waiting: list[str], running: list[str], places: int) -> list[int]:
    """Indices in a list that gets shorter."""
    come = _turns(waiting, running, places)
    return [at - sum(one < at for one in come[:n]) for n, at in enumerate(come)]


TURN_FLAWS: dict[str, Callable[..., list]] = {
    "that is first come, first served: a hundred requests have a hundred turns": (
        lambda waiting, running, places: list(range(len(waiting)))[
            : max(0, places - len(running))
        ]
    ),
    "who was just let in runs, too: count it": partial(_turns, counts_new=False),
    "those who run already count, too": partial(_turns, counts_running=False),
    "the user of whom the fewest run comes first, not of whom the fewest wait": (
        partial(_turns, fewest_wait=True, counts_new=False)
    ),
    "among equals, whoever came first: the smallest index": (
        partial(_turns, is_first=False)
    ),
    "among equals, whoever came first, not the first in the alphabet": (
        partial(_turns, by_name=True)
    ),
    "while there is a place somebody comes in, also a second time": (
        partial(_turns, once=True)
    ),
    "those who run have places, so fewer are free": (
        lambda waiting, running, places: _turns(waiting, running, places + len(running))
    ),
    "indices of the list as it was given: it must not get shorter on the way": (
        _shifted
    ),
    "the order in which they come in, not that of the list": (
        lambda *case: sorted(_turns(*case))
    ),
    "return indices of `waiting`, not users": (
        lambda waiting, *rest: [waiting[at] for at in _turns(waiting, *rest)]
    ),
}


def _what_turns_bring(rule: Callable[..., Sequence[int]]) -> str:
    """A sends twenty requests, then B sends a single one, to a server of two places."""
    waiting, running, step = [*"A" * 20, "B"], [], 0
    while "B" in waiting:
        step += 1
        come = rule(list(waiting), [user for user, _ in running], 2)
        running += [(waiting[at], step + 10) for at in come]
        waiting = [user for at, user in enumerate(waiting) if at not in come]
        running = [one for one in running if one[1] > step + 1]
    return (
        "A asks twenty times, then B once; two places, ten steps each: "
        f"B begins in step {step}, first come first served in step 101"
    )
