"""Appendix D: one step ahead: the GPU computes the next while the last is read."""

from collections import deque
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minipaged.decoding.draw import next_tokens
from minipaged.decoding.logprobs import Logprobs, SamplingWithLogprobs, Scored
from minipaged.decoding.sampling import Chosen, ChosenTokens, Sampling
from minipaged.decoding.strategy import Failed, Turn, or_failed
from minipaged.engine.loop import choose, finish, turns_of
from minipaged.engine.steps import Steps
from minipaged.model.persistent_inputs import Pending, to_device
from minipaged.model.runner import Runner
from minipaged.scheduling.interruption import StepUndo, all_or_nothing
from minipaged.scheduling.next_works import NextWorks
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler


class StepsAhead(Steps):
    """Makes the steps of `loop.step`, but starts the next before it reads the last.

    A GPU is never idle if the CPU hands it the next step before it has ended the last
    one. So a step's tokens stay on the GPU as inputs of the next step, and are read
    while that is computed. An eos or a stop string is therefore noticed a step later:
    one more token was computed for that sequence, and is dropped.

    The next plan can be made before the last tokens are read if it does not depend on
    them. This holds for requests of one sequence, greedy or sampled without a seed,
    whose processors do not read earlier tokens. If a plan has any other request, all
    tokens of the plan are read before the next plan is made, and started at once.

    Between two calls a step may be in flight: `land` ends it.
    """

    def __init__(self, runner: Runner, scheduler: Scheduler):
        """Nothing is in flight."""
        super().__init__(runner, scheduler)
        self._flights: deque[_Flight] = deque()  # two at most
        paged = runner.paged
        if paged.device.type == "cuda":
            from minipaged.decoding.fast_draw import load_kernels
            from minipaged.engine.rehearsal import rehearse

            vocabulary = paged.model.config.get_text_config().vocab_size
            load_kernels(vocabulary, {torch.float32, paged.dtype}, paged.device)
            rehearse(vocabulary, paged.dtype, paged.device, scheduler.max_tokens)

    def _make(self) -> None:
        """Start the next step; then read, apply and commit the step before it.

        If anything is raised, Ctrl-C included, both are undone: see StepUndo.
        """
        all_or_nothing(self._scheduler, self._step)

    def land(self) -> None:
        """Read, apply and commit all steps in flight."""
        while self._scheduler.in_flight:
            all_or_nothing(self._scheduler, self._land)

    def _step(self, undo: StepUndo) -> None:
        if not self._scheduler.in_flight:
            self._start()
        if self._flights[-1].choices is not None:
            self._start()
        self._land(undo)
        if self._scheduler.running and not self._scheduler.in_flight:
            self._start()  # the device computes while the engine tells what is new

    def _start(self) -> None:
        """Plan a step and hand it to the device, if there is anything to compute."""
        scheduler = self._scheduler
        if not scheduler.in_flight:
            self._flights.clear()  # of steps that were undone
        pending = None
        if self._flights and self._flights[-1].choices is not None:
            pending = self._flights[-1].choices.pending
        plan = scheduler.schedule()
        if pending is not None and not plan.works:
            scheduler.withdraw(plan)  # all wait for the step in flight
            return
        batch, logits = self._runner.compute(plan, pending)
        scheduler.observers.computed(batch, logits)
        choices = None
        # The last step has checked that these sequences may run ahead.
        ahead = () if pending is None else pending.places
        if all(w.sequence in ahead or may_run_ahead(w.request) for w in plan.works):
            choices = PendingChoices(turns_of(plan), logits)
            for sequence in choices.pending.places:
                sequence.num_pending += 1
        self._flights.append(_Flight(plan, logits, choices))

    def _land(self, undo: StepUndo) -> None:
        plan, logits, choices = self._flights[0]

        def chosen(turns: list[Turn]) -> list[Any]:
            if choices is None:
                return choose(turns, logits.float())
            return choices.read(turns)

        finish(plan, chosen, self._scheduler, undo)
        self._flights.popleft()


def may_run_ahead(request: Request) -> bool:
    """Can the request's next token be computed before the last one is read?"""
    strategy = request.strategy
    return (
        isinstance(strategy, Sampling)
        and type(strategy).next_works is NextWorks.next_works  # a token at a time
        and request.num_parallel == 1
        and not request.wants_prompt_logits
        and strategy.generator is None
        and strategy.options.batch_key is not None
    )


class PendingChoices:
    """A step's tokens: chosen on the device, and on their way to the CPU.

    Attributes: pending, the tokens for the next step.
    """

    def __init__(self, turns: list[Turn], logits: Tensor):
        """Choose, and start to copy, without waiting.

        turns: of requests that may run ahead, so each has one row. logits: [R,
        vocabulary], in float32 or the model's own type.
        """
        groups: dict[str | None, list[Turn]] = {}
        by_numbers = draws_by_numbers(logits)
        for turn in turns:
            options = turn.request.strategy.options
            # Rows whose options are numbers are drawn together.
            has_numbers = by_numbers and options.of_rows is not None
            key = None if has_numbers else options.batch_key
            groups.setdefault(key, []).append(turn)
        drawn = []
        self._failed = {}
        for group in groups.values():
            tokens = or_failed(_draw, group, logits)
            if isinstance(tokens, Failed):
                self._failed |= dict.fromkeys([turn.request for turn in group], tokens)
                tokens = logits.new_zeros(len(group), dtype=torch.int64)
            drawn.append(tokens)
        # If only parts of prompts were computed, there are no tokens.
        none = torch.empty(0, dtype=torch.int64, device=logits.device)
        tokens = drawn[0] if len(drawn) == 1 else torch.cat([none, *drawn])
        in_order = chain.from_iterable(groups.values())
        places = {turn.request.answers[0]: place for place, turn in enumerate(in_order)}
        self.pending = Pending(tokens, places)
        self._logprobs = self._compute_logprobs(turns, logits)
        self._copy = tokens
        self._has_come = None
        if tokens.is_cuda:
            self._copy = torch.empty_like(tokens, device="cpu", pin_memory=True)
            self._copy.copy_(tokens, non_blocking=True)
            stream = torch.cuda.current_stream(tokens.device)
            self._has_come = stream.record_event()

    def _compute_logprobs(
        self, turns: list[Turn], logits: Tensor
    ) -> dict[Request, tuple[Logprobs, range]]:
        """The logprobs that are wanted, and their places; on their way to the CPU."""
        asking = [t for t in turns if t.request.strategy.options.logprobs is not None]
        if not asking:
            return {}
        (at,) = to_device([np.array([*map(self._place_of, asking)])], logits.device)
        logprobs, places = SamplingWithLogprobs.score(
            asking, self.pending.tokens[at], logits
        )
        logprobs.bring()
        pairs = zip(asking, places, strict=True)
        return {turn.request: (logprobs, place) for turn, place in pairs}

    def read(self, turns: list[Turn]) -> list[Chosen | Scored | Failed]:
        """Wait for this step, but not for the next one; return these turns' choices.

        turns: all turns of the step, but not of requests that have ended meanwhile.
        """
        if self._has_come is not None:
            self._has_come.synchronize()
        tokens = ChosenTokens(self._copy)
        choices = []
        for turn in turns:
            request = turn.request
            place = self._place_of(turn)
            choice = self._failed.get(request) or (tokens, place, place + 1)
            is_scored = isinstance(request.strategy, SamplingWithLogprobs)
            if is_scored and request not in self._failed:
                choice = Scored(choice, *self._logprobs.get(request, ()))
            choices.append(choice)
        return choices

    def _place_of(self, turn: Turn) -> int:
        return self.pending.places[turn.request.answers[0]]


def draws_by_numbers(logits: Tensor) -> bool:
    """Are there kernels for these logits, which take a row's options as numbers?"""
    return logits.is_cuda


def _draw(group: list[Turn], logits: Tensor) -> Tensor:
    """The next tokens of a group of requests; on a GPU, without waiting."""
    if not draws_by_numbers(logits):
        return next_tokens(group, [turn.rows for turn in group], logits)
    from minipaged.decoding.fast_draw import draw_unseeded  # which needs Triton

    if len(group) < len(logits):
        rows = chain.from_iterable([turn.rows for turn in group])
        (at,) = to_device([np.array(list(rows))], logits.device)
        logits = logits[at]
    return draw_unseeded([turn.request.strategy.options for turn in group], logits)


class _Flight(NamedTuple):
    """A step that was handed to the device, and is not committed yet."""

    plan: Plan
    logits: Tensor
    choices: PendingChoices | None  # None: nothing is chosen yet
