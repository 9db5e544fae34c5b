"""Appendix A: how likely each token was: logprobs of answers and of prompts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minipaged.decoding.beam import Beams, Candidates
from minipaged.decoding.draw import rows_of_samples
from minipaged.decoding.options import Options
from minipaged.decoding.sampling import Chosen, Sampling
from minipaged.decoding.strategy import Failed, Output, Strategy, TokenLogprob, Turn
from minipaged.model.persistent_inputs import to_device
from minipaged.scheduling.plan import Work
from minipaged.scheduling.prompt_logits import with_all_logits
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence


class Logprobs:
    """Logprobs of tokens, and of the likeliest tokens of each row.

    They are the log-softmax of logits as the model makes them, before any processor, in
    float32. The CPU reads them when they are wanted.
    """

    def __init__(self, logits: Tensor, rows: Tensor, tokens: Tensor, count: int):
        """Compute them, without waiting for the device.

        logits: [R, vocabulary], in any type. rows, tokens: [N] int64, on its device: a
        row of logits, and a token whose logprob is wanted; -1 stands for none. count:
        how many of the likeliest tokens.
        """
        logprobs = torch.log_softmax(logits[rows].float(), dim=-1)
        best = logprobs.topk(min(count, logprobs.shape[1]))
        last = logprobs.shape[1] - 1
        of_tokens = logprobs.gather(1, tokens.clamp(0, last)[:, None])[:, 0]
        of_tokens = of_tokens.masked_fill(tokens > last, -torch.inf)
        self._parts = [tokens, of_tokens, best.indices, best.values]

    def bring(self) -> None:
        """Start to copy them to the CPU. Read them after the device has done so."""
        for place, part in enumerate(self._parts):
            if part.is_cuda:
                copy = torch.empty_like(part, device="cpu", pin_memory=True)
                self._parts[place] = copy.copy_(part, non_blocking=True)

    @cached_property
    def _as_lists(self) -> list[list]:
        return [part.tolist() for part in self._parts]

    def at(self, place: int, count: int) -> TokenLogprob:
        """The token at this place, its logprob, and `count` of the likeliest tokens."""
        token, logprob, best, of_best = (part[place] for part in self._as_lists)
        pairs = zip(best[:count], of_best[:count], strict=True)
        return TokenLogprob(token, logprob, list(pairs))


class Scored(NamedTuple):
    """What was chosen for a request, and the logprobs that it asks for."""

    choice: Any  # of its strategy; None while its prompt is being computed
    logprobs: Logprobs | None = None
    places: range = range(0)  # in `logprobs`, of tokens that may be appended
    prompt: Logprobs | None = None
    prompt_places: range = range(0)  # in `prompt`, of this part of the prompt
    prompt_start: int = 0  # the position of its first token


class WithLogprobs(Strategy):
    """What sampling and beam search share if logprobs are wanted.

    Attributes: prompt_logprobs, of the prompt's tokens so far; None if not wanted.
    """

    def __init__(self, options: Options, *arguments: Any):
        """Takes the arguments of Sampling or Beams, the other base of a subclass."""
        super().__init__(options, *arguments)
        self.prompt_logprobs: list[TokenLogprob | None] | None = None
        if options.prompt_logprobs is not None:
            self.prompt_logprobs = [None]  # nothing foretells the first token

    def next_prefills(self, request: Request, limit: float) -> list[Work]:
        """The parts of the prompt; all logits are wanted if its logprobs are."""
        works = super().next_prefills(request, limit)
        if request.wants_prompt_logits:
            works = [with_all_logits(work) for work in works]
        return works

    @classmethod
    def choose(cls, turns: list[Turn], logits: Tensor) -> list[Scored | Failed]:
        """What the strategy chooses, with logprobs of that and of the prompt."""
        ready = [_to_choose(turn) for turn in turns if not _is_in_prompt(turn.request)]
        chosen = dict(
            zip([t.request for t in ready], super().choose(ready, logits), strict=True)
        )
        of_choices = cls._score(ready, chosen, logits)
        of_prompts = _score_prompts(turns, logits)
        scored = []
        for request in [turn.request for turn in turns]:
            choice = chosen.get(request)
            if isinstance(choice, Failed):
                scored.append(choice)
                continue
            of_choice = of_choices.get(request, (None, range(0)))
            of_prompt = of_prompts.get(request, ())
            scored.append(Scored(choice, *of_choice, *of_prompt))
        return scored

    @classmethod
    def _score(
        cls, turns: list[Turn], chosen: dict[Request, Any], logits: Tensor
    ) -> dict[Request, tuple[Logprobs, range]]:
        """For requests that ask: logprobs, and the places of what may be appended."""
        raise NotImplementedError

    def apply(self, turn: Turn, choice: Scored) -> None:
        """Note logprobs of the prompt; then apply the choice, and note its logprobs."""
        if choice.prompt is not None:
            del self.prompt_logprobs[choice.prompt_start :]  # from before a restart
            count = self.options.prompt_logprobs
            self.prompt_logprobs += [
                choice.prompt.at(place, count) for place in choice.prompt_places
            ]
        if choice.choice is None:
            return
        entries = []
        if choice.logprobs is not None:
            count = self.options.logprobs
            entries = [choice.logprobs.at(place, count) for place in choice.places]
        self._apply_scored(turn, choice.choice, entries)

    def _apply_scored(
        self, turn: Turn, choice: Any, entries: list[TokenLogprob]
    ) -> None:
        raise NotImplementedError

    def output(self, request: Request) -> Output:
        """The answers with their logprobs."""
        return self._with_logprobs(super().output(request), request)

    def so_far(self, request: Request) -> Output:
        """The answers so far with their logprobs."""
        return self._with_logprobs(super().so_far(request), request)

    def _with_logprobs(self, output: Output, request: Request) -> Output:
        logprobs = None
        if self.options.logprobs is not None:
            logprobs = self._logprobs_of(output, request)
        return replace(output, logprobs=logprobs, prompt_logprobs=self.prompt_logprobs)

    def _logprobs_of(
        self, output: Output, request: Request
    ) -> list[list[TokenLogprob]]:
        """The logprobs of each of the output's sequences."""
        raise NotImplementedError


class SamplingWithLogprobs(WithLogprobs, Sampling):
    """Greedy and random sampling, with logprobs."""

    def __init__(self, *arguments: Any):
        """As Sampling."""
        super().__init__(*arguments)
        self._of: dict[Sequence, list[TokenLogprob]] = {}

    def of(self, sequence: Sequence) -> list[TokenLogprob]:
        """The logprobs of this sequence's new tokens so far."""
        return self._of.get(sequence, [])

    @classmethod
    def score(
        cls, turns: list[Turn], tokens: Tensor, logits: Tensor
    ) -> tuple[Logprobs, list[range]]:
        """Logprobs of these turns' tokens, and the places of each turn's.

        tokens: [samples of all of them] int64, on the logits' device.
        """
        rows = [rows_of_samples(turn) for turn in turns]
        count = max(turn.request.strategy.options.logprobs for turn in turns)
        at = _rows(rows, logits)
        return Logprobs(logits, at, tokens, count), [*_places(map(len, rows))]

    @classmethod
    def _score(
        cls, turns: list[Turn], chosen: dict[Request, Chosen | Failed], logits: Tensor
    ) -> dict[Request, tuple[Logprobs, range]]:
        asking = _asking(turns, chosen)
        if not asking:
            return {}
        choices = (chosen[turn.request] for turn in asking)
        parts = [tokens.tensor[start:stop] for tokens, start, stop in choices]
        logprobs, places = cls.score(asking, torch.cat(parts), logits)
        pairs = zip(asking, places, strict=True)
        return {turn.request: (logprobs, place) for turn, place in pairs}

    def _apply_scored(
        self, turn: Turn, choice: Chosen, entries: list[TokenLogprob]
    ) -> None:
        Sampling.apply(self, turn, choice)
        for sequence, entry in zip(turn.request.answers, entries, strict=False):
            logprobs = self._of.setdefault(sequence, [])
            if len(logprobs) < sequence.num_new:  # it had not ended
                logprobs.append(entry)

    def _logprobs_of(
        self, output: Output, request: Request
    ) -> list[list[TokenLogprob]]:
        logprobs = [self.of(sequence).copy() for sequence in request.answers]
        num_missing = len(output.sequences) - len(logprobs)  # if aborted before a fork
        return logprobs + [[] for _ in range(num_missing)]

    def save(self) -> Any:
        """The generator's state, and how many logprobs each sequence has."""
        lengths = [(sequence, len(entries)) for sequence, entries in self._of.items()]
        return super().save(), lengths

    def restore(self, saved: Any) -> None:
        """Forget the logprobs of tokens that are taken back."""
        generator, lengths = saved
        super().restore(generator)
        self._of = {answer: self._of[answer][:length] for answer, length in lengths}


class BeamsWithLogprobs(WithLogprobs, Beams):
    """Beam search, with logprobs: a hypothesis is known by its tokens."""

    def __init__(self, *arguments: Any):
        """As Beams."""
        super().__init__(*arguments)
        # Of running beams, and of the best that have ended. The dict is replaced, never
        # changed, so `restore` brings the old one back.
        self._of: dict[tuple[int, ...], list[TokenLogprob]] = {(): []}

    @classmethod
    def _score(
        cls,
        turns: list[Turn],
        chosen: dict[Request, Candidates | Failed],
        logits: Tensor,
    ) -> dict[Request, tuple[Logprobs, range]]:
        scored = {}
        for turn in _asking(turns, chosen):
            _, beams, tokens = chosen[turn.request]
            # At first, all beams share one row.
            rows = turn.rows[0] + beams * (len(turn.rows) > 1)
            count = turn.request.strategy.options.logprobs
            logprobs = Logprobs(logits, rows, tokens, count)
            scored[turn.request] = logprobs, range(len(tokens))
        return scored

    def _apply_scored(
        self, turn: Turn, choice: Candidates, entries: list[TokenLogprob]
    ) -> None:
        parents = [tuple(sequence.new_tokens) for sequence in turn.request.live]
        Beams.apply(self, turn, choice)
        if not entries:
            return
        sources = choice.beams.tolist() if len(parents) > 1 else [0] * len(entries)
        known = dict(self._of)
        for source, entry in zip(sources, entries, strict=True):
            path = parents[source]
            known[*path, entry.token] = [*self._of[path], entry]
        running = (tuple(sequence.new_tokens) for sequence in turn.request.live)
        ended = (tuple(hypothesis.tokens) for hypothesis in self.best)
        self._of = {path: known[path] for path in {*running, *ended}}

    def _logprobs_of(
        self, output: Output, request: Request
    ) -> list[list[TokenLogprob]]:
        return [self._of[tuple(tokens)].copy() for tokens in output.sequences]


def make_strategy(
    options: Options, generator: torch.Generator | None, device: torch.device | str
) -> SamplingWithLogprobs | BeamsWithLogprobs:
    """The strategy of a request that asks for logprobs, of answers or of the prompt.

    generator: of a seeded request. device: where its logits are.
    """
    if options.num_beams == 1:
        return SamplingWithLogprobs(options, generator)
    return BeamsWithLogprobs(options, device)


def _is_in_prompt(request: Request) -> bool:
    """Is more of its prompt to be computed before anything is chosen?"""
    return request.wants_prompt_logits and request.is_prefilling


def _to_choose(turn: Turn) -> Turn:
    """The turn without rows of the prompt's tokens: the last row is the answer's."""
    if turn.request.wants_prompt_logits:
        turn = turn._replace(rows=turn.rows[-1:])
    return turn


def _asking(turns: list[Turn], chosen: dict[Request, Any]) -> list[Turn]:
    """The turns that want logprobs of their answers, and have not failed."""
    return [
        turn
        for turn in turns
        if turn.request.strategy.options.logprobs is not None
        and not isinstance(chosen[turn.request], Failed)
    ]


def _score_prompts(
    turns: list[Turn], logits: Tensor
) -> dict[Request, tuple[Logprobs, range, int]]:
    """Logprobs of prompt tokens, their places, and the position of the first.

    Each row of logits foretells the token after its own. The rows are those of the last
    part of the prompt that was planned: the next part waits until these are read.
    """
    asking = []
    rows = []
    tokens = []
    for turn in turns:
        if turn.request.wants_prompt_logits:
            stop = turn.request.live[0].num_computed + 1
            foretold = turn.request.prompt[stop - len(turn.rows) : stop]
            asking.append((turn.request, stop - len(turn.rows)))
            rows.append(turn.rows[: len(foretold)])  # the last row may be the answer's
            tokens.append(foretold)
    if not asking:
        return {}
    count = max(request.strategy.options.prompt_logprobs for request, _ in asking)
    places = [*_places(map(len, rows))]
    logprobs = Logprobs(logits, _rows(rows, logits), _rows(tokens, logits), count)
    triples = zip(asking, places, strict=True)
    return {request: (logprobs, place, start) for (request, start), place in triples}


def _rows(groups: Iterable[Iterable[int]], logits: Tensor) -> Tensor:
    """All these numbers in one tensor, on the device of the logits; nothing waits."""
    flat = np.array([number for group in groups for number in group], dtype=np.int64)
    return to_device([flat], logits.device)[0]


def _places(lengths: Iterable[int]) -> Iterator[range]:
    """Ranges of these lengths: range(0, 2) and range(2, 5) for lengths 2 and 3."""
    stop = 0
    for length in lengths:
        start, stop = stop, stop + length
        yield range(start, stop)
