"""Appendix D: one step ahead: the GPU computes the next while the last is read."""

from collections import deque
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minipaged.decoding.draw import next_tokens
from minipaged.decoding.logprobs import Logprobs, SamplingWithLogprobs, Scored
from minipaged.decoding.sampling import ChosenTokens, Sampling
from minipaged.decoding.strategy import Failed, Turn, or_failed
from minipaged.engine.loop import choose, finish, turns_of
from minipaged.engine.steps import Steps
from minipaged.model.inputs import RaggedBatch
from minipaged.model.persistent_inputs import Pending, to_device
from minipaged.model.runner import Runner
from minipaged.scheduling.interruption import StepUndo, all_or_nothing
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler
from minipaged.scheduling.sequence import Sequence


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

    With guesses (appendix E), it is not known either how many tokens a step brings. The
    next is planned as if all guesses were right; the device moves its tokens back by as
    many places as guesses were wrong, and the plan is corrected once that is read.

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
            if runner.num_guesses:
                from minipaged.decoding.followed import follow_all  # appendix E

                token = torch.zeros(1, dtype=torch.int64, device=paged.device)
                follow_all(token, token, [range(1)], [range(1)])

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
        if self._may_start_ahead():
            self._start()
        self._land(undo)
        if self._scheduler.running and not self._scheduler.in_flight:
            self._start()  # the device computes while the engine tells what is new

    def _may_start_ahead(self) -> bool:
        """May the next step start now? Then count its tokens that are not read yet."""
        flight = self._flights[-1]
        if flight.choices is None:
            return False
        ahead = []
        for turn in flight.choices.turns:
            (answer,) = turn.request.answers
            if answer.finish_reason is None:
                ahead.append((answer, turn.request.strategy.tokens_ahead(turn.request)))
        if any([count is None for _, count in ahead]):
            return False
        for answer, count in ahead:
            answer.num_pending = count
        return True

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
            choices = PendingChoices(turns_of(plan), logits, batch)
        self._flights.append(_Flight(plan, logits, choices))

    def _land(self, undo: StepUndo) -> None:
        plan, logits, choices = self._flights[0]

        def chosen(turns: list[Turn]) -> list[Any]:
            if choices is None:
                return choose(turns, logits.float())
            return choices.read(turns)

        finish(plan, chosen, self._scheduler, undo)
        self._flights.popleft()
        if self._flights and choices is not None:
            _move_back(self._flights[0].plan, choices.num_wrong)


def _move_back(plan: Plan, num_wrong: dict[Sequence, int]) -> None:
    """It was planned as if all guesses were right; so many of them were wrong."""
    if not num_wrong:
        return
    for place, work in enumerate(plan.works):
        if back := num_wrong.get(work.sequence):
            start, stop = work.start - back, work.stop - back
            plan.works[place] = work._replace(start=start, stop=stop)


def may_run_ahead(request: Request) -> bool:
    """Can the request's next token be computed before the last one is read?"""
    strategy = request.strategy
    return (
        isinstance(strategy, Sampling)
        and strategy.runs_ahead
        and request.num_parallel == 1
        and not request.wants_prompt_logits
    )


class PendingChoices:
    """A step's tokens: chosen on the device, and on their way to the CPU.

    Attributes: turns; pending, the tokens for the next step; num_wrong, of the guesses
    of each sequence that has any (appendix E): it is known once `read` was called.
    """

    def __init__(
        self, turns: list[Turn], logits: Tensor, batch: RaggedBatch | None = None
    ):
        """Choose, and start to copy, without waiting.

        turns: of requests that may run ahead, so each has one row, but for its guesses.
        logits: [R, vocabulary], in float32 or the model's own type. batch: that of the
        logits, if there are guesses.
        """
        self.turns = turns
        self.num_wrong: dict[Sequence, int] = {}
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
                count = sum([len(turn.rows) for turn in group])
                tokens = logits.new_zeros(count, dtype=torch.int64)
            drawn.append(tokens)
        # If only parts of prompts were computed, there are no tokens.
        none = torch.empty(0, dtype=torch.int64, device=logits.device)
        tokens = drawn[0] if len(drawn) == 1 else torch.cat([none, *drawn])
        in_order = [*chain.from_iterable(groups.values())]
        stops = accumulate([len(turn.rows) for turn in in_order])
        self._places = {
            turn.request: range(stop - len(turn.rows), stop)
            for turn, stop in zip(in_order, stops, strict=True)
        }
        self._guessing: list[Request] = []
        self.pending = self._pending(in_order, tokens, batch)
        self._logprobs = self._compute_logprobs(turns, tokens, logits)
        if self._guessing:
            tokens = torch.cat([tokens, self.pending.back])
        self._copy = tokens
        self._has_come = None
        if tokens.is_cuda:
            self._copy = torch.empty_like(tokens, device="cpu", pin_memory=True)
            self._copy.copy_(tokens, non_blocking=True)
            stream = torch.cuda.current_stream(tokens.device)
            self._has_come = stream.record_event()

    def _pending(
        self, turns: list[Turn], tokens: Tensor, batch: RaggedBatch
    ) -> Pending:
        """The newest tokens, as inputs of the next step."""
        places = {turn.request.answers[0]: [n] for n, turn in enumerate(turns)}
        if len(tokens) == len(turns):
            return Pending((tokens,), places)
        from minipaged.decoding.followed import follow_all  # appendix E

        self._guessing = [turn.request for turn in turns]
        computed = batch.tokens
        if batch.logits_at.shape != computed.shape:  # else all have logits
            computed = computed[batch.logits_at]
        rows = [turn.rows for turn in turns]
        of_turns = [self._places[request] for request in self._guessing]
        newest, num_wrong = follow_all(computed, tokens, rows, of_turns)
        return Pending((newest[0],), places, num_wrong, with_before=newest)

    def _compute_logprobs(
        self, turns: list[Turn], tokens: Tensor, logits: Tensor
    ) -> dict[Request, tuple[Logprobs, range]]:
        """The logprobs that are wanted, and their places; on their way to the CPU."""
        asking = [t for t in turns if t.request.strategy.options.logprobs is not None]
        if not asking:
            return {}
        places = [self._places[turn.request].start for turn in asking]
        (at,) = to_device([np.array(places)], logits.device)
        logprobs, places = SamplingWithLogprobs.score(asking, tokens[at], logits)
        logprobs.bring()
        pairs = zip(asking, places, strict=True)
        return {turn.request: (logprobs, place) for turn, place in pairs}

    def read(self, turns: list[Turn]) -> list[Any]:
        """Wait for this step, but not for the next one; return these turns' choices.

        turns: all turns of the step, but not of requests that have ended meanwhile.
        """
        if self._has_come is not None:
            self._has_come.synchronize()
        tokens = ChosenTokens(self._copy)
        if self._guessing:
            of_requests = tokens.as_numbers[-len(self._guessing) :]
            num_wrong = dict(zip(self._guessing, of_requests, strict=True))
        choices = []
        for turn in turns:
            request = turn.request
            place = self._places[request]
            choice = self._failed.get(request) or (tokens, place.start, place.stop)
            if request not in self._failed:
                if isinstance(request.strategy, SamplingWithLogprobs):
                    choice = Scored(choice, *self._logprobs.get(request, ()))
                elif len(place) > 1:
                    from minipaged.decoding.speculative import RightTokens  # E

                    wrong = num_wrong[request]
                    self.num_wrong[request.answers[0]] = wrong
                    choice = RightTokens(
                        tokens.as_numbers[place.start : place.stop - wrong]
                    )
            choices.append(choice)
        return choices


def draws_by_numbers(logits: Tensor) -> bool:
    """Are there kernels for these logits, which take a row's options as numbers?"""
    return logits.is_cuda


def _draw(group: list[Turn], logits: Tensor) -> Tensor:
    """The next tokens of a group of requests; on a GPU, without waiting."""
    rows = [turn.rows for turn in group]
    if not draws_by_numbers(logits):
        return next_tokens(group, rows, logits)
    from minipaged.decoding.fast_draw import draw_unseeded  # which needs Triton

    options = [t.request.strategy.options for t in group for _ in t.rows]
    if len(options) < len(logits):
        at = np.array([*chain.from_iterable(rows)])
        (at,) = to_device([at], logits.device)
        logits = logits[at]
    return draw_unseeded(options, logits)


class _Flight(NamedTuple):
    """A step that was handed to the device, and is not committed yet."""

    plan: Plan
    logits: Tensor
    choices: PendingChoices | None  # None: nothing is chosen yet
