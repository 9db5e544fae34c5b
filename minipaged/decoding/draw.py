"""Lesson 2: from logits to tokens, number for number as HuggingFace (the border)."""

from itertools import chain

import torch
from torch import Tensor

from minipaged.decoding.strategy import Turn
from minipaged.scheduling.request import Request


def rows_of_samples(turn: Turn) -> range | list[int]:
    """For every sample of the request, in order, the row of logits it draws from.

    At first all samples have the same row. Later, ended samples keep drawing, from any
    row, and their tokens are dropped: so the others get the random numbers that they
    get in HuggingFace's batch of n rows. For example: if turn.rows is range(4, 6), and
    the second of three samples has ended, the rows are [4, 4, 5].
    """
    sequences = turn.request.answers
    num_samples = turn.request.num_parallel
    if num_samples == 1:
        return turn.rows
    if len(sequences) < num_samples:
        return [turn.rows[0]] * num_samples
    rows = iter(turn.rows)
    return [
        next(rows) if sequence.finish_reason is None else turn.rows[0]
        for sequence in sequences
    ]


# The token of a row that torch cannot draw from: its probabilities are NaN.
NO_TOKEN = -1


def next_tokens(
    group: list[Turn],
    rows: list[range | list[int]],
    logits: Tensor,
    texts: list[list[int]] | None = None,
) -> Tensor:
    """[samples of all these requests] int64: the likeliest tokens, or random tokens.

    rows: of each request's samples. texts: the text before each row's token; by
    default, a sample's tokens so far. NO_TOKEN where torch, and so HuggingFace, refuses
    to draw.
    """
    scores = scores_of(group, rows, logits, texts)
    if not group[0].request.strategy.options.do_sample:
        return likeliest(scores)
    probabilities, wrong = probabilities_of(scores)
    generators = [turn.request.strategy.generator for turn in group]
    if any(generators):
        tokens = draw_each(generators, probabilities.split(list(map(len, rows))))
    else:
        tokens = torch.multinomial(probabilities, 1)
    return tokens.masked_fill_(wrong, NO_TOKEN)[:, 0]


def scores_of(
    group: list[Turn],
    rows: list[range | list[int]],
    logits: Tensor,
    texts: list[list[int]] | None = None,
) -> Tensor:
    """These rows of the logits, after the processors; arguments as of `next_tokens`."""
    index = list(chain.from_iterable(rows))
    scores = logits if index == list(range(len(logits))) else logits[index]
    options = group[0].request.strategy.options
    if options.processors:
        if texts is None:
            texts = _tokens_so_far(group[0].request)
        history = [] if options.batch_key else texts
        history = torch.tensor(history, dtype=torch.int64, device=logits.device)
        scores = options.processors(history, scores)
    return scores


def probabilities_of(scores: Tensor) -> tuple[Tensor, Tensor]:
    """[rows, vocabulary], and which rows torch cannot draw from: [rows, 1] bool.

    In these rows, all tokens have the same number.
    """
    probabilities = torch.softmax(scores, dim=-1)
    # Softmax fills a row with NaN if a score is NaN or infinite, or if all tokens are
    # forbidden. Torch raises for such a row; a GPU then computes nothing any more.
    wrong = probabilities[:, :1].isnan()
    if not wrong.is_cpu or wrong.any():  # on a GPU, any() would wait
        probabilities.masked_fill_(wrong, 1.0)
    return probabilities, wrong


def likeliest(scores: Tensor) -> Tensor:
    """`scores.argmax(dim=-1)`. On a CPU numpy finds the same in less time."""
    if scores.device.type != "cpu" or scores.dtype != torch.float32:
        return scores.argmax(dim=-1)
    return torch.from_numpy(scores.detach().numpy().argmax(axis=-1))


def _tokens_so_far(request: Request) -> list[list[int]]:
    """[samples, length]; for an ended sample, whose draw is dropped, a living one's."""
    living = request.live[0].tokens
    texts = [
        sequence.tokens if sequence.finish_reason is None else living
        for sequence in request.answers
    ]
    return texts if len(texts) == request.num_parallel else texts * request.num_parallel


def draw_each(
    generators: list[torch.Generator | None], probabilities: tuple[Tensor, ...]
) -> Tensor:
    """A random token per row: unseeded requests in one draw, each seeded one alone.

    Each request has a generator or None, and probabilities: [its rows, vocabulary].
    """
    unseeded = [p for g, p in zip(generators, probabilities, strict=True) if g is None]
    drawn = iter(())
    if unseeded:
        together = torch.multinomial(torch.cat(unseeded), 1)
        drawn = iter(together.split(list(map(len, unseeded))))
    draws = [
        next(drawn) if g is None else torch.multinomial(p, 1, generator=g)
        for g, p in zip(generators, probabilities, strict=True)
    ]
    return torch.cat(draws)
