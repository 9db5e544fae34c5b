"""Appendix A: one step ahead: the GPU computes the next while the last one is read."""

from collections import deque
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minipaged.decoding.draw import next_tokens
from minipaged.decoding.logprobs import Logprobs, SamplingWithLogprobs, Scored
from minipaged.decoding.sampling import Chosen, Sampling, TokensTogether
from minipaged.decoding.strategy import Failed, Turn, or_failed
from minipaged.engine.loop import choose, finish, step, turns_of
from minipaged.errors import OutOfBlocks, is_out_of_memory
from minipaged.model.persistent_inputs import Unread, to_device
from minipaged.model.runner import Runner
from minipaged.scheduling.interruption import StepUndo, all_or_nothing, collect_lost
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler


class Steps:
    """An engine's steps, each made as a whole: see `loop.step`."""

    def __init__(self, runner: Runner, scheduler: Scheduler):
        """No step is made yet."""
        self._runner, self._scheduler = runner, scheduler

    def step(self) -> None:
        """Make one; if anything is raised, Ctrl-C included, it is undone.

        Raises MemoryError if the device has no room for what a step computes.
        """
        try:
            try:
                self._make()
            except OutOfBlocks:
                if not collect_lost(self._scheduler.pool):
                    raise
                self._make()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise MemoryError(
                f"a step of up to {self._scheduler.max_tokens:,} tokens has no room on "
                f"{self._runner.paged.device}; lower max_tokens of the Engine, or "
                "num_blocks of the PagedModel"
            ) from error

    def _make(self) -> None:
        step(self._runner, self._scheduler)

    def land(self) -> None:
        """End what is in flight: nothing."""


def make_steps(runner: Runner, scheduler: Scheduler) -> Steps:
    """One step ahead, but for the eager runner: its steps are lesson 2's."""
    return (Steps if runner.name == "eager" else StepsAhead)(runner, scheduler)


class StepsAhead(Steps):
    """Makes the same steps as `loop.step`, but computes one before it reads another.

    A GPU is never idle if the CPU hands it a step before it has ended the last one. So
    a step's tokens stay on the GPU as the inputs of the next one, and are read while
    that is computed. Whoever has reached an eos or a stop string is known a step later:
    a token more was computed for it, which is dropped.

    A plan can only be made before the last one is read if nothing else depends on what
    was chosen: for requests of one sequence, greedy or sampled without a seed, whose
    processors do not look at earlier tokens. If a plan computes others, it is read
    before the next one is made.

    Between two calls a step may be in flight: `land` ends it.
    """

    def __init__(self, runner: Runner, scheduler: Scheduler):
        """Nothing is in flight."""
        super().__init__(runner, scheduler)
        self._flights: deque[_Flight] = deque()  # two at most
        paged = runner.paged
        if paged.device.type == "cuda":
            from minipaged.decoding.fast_draw import load_kernels

            vocabulary = paged.model.config.get_text_config().vocab_size
            load_kernels(vocabulary, {torch.float32, paged.dtype}, paged.device)

    def _make(self) -> None:
        """Hand out the next step; then read, apply and commit the one before it.

        If anything is raised, Ctrl-C included, both are undone: see StepUndo.
        """
        all_or_nothing(self._scheduler, self._step)

    def land(self) -> None:
        """Read, apply and commit all that is in flight."""
        while self._scheduler.in_flight:
            all_or_nothing(self._scheduler, self._land)

    def _step(self, undo: StepUndo) -> None:
        if not self._scheduler.in_flight:
            self._start()
        if self._flights[-1].late is not None:
            self._start()
        self._land(undo)

    def _start(self) -> None:
        """Plan a step and hand it to the device, if there is anything to compute."""
        scheduler = self._scheduler
        if not scheduler.in_flight:
            self._flights.clear()  # of steps that were undone
        before = self._flights[-1].late if self._flights else None
        plan = scheduler.schedule()
        if before is not None and not plan.works:
            scheduler.withdraw(plan)  # all wait for what is in flight
            return
        batch, logits = self._runner.compute(plan, before and before.unread)
        scheduler.observers.computed(batch, logits)
        late = None
        may = () if before is None else before.unread.places  # they did already
        if all(w.sequence in may or may_run_ahead(w.request) for w in plan.works):
            late = LateTokens(turns_of(plan), logits)
            for sequence in late.unread.places:
                sequence.num_pending += 1
        self._flights.append(_Flight(plan, logits, late))

    def _land(self, undo: StepUndo) -> None:
        plan, logits, late = self._flights[0]

        def chosen(turns: list[Turn]) -> list[Any]:
            return choose(turns, logits.float()) if late is None else late.read(turns)

        finish(plan, chosen, self._scheduler, undo)
        self._flights.popleft()


def may_run_ahead(request: Request) -> bool:
    """Can its next token be computed before the last one is read?"""
    strategy = request.strategy
    return (
        isinstance(strategy, Sampling)
        and request.num_parallel == 1
        and not request.is_scored
        and strategy.generator is None
        and strategy.options.batch_key is not None
    )


class LateTokens:
    """A step's tokens: chosen on the device, and on their way to the CPU.

    Attributes: unread, the tokens for the next step.
    """

    def __init__(self, turns: list[Turn], logits: Tensor):
        """Choose, and start to copy; nobody waits.

        turns: of requests that may run ahead, so each has one row. logits: [R,
        vocabulary], in float32 or the model's own type.
        """
        groups: dict[str | None, list[Turn]] = {}
        by_numbers = draws_by_numbers(logits)
        for turn in turns:
            options = turn.request.strategy.options
            # Whatever rows ask for as numbers, they are drawn together.
            together = by_numbers and options.of_rows is not None
            key = None if together else options.batch_key
            groups.setdefault(key, []).append(turn)
        drawn, self._failed = [], {}
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
        self.unread = Unread(tokens, places)
        self._logprobs = self._compute_logprobs(turns, logits)
        self._copy, self._has_come = tokens, None
        if tokens.is_cuda:
            self._copy = torch.empty_like(tokens, device="cpu", pin_memory=True)
            self._copy.copy_(tokens, non_blocking=True)
            stream = torch.cuda.current_stream(tokens.device)
            self._has_come = stream.record_event()

    def _compute_logprobs(
        self, turns: list[Turn], logits: Tensor
    ) -> dict[Request, tuple[Logprobs, range]]:
        """Of the tokens of those who ask; on their way to the CPU, too."""
        asking = [t for t in turns if t.request.strategy.options.logprobs is not None]
        if not asking:
            return {}
        (at,) = to_device([np.array([*map(self._place_of, asking)])], logits.device)
        logprobs, places = SamplingWithLogprobs.score(
            asking, self.unread.tokens[at], logits
        )
        logprobs.bring()
        pairs = zip(asking, places, strict=True)
        return {turn.request: (logprobs, place) for turn, place in pairs}

    def read(self, turns: list[Turn]) -> list[Chosen | Scored | Failed]:
        """Wait for this step, but not for the next one; what was chosen for these.

        turns: all of them, or less, if some were aborted meanwhile.
        """
        if self._has_come is not None:
            self._has_come.synchronize()
        together, choices = TokensTogether(self._copy), []
        for turn in turns:
            request, at = turn.request, self._place_of(turn)
            choice = self._failed.get(request) or (together, at, at + 1)
            is_scored = isinstance(request.strategy, SamplingWithLogprobs)
            if is_scored and request not in self._failed:
                choice = Scored(choice, *self._logprobs.get(request, ()))
            choices.append(choice)
        return choices

    def _place_of(self, turn: Turn) -> int:
        return self.unread.places[turn.request.answers[0]]


def draws_by_numbers(logits: Tensor) -> bool:
    """Are there kernels for what lies here, to which a row's options are numbers?"""
    return logits.is_cuda


def _draw(group: list[Turn], logits: Tensor) -> Tensor:
    """The next tokens of requests of one group; on a GPU, nobody waits."""
    if not draws_by_numbers(logits):
        return next_tokens(group, [turn.rows for turn in group], logits)
    from minipaged.decoding.fast_draw import draw_unseeded  # which needs Triton

    if len(group) < len(logits):
        rows = chain.from_iterable([turn.rows for turn in group])
        (at,) = to_device([np.array(list(rows))], logits.device)
        logits = logits[at]
    return draw_unseeded([turn.request.strategy.options for turn in group], logits)


class _Flight(NamedTuple):
    """A step that is computed, or is about to be, and not committed."""

    plan: Plan
    logits: Tensor
    late: LateTokens | None  # None: nothing is chosen yet
