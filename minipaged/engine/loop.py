"""Lesson 2: one step, and the loop around it (paper, section 4.3)."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from minipaged.decoding.strategy import Failed, Strategy, Turn
from minipaged.model.inputs import RaggedBatch
from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.interruption import StepUndo, all_or_nothing
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler


def run(paged: PagedModel, scheduler: Scheduler, tell: Callable[[int], Any]) -> None:
    """Step until nobody waits or runs; `tell` is given how many have ended in a step.

    If a step raises, all wait again, without blocks; if `tell` raises, those running
    are aborted. The answers stay in the requests: ask each one's `strategy.output`.
    """
    try:
        while scheduler.waiting or scheduler.running:
            num_before = len(scheduler.waiting) + len(scheduler.running)
            step(paged, scheduler)
            tell(num_before - len(scheduler.waiting) - len(scheduler.running))
    finally:
        for request in [*scheduler.running]:
            scheduler.abort(request)


def step(
    paged: PagedModel,
    scheduler: Scheduler,
    inputs: Callable[[Plan], RaggedBatch] | None = None,
) -> Plan:
    """Compute what is scheduled next, and let each request that has logits go on.

    Prompts and single tokens go through one forward together. If anything is raised,
    Ctrl-C included, all requests keep earlier tokens, give blocks back, and wait again.
    `inputs` may replace `RaggedBatch.of_plan`: see PersistentInputs.
    Source: PagedAttention paper, section 4.3.
    """

    def compute(undo: StepUndo) -> Plan:
        plan = scheduler.schedule()
        batch = inputs(plan) if inputs else RaggedBatch.of_plan(plan, paged.device)
        logits = paged.forward(batch)
        scheduler.observers.computed(batch, logits)
        turns = turns_of(plan)
        undo.save_texts(turn.request for turn in turns)
        choose_and_apply(turns, logits)
        scheduler.observers.chosen(plan)
        scheduler.commit(plan)
        return plan

    return all_or_nothing(scheduler, compute)


def turns_of(plan: Plan) -> list[Turn]:
    """Which rows of the logits are whose: those of a request follow one another.

    Requests that were aborted meanwhile have no turn.
    """
    counts: dict[Request, int] = {}
    for work in plan.works:
        counts[work.request] = counts.get(work.request, 0) + work.num_logits
    turns, stop = [], 0
    for request, count in counts.items():
        start, stop = stop, stop + count
        if count and request.live:
            turns.append(Turn(request, range(start, stop)))
    return turns


def choose_and_apply(turns: list[Turn], logits: Tensor) -> None:
    """Let the requests' strategies choose, all of one type at once; then apply."""
    of_type: dict[type[Strategy], list[Turn]] = {}
    for turn in turns:
        of_type.setdefault(type(turn.request.strategy), []).append(turn)
    chosen = {each: each.choose(own, logits) for each, own in of_type.items()}
    for each, own in of_type.items():
        apply_all(own, chosen[each])


def apply_all(turns: list[Turn], choices: Iterable[Any]) -> None:
    """Let each request do what was chosen for it; end those that cannot go on."""
    for turn, choice in zip(turns, choices, strict=True):
        if isinstance(choice, Failed):
            turn.request.fail(choice.reason)
        else:
            turn.request.strategy.apply(turn, choice)
