"""Lab: the check of lesson 4's first exercise: when a beam search stops."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from operator import ge, gt, le, lt

from minipaged.lab.check.diagnose import Rule, ask_each, diagnose, equal, which
from minipaged.lab.check.verdict import Attempt, exercise

Case = tuple[list[float], int, float, int, int, float, bool | str]
BEST_SUM, NUM_NEW, LONGEST = -4.0, 4, 16  # all scores below are exact in binary


@exercise
def is_done(attempt: Attempt) -> None:
    """(kept, k, best_sum, n, longest, alpha, early_stopping) -> has the search ended?

    With every value of early_stopping, with scores of the worst answer on both sides
    of the running beam's, and equal to it.
    """
    answers = ask_each(attempt, [*_cases()], must_stop)
    for case, found in answers:
        if not equal(found, right := must_stop(*case)):
            few = {"with fewer than k answers it goes on": len(case[0]) < case[1]}
            usual = {which(USUAL, answers): True}
            diagnose(attempt.call(*case), found, right, usual | few)


def must_stop(
    kept: Sequence[float],
    k: int,
    best_sum: float,
    n: int,
    longest: int,
    alpha: float,
    early_stopping: bool | str,
    is_no_better: Rule = le,
    lifts_all: bool = False,
) -> bool:
    """The rule. kept: scores of the answers kept, best first; n: tokens now.

    The last two plant mistakes.
    """
    if len(kept) < k:
        return False
    if early_stopping is True:
        return True
    lifted = early_stopping == "never" and (alpha > 0 or lifts_all)
    return is_no_better(best_sum / (longest if lifted else n) ** alpha, kept[-1])


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
        partial(must_stop, lifts_all=True)
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
    "divide by length ** alpha, not by the length": (
        lambda *case: must_stop(*case[:5], 1.0, case[6])
    ),
    "True means that the search stops: the comparison is turned round": (
        partial(must_stop, is_no_better=gt)
    ),
    '"never" stops, too, if nothing better is possible': (
        lambda *case: case[-1] != "never" and must_stop(*case)
    ),
    "it goes on if the beam is better than the worst answer kept": (
        partial(must_stop, is_no_better=ge)
    ),
    "with equal scores it stops: the beam is no better": (
        partial(must_stop, is_no_better=lt)
    ),
}
