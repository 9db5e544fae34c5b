"""Lesson 2: how tokens are chosen, the base of sampling and beam search."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minipaged.errors import is_out_of_memory
from minipaged.scheduling.next_works import NextWorks
from minipaged.scheduling.request import Request

_log = logging.getLogger("minipaged.decoding")


class Turn(NamedTuple):
    """A request whose logits have come, with the rows that belong to its sequences."""

    request: Request
    rows: range  # of the logits; mostly one for each living sequence, in order


class Failed(NamedTuple):
    """Takes the place of a choice: why no token can be chosen for a request."""

    reason: str


def or_failed(choose: Callable[..., Any], *arguments: Any) -> Any:
    """What `choose` returns; Failed if it raises, so that other requests can go on.

    Errors of memory and of the device are raised: they concern all requests.
    """
    try:
        return choose(*arguments)
    except Exception as error:
        if is_out_of_memory(error) or isinstance(error, torch.AcceleratorError):
            raise
        _log.info("a request failed", exc_info=True)
        kind = type(error).__name__
        return Failed(f"no token can be chosen ({kind}: {error!s:.200})")


class Strategy(NextWorks):
    """One object for each request; it remembers what it must.

    In a step, the class chooses for all of its requests together; then each object
    applies what was chosen for its request.
    """

    @classmethod
    def choose(cls, turns: list[Turn], logits: Tensor) -> list[Any]:
        """What each turn's request will do; called once a step for all of this type.

        It changes no request, and does not wait for the device. logits: [R, vocabulary]
        float32, on the device. Return Failed for a request for which nothing can be
        chosen: an exception undoes the whole step.
        """
        raise NotImplementedError

    def apply(self, turn: Turn, choice: Any) -> None:
        """Do what was chosen: append, fork, take guesses back, mark as ended.

        The scheduler frees the blocks of what has ended.
        """
        raise NotImplementedError

    def output(self, request: Request) -> "Output":
        """The answer, once no sequence lives."""
        raise NotImplementedError

    def so_far(self, request: Request) -> "Output":
        """The answer of an aborted request: its tokens until then."""
        raise NotImplementedError

    def save(self) -> Any:
        """The state now, for `restore`.

        A shallow copy. So `apply` must replace lists and dicts, not change them; else
        the class overrides `save`.
        """
        return vars(self).copy()

    def restore(self, saved: Any) -> None:
        """Return to the state that was saved."""
        vars(self).update(saved)


def output_of(request: Request) -> "Output":
    """The answer of a request that has ended, in whatever way."""
    if request.error is not None:
        return Output([], "error", error=request.error)
    if any(answer.finish_reason == "aborted" for answer in request.answers):
        return request.strategy.so_far(request)
    return request.strategy.output(request)


class TokenLogprob(NamedTuple):
    """How likely a token was: the log-softmax of the logits as the model makes them.

    In float32, before temperature, penalties and other changes of logits.
    """

    token: int
    logprob: float  # -inf for a prompt token that has no logit of its own
    top: list[tuple[int, float]]  # the likeliest tokens with logprobs, likeliest first


@dataclass(frozen=True)
class Output:
    """What `generate` returns for one prompt.

    sequences: lists of new token ids, as HuggingFace would return them: without the
    prompt, an eos kept, no padding. Empty if `finish_reason` is "error". If fewer beams
    could end than are asked for, the last lists are no answers: their scores are below
    -1e8.
    logprobs: of each token of each sequence, if asked for. prompt_logprobs: of each
    token of the prompt, if asked for; None for the first: no logits foretell it.
    """

    sequences: list[list[int]]
    finish_reason: str  # "stop" (by eos or stop string), "length", "error", "aborted"
    scores: list[float] | None = None  # of beams; None for greedy and sampling
    num_cached_tokens: int = 0  # prompt tokens found in a prefix cache
    error: str | None = None
    logprobs: list[list[TokenLogprob]] | None = None
    prompt_logprobs: list[TokenLogprob | None] | None = None
