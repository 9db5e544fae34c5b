"""Lesson 2: greedy and random sampling; lesson 4: n samples (paper, section 4.4)."""

from itertools import chain, groupby

import torch

from minipaged.decoding.request import Request, Turn
from minipaged.decoding.sequence import Sequence


def advance(turns: list[Turn], logits: torch.Tensor) -> None:
    """Choose each sequence's next token, append it, and free what has ended.

    Requests whose processors look only at the logits and are equal go through them
    together, as one tensor.

    Args:
        turns: the requests, with the rows of `logits` of their live sequences.
        logits: [R, vocabulary] float32.
    """
    turns = sorted(turns, key=_group_of)
    for (key, *_), group in groupby(turns, key=_group_of):
        chosen = _choose(list(group), logits, together=key != "")
        for request, tokens in chosen:
            for sequence, token in zip(request.sequences, tokens, strict=True):
                if sequence.finish_reason is None:
                    _append(request, sequence, token)


def _group_of(turn: Turn) -> tuple[str, int]:
    key = turn.request.options.batch_key
    return ("", id(turn.request)) if key is None else (key, 0)


def _choose(
    turns: list[Turn], logits: torch.Tensor, together: bool
) -> list[tuple[Request, list[int]]]:
    """The next token of every sample of these requests, ended ones included."""
    rows = [_rows_of_samples(turn) for turn in turns]
    index = list(chain.from_iterable(rows))
    if index != list(range(len(logits))):
        logits = logits[index]
    options = turns[0].request.options
    scores = logits
    if options.processors:
        tokens = [] if together else _tokens_so_far(turns[0].request)
        history = torch.tensor(tokens, dtype=torch.int64, device=logits.device)
        scores = options.processors(history, logits)
    if not options.do_sample:
        tokens = scores.argmax(dim=-1).tolist()
    else:
        probabilities = torch.softmax(scores, dim=-1)
        tokens = _draw(turns, probabilities.split([len(r) for r in rows]))
    chosen, start = [], 0
    for turn, own in zip(turns, rows, strict=True):
        chosen.append((turn.request, tokens[start : start + len(own)]))
        start += len(own)
    return chosen


def _rows_of_samples(turn: Turn) -> list[int]:
    """For every sample of the request, in order, the row of logits it draws from.

    At its first turn a request has one sequence and one row: it is forked here into as
    many samples as are wanted, which share the prompt's blocks. Ended samples keep
    drawing, from any row, and their tokens are thrown away: so the random numbers that
    the others get are those of HuggingFace's batch of n rows.
    """
    request = turn.request
    missing = request.options.num_sequences - len(request.sequences)
    if missing:
        for _ in range(missing):
            request.sequences.append(request.sequences[0].fork())
        return [turn.rows[0]] * len(request.sequences)
    rows = iter(turn.rows)
    return [
        next(rows) if sequence.finish_reason is None else turn.rows[0]
        for sequence in request.sequences
    ]


def _tokens_so_far(request: Request) -> list[list[int]]:
    """[samples, length]: for ended samples a living one's; the result is unused."""
    living = request.live[0].tokens
    return [
        sequence.tokens if sequence.finish_reason is None else living
        for sequence in request.sequences
    ]


def _draw(turns: list[Turn], probabilities: tuple[torch.Tensor, ...]) -> list[int]:
    """One random token per row: unseeded requests in one draw, seeded ones alone."""
    draws: list[torch.Tensor | None] = []
    shared = []
    for turn, own in zip(turns, probabilities, strict=True):
        generator = turn.request.generator
        if generator is None:
            shared.append(own)
            draws.append(None)
        else:
            draws.append(torch.multinomial(own, 1, generator=generator))
    if shared:
        drawn = torch.multinomial(torch.cat(shared), 1)
        parts = iter(drawn.split([len(own) for own in shared]))
        draws = [next(parts) if draw is None else draw for draw in draws]
    return torch.cat(draws)[:, 0].tolist()


def _append(request: Request, sequence: Sequence, token: int) -> None:
    sequence.append(token)
    num_new = len(sequence.tokens) - sequence.num_prompt_tokens
    if token in request.options.eos_ids:
        sequence.free("stop")
    elif num_new == request.options.max_new_tokens:
        sequence.free("length")
