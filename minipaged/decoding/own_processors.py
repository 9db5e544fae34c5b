"""Lesson 2: logits processors of the user (the border)."""

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

Processor = Callable[[Tensor, Tensor], Tensor]  # (tokens so far, scores) -> scores


def check_processors(given: Any) -> LogitsProcessorList:
    """The processors that were given as `logits_processor`, in a new list.

    Raises TypeError for what HuggingFace's `generate` cannot call with two arguments.
    """
    wanted = (
        "logits_processor must be a list of callables, (tokens so far, scores) -> "
        "scores, such as transformers.LogitsProcessorList([...])"
    )
    if given is None:
        return LogitsProcessorList()
    if not isinstance(given, Iterable):
        raise TypeError(f"{wanted}, got {given!r:.60}")
    processors = LogitsProcessorList(given)
    for processor in processors:
        if not callable(processor):
            raise TypeError(f"{wanted}; {processor!r:.60} cannot be called")
        if len(signature(processor.__call__).parameters) > 2:
            raise TypeError(f"{wanted}; {processor!r:.60} takes other arguments")
    return processors


class Guarded(LogitsProcessor):
    """A processor that may write into its scores, and must keep shape and device.

    As with HuggingFace, it gets a copy of one request's scores, without gradients.
    """

    def __init__(self, processor: Processor):
        """It is called for a single request at a time."""
        self.processor = processor

    @torch.no_grad()
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Its scores; ValueError if they have another shape, or another device."""
        out = self.processor(input_ids, scores.clone())
        wanted = _kind(scores)
        got = _kind(out)
        if got != wanted:
            raise ValueError(
                f"{self.processor!r:.60} must return scores of {wanted}, got {got}"
            )
        return out


def _kind(scores: Any) -> str:
    """What must not change, in words, such as: shape (1, 96) on cpu."""
    if not isinstance(scores, Tensor):
        return type(scores).__name__
    return f"shape {tuple(scores.shape)} on {scores.device}"
