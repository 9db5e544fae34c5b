"""Lesson 4: beam search over fork, append and end (paper, sections 4.4 and 5.2)."""

from typing import NamedTuple

import torch
from torch import Tensor

from minipaged.decoding.options import Options
from minipaged.decoding.strategy import Failed, Output, Strategy, Turn, or_failed
from minipaged.scheduling.breed import breed
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence

# Added to a score, it rules a candidate out, as in HuggingFace's search.
NEVER = -1e9


class Hypothesis(NamedTuple):
    """An answer of a beam search: its new tokens, and its score when it is returned."""

    tokens: list[int]
    score: float = 0.0


class Candidates(NamedTuple):
    """The K best next tokens over all of a request's beams, best first."""

    scores: Tensor  # [K] sums of log-probabilities
    beams: Tensor  # [K] the beam that each token would extend
    tokens: Tensor  # [K]


class Beams(Strategy):
    """The beam search of one request, as HuggingFace does it.

    Attributes, with W beams:
        running_scores: [W] summed log-probabilities of running beams, best first.
        best: the W best Hypotheses that have ended, best first; at first, empty ones.
        best_scores: [W] scores of `best`, with the length penalty.
        ended: [W] which Hypotheses in `best` have really ended.
        num_new: how many new tokens each running beam has.
        answers: the Hypotheses to return, once the search is over.
    """

    def __init__(self, options: Options, device: torch.device | str = "cpu"):
        """At first one beam counts: equal beams would do the same for ever."""
        width = options.num_beams
        self.options = options
        size = {"dtype": torch.float32, "device": device}
        self.running_scores = torch.full((width,), NEVER, **size)
        self.running_scores[0] = 0.0
        self.best = [Hypothesis([])] * width
        self.best_scores = torch.full_like(self.running_scores, NEVER)
        self.ended = torch.zeros_like(self.best_scores, dtype=torch.bool)
        self.num_new = 0
        self.answers: list[Hypothesis] | None = None

    @classmethod
    def choose(cls, turns: list[Turn], logits: Tensor) -> list[Candidates | Failed]:
        """The best next tokens of every request's beams."""
        return [or_failed(_candidates, turn, logits) for turn in turns]

    def apply(self, turn: Turn, choice: Candidates) -> None:
        """Extend the beams by one token, or end the search.

        Beams without children end. Beams with several are forked: their blocks are
        shared, and copied only when children write different tokens into one block.
        """
        options = self.options
        parents = _parents(turn.request)
        scores = choice.scores
        sources = choice.beams.tolist()
        tokens = choice.tokens.tolist()
        self.num_new += 1
        is_last = self.num_new == options.max_new_tokens
        ends = torch.tensor(
            [is_last or token in options.eos_ids for token in tokens],
            device=scores.device,
        )
        running, chosen = (scores + ends.float() * NEVER).topk(options.num_beams)
        self._keep_the_best(parents, scores, sources, tokens, ends)
        self.running_scores = running
        full = options.early_stopping is True and bool(self.ended.all())
        if full or bool(ends.all()) or not self._can_improve():
            self._finish(turn.request)
        else:
            children = [(sources[index], tokens[index]) for index in chosen.tolist()]
            turn.request.answers = breed(turn.request, parents, children)

    def output(self, request: Request) -> Output:
        """The best answers; "stop" is the reason if all of them ended by themselves."""
        tokens, scores = map(list, zip(*self.answers, strict=True))
        eos = self.options.eos_ids
        reason = "stop" if all(t and t[-1] in eos for t in tokens) else "length"
        return Output(tokens, reason, scores, request.num_cached_tokens)

    def so_far(self, request: Request) -> Output:
        """The best answers, as if this step had been the last one."""
        tokens = [hypothesis.tokens for hypothesis in self.best]
        scores = self.best_scores
        if self.num_new:
            tokens += [sequence.new_tokens for sequence in request.answers]
            length = self.num_new**self.options.length_penalty
            scores = torch.cat([scores, self.running_scores / length])
        scores, best = scores.topk(self.options.num_sequences)
        said = [tokens[index] for index in best.tolist()]
        cached = request.num_cached_tokens
        return Output(said, "aborted", scores.tolist(), cached)

    def _keep_the_best(
        self,
        parents: list[Sequence],
        scores: Tensor,
        sources: list[int],
        tokens: list[int],
        ends: Tensor,
    ) -> None:
        """Merge the texts that end now with those that ended before; keep the best W.

        Only the first W candidates may end: the others are there to go on. All texts
        that end in one step are compared, even if fewer would be enough to stop.

        Args:
            scores, sources, tokens: of the K candidates, best first.
            ends: [K] bool, which of them end the text.
        """
        width = self.options.num_beams
        may_end = ends & (torch.arange(len(tokens), device=ends.device) < width)
        final = scores / self.num_new**self.options.length_penalty
        final = final + (~may_end).float() * NEVER
        self.best_scores, kept = torch.cat([self.best_scores, final]).topk(width)
        self.ended = torch.cat([self.ended, may_end])[kept]
        self.best = [
            self.best[index]
            if index < width
            else _hypothesis(parents[sources[index - width]], tokens[index - width])
            for index in kept.tolist()
        ]

    def _can_improve(self) -> bool:
        """Could a running beam still beat the worst text that has ended?

        Sums only fall, but the length penalty may lift the score of a longer text. With
        early_stopping="never", the most favourable length counts. Otherwise the present
        length counts, which is a heuristic.
        """
        length = self.num_new
        penalty = self.options.length_penalty
        if self.options.early_stopping == "never" and penalty > 0:
            length = self.options.max_new_tokens
        best_possible = self.running_scores[0] / length**penalty
        worst = torch.where(self.ended, self.best_scores.min(), NEVER)
        return bool((best_possible > worst).any())

    def _finish(self, request: Request) -> None:
        request.end("dropped")
        scores = self.best_scores.tolist()
        best = self.best[: self.options.num_sequences]
        self.answers = [
            Hypothesis(hypothesis.tokens, score)
            for hypothesis, score in zip(best, scores, strict=False)
        ]


def _parents(request: Request) -> list[Sequence]:
    """The sequence of each of the W beams; at first, all have the same sequence."""
    live = request.live
    width = request.strategy.options.num_beams
    return live if len(live) == width else live * width


def _candidates(turn: Turn, logits: Tensor) -> Candidates:
    """The best next tokens of W beams: max(2, 1 + e) * W, if e tokens end a text.

    So W can go on even if all tokens that end a text are among the best. For example:
    with 3 beams and 2 such tokens, at most 6 of 9 candidates end.
    """
    search = turn.request.strategy
    parents = _parents(turn.request)
    options = search.options
    rows = list(turn.rows)
    logits = logits[rows if len(rows) == options.num_beams else rows * len(parents)]
    log_probs = torch.log_softmax(logits, dim=-1)
    if options.processors:
        history = [] if options.batch_key else [parent.tokens for parent in parents]
        history = torch.tensor(history, dtype=torch.int64, device=logits.device)
        log_probs = options.processors(history, log_probs)
    total = (log_probs + search.running_scores[:, None]).flatten()
    count = max(2, 1 + len(options.eos_ids)) * options.num_beams
    scores, index = total.topk(count)
    return Candidates(scores, index // logits.shape[1], index % logits.shape[1])


def _hypothesis(parent: Sequence, token: int) -> Hypothesis:
    return Hypothesis([*parent.new_tokens, token])
