"""Lesson 2: how a request's tokens are chosen: what sampling and beam search share."""

import logging
from collections.abc import Callable
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minipaged.errors import is_out_of_memory
from minipaged.scheduling.request import Request
from minipaged.scheduling.turns import Turns

_log = logging.getLogger("minipaged.decoding")


class Turn(NamedTuple):
    """A request whose logits have come, with the rows that belong to its sequences."""

    request: Request
    rows: range  # those of its works: mostly one for each living sequence, in order


class Failed(NamedTuple):
    """In place of a choice: nothing can be chosen for this request, and why."""

    reason: str


def or_failed(choose: Callable[..., Any], *arguments: Any) -> Any:
    """What `choose` returns; Failed if it raises, so that other requests can go on.

    Except for errors that concern all requests: of memory, and of the device.
    """
    try:
        return choose(*arguments)
    except Exception as error:
        if is_out_of_memory(error) or isinstance(error, torch.AcceleratorError):
            raise
        _log.info("a request failed", exc_info=True)
        kind = type(error).__name__
        return Failed(f"no token can be chosen ({kind}: {error!s:.200})")


class Strategy(Turns):
    """One object for each request, which owns all that choosing must remember.

    A step first chooses for all requests, then applies what was chosen to each.
    """

    @classmethod
    def choose(cls, turns: Rows[Turn], logits: Tensor) -> list[Any]:
        """What each turn's request will do; called once a step for all of this type.

        It changes no request, and does not wait for the device. logits: [R, vocabulary]
        float32, on the device. What fails is Failed: for one request, or for those
        whose processors are the same.
        """
        raise NotImplementedError

    def apply(self, turn: Turn, choice: Any) -> None:
        """Do it: append, fork, and mark as ended. Blocks are the scheduler's."""
        raise NotImplementedError

    def output(self, request: Request) -> "Output":
        """The answer, once no sequence lives."""
        raise NotImplementedError

    def so_far(self, request: Request) -> "Output":
        """What an aborted request has said until then."""
        raise NotImplementedError

    def save(self) -> Any:
        """What `restore` needs to forget all that is done from now on."""
        return vars(self).copy()

    def restore(self, saved: Any) -> None:
        """Be as you were when this was saved."""
        vars(self).update(saved)


def output_of(request: Request) -> "Output":
    """What a request answers that has ended, however it did."""
    if request.error is not None:
        return Output([], "error", error=request.error)
    if any(one.finish_reason == "aborted" for one in request.answers):
        return request.strategy.so_far(request)
    return request.strategy.output(request)


class TokenLogprob(NamedTuple):
    """How likely a token was: the log-softmax of the logits as the model makes them.

    In float32, before temperature, penalties and whatever else changes logits.
    """

    token: int
    logprob: float  # -inf if the model has no logit for it, and only reads it
    top: list[tuple[int, float]]  # the likeliest tokens and theirs, likeliest first


@dataclass(frozen=True)
class Output:
    """What `generate` returns for one prompt.

    sequences: lists of new token ids, as HuggingFace would return them: without the
    prompt, an eos kept, no padding. Empty if `finish_reason` is "error". If fewer beams
    could end than are asked for, the rest are no answers: their scores are below -1e8.
    logprobs: of each token of each sequence, if asked for. prompt_logprobs: of each
    token of the prompt, if asked for; None for the first, which nothing foretells.
    """

    sequences: list[list[int]]
    finish_reason: str  # "stop" (by eos or stop string), "length", "error", "aborted"
    scores: list[float] | None = None  # of beams; None for greedy and sampling
    num_cached_tokens: int = 0  # prompt tokens found in a prefix cache
    error: str | None = None
    logprobs: list[list[TokenLogprob]] | None = None
    prompt_logprobs: list[TokenLogprob | None] | None = None
