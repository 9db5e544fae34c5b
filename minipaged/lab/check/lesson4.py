"""Lab: the check of lesson 4's first exercise: when a beam search stops."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product

from minipaged.lab.check.verdict import Attempt, Rejected, exercise, expect

Rule = Callable[[Sequence[float], int, float, int, int, float, bool | str], bool]
Case = tuple[list[float], int, float, int, int, float, bool | str]
BEST_SUM, NUM_NEW, LONGEST = -4.0, 4, 16  # all scores below are exact in binary


@exercise
def is_done(attempt: Attempt) -> None:
    """(kept, k, best_sum, n, longest, alpha, early_stopping) -> has the search ended?

    With every value of early_stopping, with scores of the worst answer on both sides
    of the running beam's, and equal to it.
    """
    for case in _cases():
        found = attempt(*case)
        try:
            expect(attempt.call(*case), found, must_stop(*case))
        except Rejected as error:
            why = _why_wrong(attempt)
            if not why and len(case[0]) < case[1]:
                why = "; with fewer than k answers it goes on"
            raise Rejected(f"{error}{why}") from None


def must_stop(
    kept: Sequence[float],
    k: int,
    best_sum: float,
    n: int,
    longest: int,
    alpha: float,
    early_stopping: bool | str,
) -> bool:
    """The rule. kept: scores of the answers kept, best first; n: tokens now."""
    if len(kept) < k:
        return False
    if early_stopping is True:
        return True
    lifted = early_stopping == "never" and alpha > 0
    return best_sum / (longest if lifted else n) ** alpha <= kept[-1]


def _cases() -> Iterator[Case]:
    for alpha, way in product((1.0, 2.0, 0.5, 0.0, -1.0), (False, True, "never")):
        now, later = (BEST_SUM / length**alpha for length in (NUM_NEW, LONGEST))
        low, high = sorted((now, later))
        # Best sums of texts that end one token sooner, or in as many as are left
        near = (BEST_SUM / length**alpha for length in (LONGEST - 1, LONGEST - NUM_NEW))
        near = ((later + score) / 2 for score in near)
        for worst in (low, high, (low + high) / 2, 2 * low, high / 2, *near):
            for kept, k in (
                ([worst], 1),
                ([high / 4, worst], 2),
                ([high / 4], 2),
                ([], 1),
            ):
                yield kept, k, BEST_SUM, NUM_NEW, LONGEST, alpha, way


def _why_wrong(attempt: Attempt) -> str:
    """The mistake that gives all its answers, if it is a usual one."""
    answers = {}
    for case in _cases():
        with suppress(Exception):  # by alpha = 0, say, nothing can be divided
            answers[(*case[0],), *case[1:]] = bool(attempt.function(*case))
    for said, rule in USUAL.items():
        if answers and all(rule(*case) == one for case, one in answers.items()):
            return f"; {said}"
    return ""


def _with_answers(stops: Rule) -> Rule:
    """The mistake where as many answers as wanted are kept; else the search goes on."""
    return lambda kept, k, *rest: len(kept) == k and stops(kept, k, *rest)


USUAL: dict[str, Rule] = {  # what to say of a mistake, and what it answers
    "that says whether the search goes on": lambda *case: not must_stop(*case),
    "with fewer than k answers it goes on": (
        lambda kept, k, *rest: bool(kept) and must_stop(kept, len(kept), *rest)
    ),
    "with fewer than k answers it goes on, whatever else is asked for": (
        lambda kept, k, *rest: (
            rest[-1] is True or (bool(kept) and must_stop(kept, len(kept), *rest))
        )
    ),
    "with fewer than k answers it goes on, also with True": (
        lambda kept, k, *rest: rest[-1] is True or must_stop(kept, k, *rest)
    ),
    'the text "never" counts as true: ask whether it `is True`': _with_answers(
        lambda *case: bool(case[-1]) or must_stop(*case)
    ),
    '"never" is not False: it takes the best possible length': _with_answers(
        lambda *case: must_stop(*case[:-1], case[-1] is True)
    ),
    "False takes the present length, L": _with_answers(
        lambda *case: must_stop(*case[:-1], case[-1] or "never")
    ),
    'the longest is the best length for alpha > 0 only, also with "never"': (
        _with_answers(
            lambda kept, k, best, n, longest, alpha, way: (
                way is True
                or best / (longest if way == "never" else n) ** alpha <= kept[-1]
            )
        )
    ),
    "the beam must beat the worst answer kept, not the best": _with_answers(
        lambda kept, *rest: must_stop(kept[:1] * len(kept), *rest)
    ),
    "compare scores: the sum must be divided by length ** alpha": _with_answers(
        lambda kept, k, best, n, longest, alpha, way: way is True or best <= kept[-1]
    ),
    "the length is raised to the power alpha: length ** alpha": _with_answers(
        lambda kept, k, best, n, longest, alpha, way: (
            way is True
            or best / ((longest if way == "never" and alpha > 0 else n) * alpha or 1)
            <= kept[-1]
        )
    ),
    "divide by length ** alpha, not by the length": _with_answers(
        lambda kept, k, best, n, longest, alpha, way: must_stop(
            kept, k, best, n, longest, 1.0, way
        )
    ),
    "True means that the search stops: the comparison is turned round": _with_answers(
        lambda kept, k, best, n, longest, alpha, way: (
            way is True
            or best / (longest if way == "never" and alpha > 0 else n) ** alpha
            > kept[-1]
        )
    ),
    '"never" stops, too, if nothing better is possible': _with_answers(
        lambda *case: case[-1] != "never" and must_stop(*case)
    ),
    "it goes on if the beam is better than the worst answer kept": _with_answers(
        lambda kept, k, best, n, longest, alpha, way: (
            way is True
            or best / (longest if way == "never" and alpha > 0 else n) ** alpha
            >= kept[-1]
        )
    ),
    "with equal scores it stops: the beam is no better": _with_answers(
        lambda kept, k, best, n, longest, alpha, way: (
            way is True
            or best / (longest if way == "never" and alpha > 0 else n) ** alpha
            < kept[-1]
        )
    ),
}
