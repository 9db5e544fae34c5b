"""Lab: checks of appendix A's first exercises: static batches, plans in a budget."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from minipaged.lab.check.verdict import Attempt, Rejected, exercise


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
def step_plan(attempt: Attempt) -> None:
    """(running, budget) -> tokens of each: those that decode first, then prompts."""
    draw, cases = Random(1), [([(21, 21), (0, 40), (9, 7), (4, 13)], 16)]
    cases += [([(0, 40)], 16), ([(7, 7), (8, 7)], 2), ([(0, 3), (0, 3), (5, 5)], 4)]
    for _ in range(80):
        count, running = draw.randint(1, 6), []
        for _ in range(count):
            prompt = draw.randint(1, 30)
            running.append((draw.choice([0, draw.randint(0, 40)]), prompt))
        cases.append((running, draw.randint(count, 40)))
    found = [attempt(*case) for case in cases]
    for case, own in zip(cases, found, strict=True):
        right = plan_of(*case)
        is_list = isinstance(own, Sequence) and len(own) == len(right)
        if not is_list:
            said = f"return a number of tokens for each of {len(right)}, got {own!r}"
            raise Rejected(f"{attempt.call(*case)}: {said}")
        if list(own) != right:
            why = _why(PLAN_FLAWS, lambda flaw: [flaw(*c) for c in cases], found)
            said = f"{attempt.call(*case)}: got {list(own)}, expected {right}"
            raise Rejected(said + why)


def plan_of(
    running: list[tuple[int, int]],
    budget: int,
    prompts_first: bool = False,
    in_order: bool = False,
    per_prompt: bool = False,
    whole: bool = False,
    skips_decodes: bool = False,
) -> list[int]:
    """How many tokens each computes; the flags plant mistakes."""
    plan, left = [0] * len(running), budget
    order = list(range(len(running)))
    if not in_order:
        order.sort(key=lambda at: (running[at][0] < running[at][1]) != prompts_first)
    for at in order:
        computed, prompt = running[at]
        wanted = max(1, prompt - computed)
        if whole and wanted > left:
            continue
        decodes = computed >= prompt
        plan[at] = min(wanted, budget if per_prompt else left)
        left -= 0 if per_prompt or (skips_decodes and decodes) else plan[at]
    return plan


def _without_the_next_token(running: list[tuple[int, int]], budget: int) -> list[int]:
    """Who has just computed the prompt is taken for somebody who still prefills."""
    plan = [int(computed > prompt) for computed, prompt in running]
    left = budget - sum(plan)
    for at, (computed, prompt) in enumerate(running):
        if computed <= prompt:
            plan[at] = min(left, prompt - computed)
            left -= plan[at]
    return plan


def _decodes_as_they_come(running: list[tuple[int, int]], budget: int) -> list[int]:
    """In the list's order, but whoever decodes gets a token in any case."""
    plan = []
    for computed, prompt in running:
        plan.append(1 if computed >= prompt else min(budget, prompt - computed))
        budget -= plan[-1]
    return plan


def _flawed(**flags: bool) -> Callable[..., list[int]]:
    return lambda running, budget: plan_of(running, budget, **flags)


PLAN_FLAWS: dict[str, Callable[..., list[int]]] = {
    "those that decode come first, wherever they stand in the list": (
        _flawed(in_order=True)
    ),
    "those that decode come off the budget before it is shared out to prompts": (
        _decodes_as_they_come
    ),
    "prompts come last: whoever decodes must not wait for them": (
        _flawed(prompts_first=True)
    ),
    "the budget is for all of them together: what one takes, the others lack": (
        _flawed(per_prompt=True)
    ),
    "a prompt that does not fit is computed in part, not left out": (
        _flawed(whole=True)
    ),
    "a token that is decoded costs a token of the budget, too": (
        _flawed(skips_decodes=True)
    ),
    "whoever has computed exactly the prompt decodes already": (
        _without_the_next_token
    ),
    "what is computed of a prompt already is not computed again": (
        lambda running, budget: plan_of(
            [(c if c >= p else 0, p) for c, p in running], budget
        )
    ),
}


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
