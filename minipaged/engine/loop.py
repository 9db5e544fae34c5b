"""Lesson 2: one step, and the loop around it (paper, section 4.3)."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from torch import Tensor

from minipaged.decoding.strategy import Failed, Strategy, Turn
from minipaged.model.inputs import RaggedBatch
from minipaged.scheduling.interruption import StepUndo, all_or_nothing
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler


class StepRunner(Protocol):
    """What computes a plan: a PagedModel, or appendix A's eager `Runner`."""

    def compute(self, plan: Plan) -> tuple[RaggedBatch, Tensor]:
        """The plan's batch, for observers, and the logits that it asks for.

        Those are [R, vocabulary], in float32.
        """


def run(runner: StepRunner, scheduler: Scheduler, tell: Callable[[int], Any]) -> None:
    """Step until no request waits or runs; tell how many have ended in each step.

    If a step raises, all wait again, without blocks; if `tell` raises, running requests
    are aborted. The answers stay in the requests: see `decoding.strategy.output_of`.
    """
    try:
        while scheduler.waiting or scheduler.running:
            num_before = len(scheduler.waiting) + len(scheduler.running)
            step(runner, scheduler)
            tell(num_before - len(scheduler.waiting) - len(scheduler.running))
    finally:
        for request in [*scheduler.running]:
            scheduler.abort(request)


def step(runner: StepRunner, scheduler: Scheduler) -> Plan:
    """Compute what is scheduled next, and let requests with logits choose their tokens.

    Prompts and single tokens go through one forward together. If anything is raised,
    Ctrl-C included, all requests keep earlier tokens, give blocks back, and wait again.
    Source: PagedAttention paper, section 4.3.
    """

    def make(undo: StepUndo) -> Plan:
        plan = scheduler.schedule()
        batch, logits = runner.compute(plan)
        scheduler.observers.computed(batch, logits)
        finish(plan, lambda turns: choose(turns, logits), scheduler, undo)
        return plan

    return all_or_nothing(scheduler, make)


def finish(
    plan: Plan,
    choose_for: Callable[[list[Turn]], Iterable[Any]],
    scheduler: Scheduler,
    undo: StepUndo,
) -> None:
    """Choose the next tokens of a computed plan, apply them, and commit the plan."""
    turns = turns_of(plan)
    undo.save_texts(turn.request for turn in turns)
    apply_all(turns, choose_for(turns))
    scheduler.observers.chosen(plan)
    scheduler.commit(plan)


def turns_of(plan: Plan) -> list[Turn]:
    """The plan's requests, each with its rows of the logits, one after the other.

    A request has no turn if it has no logits, or has ended meanwhile. For example: if
    A, B and C have works with 2, 0 and 1 logits, A has rows 0 and 1, and C has row 2.
    """
    counts: dict[Request, int] = {}
    for work in plan.works:
        counts[work.request] = counts.get(work.request, 0) + work.num_logits
    turns = []
    stop = 0
    for request, count in counts.items():
        start, stop = stop, stop + count
        if count and request.is_live:
            turns.append(Turn(request, range(start, stop)))
    return turns


def choose(turns: list[Turn], logits: Tensor) -> list[Any]:
    """What each turn's request will do: strategies of one type choose together."""
    of_type: dict[type[Strategy], list[Turn]] = {}
    for turn in turns:
        of_type.setdefault(type(turn.request.strategy), []).append(turn)
    chosen: dict[Request, Any] = {}
    for strategy, group in of_type.items():
        requests = [turn.request for turn in group]
        chosen |= zip(requests, strategy.choose(group, logits), strict=True)
    return [chosen[turn.request] for turn in turns]


def apply_all(turns: list[Turn], choices: Iterable[Any]) -> None:
    """Let each request do what was chosen for it; end those that cannot go on."""
    for turn, choice in zip(turns, choices, strict=True):
        if isinstance(choice, Failed):
            turn.request.fail(choice.reason)
        else:
            turn.request.strategy.apply(turn, choice)
