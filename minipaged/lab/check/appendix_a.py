"""Lab: checks of appendix A's first exercises: static batches, and turns of users."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from minipaged.lab.check.verdict import Attempt, Rejected, exercise, short


@exercise
def static_steps(attempt: Attempt) -> None:
    """(answers, places) -> steps, idle places: batches that wait for their longest."""
    cases = [([5, 10, 3, 6, 4], 3), ([32, 2, 14, 32, 12, 2], 3), ([7], 4), ([2, 2], 1)]
    draw = Random(0)
    for _ in range(60):
        answers = [draw.randint(1, 30) for _ in range(draw.randint(1, 12))]
        cases.append((answers, draw.randint(1, 5)))
    found = [attempt(*case) for case in cases]
    for case, own in zip(cases, found, strict=True):
        right = _static(*case)
        if not isinstance(own, Sequence) or len(own) != 2:
            raise Rejected(f"{attempt.call(*case)}: return two numbers, got {own!r}")
        if tuple(own) != right:
            why = _why(STATIC_FLAWS, lambda flaw: [flaw(*c) for c in cases], found)
            said = f"{attempt.call(*case)}: got {tuple(own)}, expected {right}"
            raise Rejected(said + why)


def _static(answers: list[int], places: int) -> tuple[int, int]:
    batches = [answers[at : at + places] for at in range(0, len(answers), places)]
    steps = sum(map(max, batches))
    return steps, steps * places - sum(answers)


def _only_its_members(answers: list[int], places: int) -> tuple[int, int]:
    batches = [answers[at : at + places] for at in range(0, len(answers), places)]
    idle = sum(max(batch) * len(batch) - sum(batch) for batch in batches)
    return sum(map(max, batches)), idle


def _sorted(answers: list[int], places: int) -> tuple[int, int]:
    return _static(sorted(answers), places)


def _continuous(answers: list[int], places: int) -> tuple[int, int]:
    ends = [0] * places
    for answer in answers:
        ends[ends.index(min(ends))] += answer
    return max(ends), max(ends) * places - sum(answers)


STATIC_FLAWS = {
    "in the last batch, places without a user are idle, too": _only_its_members,
    "the batches are made in the order of the list, not by length": _sorted,
    "that is continuous batching: here nobody starts before all have ended": (
        _continuous
    ),
    "the other way round: first the steps": lambda *case: _static(*case)[::-1],
    "all answers are in one batch: there are only so many places": (
        lambda answers, places: (
            max(answers),
            max(answers) * places - sum(answers),
        )
    ),
    "if the list is emptied on the way, its sum is 0: add up first": (
        lambda answers, places: (
            _static(answers, places)[0],
            _static(answers, places)[0] * places,
        )
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
    found = [attempt(*case) for case in cases]
    for case, own in zip(cases, found, strict=True):
        right = _turns(*case)
        if not isinstance(own, Sequence) or isinstance(own, str):
            said = f"return a list of indices, got {short(own)}"
            raise Rejected(f"{attempt.call(*case)}: {said}")
        if list(own) != right:
            why = _why(TURN_FLAWS, lambda flaw: [flaw(*c) for c in cases], found)
            said = f"{attempt.call(*case)}: got {list(own)}, expected {right}"
            raise Rejected(said + why)
    return lambda: _what_turns_bring(attempt.function)


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


def _as_they_came(waiting: list[str], running: list[str], places: int) -> list[int]:
    return list(range(len(waiting)))[: max(0, places - len(running))]


def _without_those_who_run(
    waiting: list[str], running: list[str], places: int
) -> list[int]:
    """As if nobody had a place yet; but those who run count."""
    return _turns(waiting, running, places + len(running))


def _shifted(waiting: list[str], running: list[str], places: int) -> list[int]:
    """Indices in a list that gets shorter."""
    come = _turns(waiting, running, places)
    return [at - sum(one < at for one in come[:n]) for n, at in enumerate(come)]


TURN_FLAWS: dict[str, Callable[..., list]] = {
    "that is first come, first served: a hundred requests have a hundred turns": (
        _as_they_came
    ),
    "who was just let in runs, too: count it": (
        lambda *case: _turns(*case, counts_new=False)
    ),
    "those who run already count, too": (
        lambda *case: _turns(*case, counts_running=False)
    ),
    "the user of whom the fewest run comes first, not of whom the fewest wait": (
        lambda *case: _turns(*case, fewest_wait=True, counts_new=False)
    ),
    "among equals, whoever came first: the smallest index": (
        lambda *case: _turns(*case, is_first=False)
    ),
    "among equals, whoever came first, not the first in the alphabet": (
        lambda *case: _turns(*case, by_name=True)
    ),
    "while there is a place somebody comes in, also a second time": (
        lambda *case: _turns(*case, once=True)
    ),
    "those who run have places, so fewer are free": _without_those_who_run,
    "indices of the list as it was given: it must not get shorter on the way": (
        _shifted
    ),
    "the order in which they come in, not that of the list": (
        lambda *case: sorted(_turns(*case))
    ),
    "return indices of `waiting`, not users": (
        lambda waiting, running, places: [
            waiting[at] for at in _turns(waiting, running, places)
        ]
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


def _why(
    flaws: dict[str, Callable[..., Any]],
    answers: Callable[[Callable[..., Any]], list],
    found: list,
) -> str:
    """What to say of a mistake that gives the same answers in all cases."""
    for said, flaw in flaws.items():
        if [list(one) for one in answers(flaw)] == [list(one) for one in found]:
            return f"; {said}"
    return ""
