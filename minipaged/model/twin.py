"""Lesson 2: a model's twin, which has the same weights and nothing else in common."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from minipaged.errors import UnsupportedModel

# What matters only from some distance on. A probe is a few tokens long, so there it is
# made small.
_DISTANCES = ("sliding_window", "floor_scale")


def make_twin(model: PreTrainedModel) -> PreTrainedModel:
    """A second model over the same weights, with modules and configs of its own.

    We change how it attends, and what the user's model does stays as it was: also in
    other threads, and also if we are interrupted. It costs milliseconds, and memory for
    the modules alone.
    """
    shared = chain(_tensors_of(model), _seen_by_hooks(model))
    memo = {id(each): each for each in shared}  # what it knows already is not copied
    try:
        twin = copy.deepcopy(model, memo)
    except Exception as error:
        raise UnsupportedModel(
            f"{type(model).__name__} cannot be copied without its weights: {error}"
        ) from error
    for module, copied in zip(model.modules(), twin.modules(), strict=True):
        if "forward" in vars(module) and is_own_method(module, "forward"):
            del copied.forward  # it would call the user's modules
    return twin


def is_own_method(owner: Any, name: str) -> bool:
    """Is this attribute the method that it hides, or is it compiled from that?"""
    value, method = vars(owner)[name], getattr(type(owner), name, None)
    value = getattr(value, "_torchdynamo_orig_callable", value)
    return callable(method) and value == MethodType(method, owner)


def _tensors_of(model: PreTrainedModel) -> Iterator[torch.Tensor]:
    """Weights, buffers, and tensors that modules keep beside them."""
    yield from chain(model.parameters(), model.buffers())
    for module in model.modules():
        yield from (x for x in vars(module).values() if isinstance(x, torch.Tensor))


def has_own_forward(module: nn.Module) -> bool:
    """Does a function replace its forward, in this object alone?"""
    return isinstance(vars(module).get("forward"), FunctionType)


def hooks_of(module: nn.Module) -> list[Callable]:
    """Its forward hooks, but for those by which HuggingFace takes notes."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    return [hook for hook in hooks if not is_of_huggingface(hook)]


def is_of_huggingface(hook: Callable) -> bool:
    """Is this function one of the library's own?"""
    return str(getattr(hook, "__module__", None)).startswith("transformers.")


def _seen_by_hooks(model: PreTrainedModel) -> Iterator[Any]:
    """What hooks may look at when they are called. It is not copied: it may change."""
    for hook in chain.from_iterable(map(hooks_of, model.modules())):
        seen = [hook]
        if isinstance(hook, MethodType):
            seen = [hook.__self__]
        elif isinstance(hook, partial):
            seen = [*hook.args, *hook.keywords.values()]
        yield from (each for each in seen if not isinstance(each, nn.Module))


def configs_of(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """All config objects that the model's modules look at, each once."""
    configs = (getattr(module, "config", None) for module in model.modules())
    return list({id(c): c for c in configs if c is not None}.values())


@contextmanager
def everything_near(twin: PreTrainedModel, to: int = 3) -> Iterator[None]:
    """Within this block, sliding windows and the like are `to` tokens wide.

    Only ever done to a twin.
    """
    places = [
        (owner, name, value)
        for owner in (*configs_of(twin), *twin.modules())
        for name in _DISTANCES
        if type(value := getattr(owner, name, None)) in (int, float)
    ]
    try:
        for owner, name, _ in places:
            setattr(owner, name, to)
        yield
    finally:
        for owner, name, value in places:
            setattr(owner, name, value)
