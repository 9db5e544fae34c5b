"""Lesson 4: beam search over fork, append and free (paper, sections 4.4 and 5.2)."""

from dataclasses import dataclass, field

import torch

from minipaged.decoding.options import Options
from minipaged.decoding.request import Hypothesis, Request, Turn
from minipaged.decoding.sequence import Sequence

# Added to a score, it takes a candidate out of the race, as HuggingFace does.
NEVER = -1e9


@dataclass
class Beams:
    """What a request remembers between two steps; W is the number of beams."""

    running_scores: torch.Tensor  # [W] summed log-probabilities, best first
    best: list[Hypothesis]  # W of them; at first empty ones, that have not ended
    best_scores: torch.Tensor  # [W] with the length penalty, best first
    num_new: int = 0
    ended: torch.Tensor = field(init=False)  # [W] which of `best` have ended

    def __post_init__(self) -> None:
        self.ended = torch.zeros_like(self.best_scores, dtype=torch.bool)

    @classmethod
    def start(cls, width: int, device: torch.device) -> "Beams":
        """One beam that counts: else all of them would do the same for ever."""
        running = torch.full((width,), NEVER, device=device)
        running[0] = 0.0
        return cls(running, [Hypothesis([])] * width, torch.full_like(running, NEVER))


def advance(turns: list[Turn], logits: torch.Tensor) -> None:
    """Extend every request's beams by one token, as HuggingFace's beam search does.

    Beams that fell behind are freed, those with several children forked: their blocks
    are shared, and copied only when children write different tokens into one block.

    Args:
        turns: the requests, with the rows of `logits` of their living sequences.
        logits: [R, vocabulary] float32.
    """
    for turn in turns:
        request, width = turn.request, turn.request.options.num_beams
        if request.beams is None:
            request.beams = Beams.start(width, logits.device)
        # At first there is one sequence, and its logits are those of all beams.
        rows = turn.rows if len(turn.rows) == width else list(turn.rows) * width
        _advance_one(request, logits[rows])


def _advance_one(request: Request, logits: torch.Tensor) -> None:
    """One step of one request; `logits`: [W, vocabulary]."""
    options, beams = request.options, request.beams
    width, parents = options.num_beams, request.live
    if len(parents) == 1:
        parents = parents * width
    scores, sources, tokens = _candidates(options, beams, parents, logits)
    beams.num_new += 1
    is_last = beams.num_new == options.max_new_tokens
    ends = torch.tensor(
        [is_last or token in options.eos_ids for token in tokens], device=scores.device
    )
    running, chosen = (scores + ends * NEVER).topk(width)
    _keep_the_best(options, beams, parents, scores, sources, tokens, ends)
    beams.running_scores = running
    full = options.early_stopping is True and bool(beams.ended.all())
    if full or bool(ends.all()) or not _can_improve(options, beams):
        _finish(request)
    else:
        children = [(sources[index], tokens[index]) for index in chosen.tolist()]
        request.sequences = _breed(request, parents, children)


def _candidates(
    options: Options, beams: Beams, parents: list[Sequence], logits: torch.Tensor
) -> tuple[torch.Tensor, list[int], list[int]]:
    """The K best next tokens over all beams, best first: scores, whose child, token.

    Scores are sums of log-probabilities, [K]. K is so large that W candidates can go on
    even if all that can end a text are among the best.
    """
    log_probs = torch.log_softmax(logits, dim=-1)
    if options.processors:
        history = [] if options.batch_key else [parent.tokens for parent in parents]
        history = torch.tensor(history, dtype=torch.int64, device=logits.device)
        log_probs = options.processors(history, log_probs)
    total = (log_probs + beams.running_scores[:, None]).flatten()
    count = max(2, 1 + len(options.eos_ids)) * options.num_beams
    scores, index = total.topk(count)
    sources = (index // logits.shape[1]).tolist()
    return scores, sources, (index % logits.shape[1]).tolist()


def _keep_the_best(
    options: Options,
    beams: Beams,
    parents: list[Sequence],
    scores: torch.Tensor,
    sources: list[int],
    tokens: list[int],
    ends: torch.Tensor,
) -> None:
    """Merge what has just ended with what had ended before, and keep the best W.

    Only the first W candidates may end: the others are there to go on. All that end in
    one step are compared, also if fewer of them would have been enough to stop.

    Args:
        scores, sources, tokens: of the K candidates, best first, as `_candidates` says.
        ends: [K] bool, which of them end the text.
    """
    width = options.num_beams
    may_end = ends & (torch.arange(len(tokens), device=ends.device) < width)
    final = scores / beams.num_new**options.length_penalty
    final = final + ~may_end * NEVER
    beams.best_scores, kept = torch.cat([beams.best_scores, final]).topk(width)
    beams.ended = torch.cat([beams.ended, may_end])[kept]
    beams.best = [
        beams.best[index]
        if index < width
        else _hypothesis(parents[sources[index - width]], tokens[index - width])
        for index in kept.tolist()
    ]


def _hypothesis(parent: Sequence, token: int) -> Hypothesis:
    return Hypothesis([*parent.new_tokens, token])


def _can_improve(options: Options, beams: Beams) -> bool:
    """Could a running beam still beat the worst that has ended?

    Scores only fall, but the length penalty may lift a longer one. "never" takes the
    most favourable length; otherwise the present one is used, a heuristic.
    """
    length = beams.num_new
    if options.early_stopping == "never" and options.length_penalty > 0:
        length = options.max_new_tokens
    best_possible = beams.running_scores[0] / length**options.length_penalty
    worst = torch.where(beams.ended, beams.best_scores.min(), NEVER)
    return bool((best_possible > worst).any())


def _breed(
    request: Request, parents: list[Sequence], children: list[tuple[int, int]]
) -> list[Sequence]:
    """Fork, append and free, so that every child is a sequence; return them in order.

    children: for each, the index of its parent, and its token.
    """
    heirs: dict[Sequence, list[int]] = {parent: [] for parent in parents}
    for place, (source, _) in enumerate(children):
        heirs[parents[source]].append(place)
    sequences: list[Sequence | None] = [None] * len(children)
    for parent, places in heirs.items():
        if not places:
            parent.free()
            continue
        sequences[places[0]] = parent
        for place in places[1:]:  # forked before the first child's token is appended
            sequences[place] = request.fork(parent)
    for sequence, (_, token) in zip(sequences, children, strict=True):
        sequence.append(token)
    return sequences


def _finish(request: Request) -> None:
    request.free()
    scores = request.beams.best_scores.tolist()
    count = request.options.num_sequences
    request.hypotheses = [
        Hypothesis(one.tokens, score)
        for one, score in zip(request.beams.best[:count], scores, strict=False)
    ]
