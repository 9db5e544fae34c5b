"""Lesson 2: greedy and random sampling; lesson 4: n samples (paper, section 4.4)."""

from itertools import chain

import torch

from minipaged.decoding.request import Request, Turn
from minipaged.decoding.sequence import Sequence


def advance(turns: list[Turn], logits: torch.Tensor) -> None:
    """Choose each sequence's next token, append it, and free what has ended.

    Requests whose processors look only at the logits and are equal go through them
    together, as one tensor. At its first turn a request is forked into as many samples
    as it wants; they share the prompt's blocks.

    Args:
        turns: the requests, with the rows of `logits` of their live sequences.
        logits: [R, vocabulary] float32.
    """
    groups: dict[object, list[Turn]] = {}
    for turn in turns:
        # A request whose processors look at its tokens so far is a group alone.
        key = turn.request.options.batch_key or turn.request
        groups.setdefault(key, []).append(turn)
    for group in groups.values():
        rows = [_rows_of_samples(turn) for turn in group]
        for turn in group:
            _fork_samples(turn.request)
        tokens = iter(_choose(group, rows, logits))
        for turn in group:
            for sequence in turn.request.sequences:
                token = next(tokens)
                if sequence.finish_reason is None:
                    _append(turn.request, sequence, token)


def _rows_of_samples(turn: Turn) -> list[int]:
    """For every sample of the request, in order, the row of logits it draws from.

    At first there is one row for all. Later, ended samples keep drawing, from any row,
    and their tokens are thrown away: so the random numbers that the others get are
    those of HuggingFace's batch of n rows.
    """
    options, sequences = turn.request.options, turn.request.sequences
    if len(sequences) < options.num_sequences:
        return [turn.rows[0]] * options.num_sequences
    rows = iter(turn.rows)
    return [
        next(rows) if sequence.finish_reason is None else turn.rows[0]
        for sequence in sequences
    ]


def _fork_samples(request: Request) -> None:
    while len(request.sequences) < request.options.num_sequences:
        request.fork(request.sequences[0])


def _choose(
    group: list[Turn], rows: list[list[int]], logits: torch.Tensor
) -> list[int]:
    """The next token of every sample of these requests, ended ones included."""
    index = list(chain.from_iterable(rows))
    scores = logits if index == list(range(len(logits))) else logits[index]
    options = group[0].request.options
    if options.processors:
        history = [] if options.batch_key else _tokens_so_far(group[0].request)
        history = torch.tensor(history, dtype=torch.int64, device=logits.device)
        scores = options.processors(history, scores)
    if not options.do_sample:
        return scores.argmax(dim=-1).tolist()
    probabilities = torch.softmax(scores, dim=-1).split([len(own) for own in rows])
    return _draw([turn.request.generator for turn in group], probabilities)


def _tokens_so_far(request: Request) -> list[list[int]]:
    """[samples, length]: for ended samples a living one's; the result is unused."""
    living = request.live[0].tokens
    return [
        sequence.tokens if sequence.finish_reason is None else living
        for sequence in request.sequences
    ]


def _draw(
    generators: list[torch.Generator | None], probabilities: tuple[torch.Tensor, ...]
) -> list[int]:
    """One random token per row: unseeded requests in one draw, seeded ones alone."""
    unseeded = [p for g, p in zip(generators, probabilities, strict=True) if g is None]
    drawn = iter(())
    if unseeded:
        together = torch.multinomial(torch.cat(unseeded), 1)
        drawn = iter(together.split([len(own) for own in unseeded]))
    draws = [
        next(drawn) if g is None else torch.multinomial(p, 1, generator=g)
        for g, p in zip(generators, probabilities, strict=True)
    ]
    return torch.cat(draws)[:, 0].tolist()


def _append(request: Request, sequence: Sequence, token: int) -> None:
    sequence.append(token)
    num_new = len(sequence.tokens) - sequence.num_prompt_tokens
    if token in request.options.eos_ids:
        sequence.free("stop")
    elif num_new == request.options.max_new_tokens:
        sequence.free("length")
