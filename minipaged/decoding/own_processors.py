"""Lesson 2: logits processors that a user brings along (the border)."""

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

Processor = Callable[[Tensor, Tensor], Tensor]  # (tokens so far, scores) -> scores


def check_processors(given: Any) -> LogitsProcessorList:
    """What was given as `logits_processor`, in a list of our own.

    Raises TypeError for what HuggingFace's `generate` cannot call with two arguments.
    """
    wanted = (
        "logits_processor must be a list of what takes (tokens so far, scores) and "
        "returns scores, such as transformers.LogitsProcessorList([...])"
    )
    if given is None:
        return LogitsProcessorList()
    if not isinstance(given, Iterable):
        raise TypeError(f"{wanted}, got {given!r:.60}")
    processors = LogitsProcessorList(given)
    for each in processors:
        if not callable(each):
            raise TypeError(f"{wanted}; {each!r:.60} cannot be called")
        if len(signature(each.__call__).parameters) > 2:
            raise TypeError(f"{wanted}; {each!r:.60} takes other arguments")
    return processors


class Guarded(LogitsProcessor):
    """A processor that may write into its scores, and must keep their shape and place.

    HuggingFace hands each request scores of its own, without gradients; so do we.
    """

    def __init__(self, processor: Processor):
        """It will be called for a single request at a time."""
        self.processor = processor

    @torch.no_grad()
    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Its scores. ValueError if they are no such tensor on the same device."""
        out = self.processor(input_ids, scores.clone())
        wanted, what = _kind(scores), _kind(out)
        if what != wanted:
            raise ValueError(
                f"{self.processor!r:.60} must return scores of {wanted}, got {what}"
            )
        return out


def _kind(scores: Any) -> str:
    """What must not change of them, in words."""
    if not isinstance(scores, Tensor):
        return type(scores).__name__
    return f"shape {tuple(scores.shape)} on {scores.device}"
