"""Lesson 2: a model's twin, which has the same weights and nothing else in common."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from minipaged.errors import UnsupportedModel

# Settings that matter only beyond some distance. A probe is a few tokens long, so they
# are made small there.
_DISTANCES = ("sliding_window", "floor_scale")


def make_twin(model: PreTrainedModel) -> PreTrainedModel:
    """A second model over the same weights, with modules and configs of its own.

    We change how the twin attends. The user's model stays as it was, also in other
    threads, and also if we are interrupted. A twin costs milliseconds, and memory for
    the modules alone.
    """
    shared = chain(_tensors_of(model), _seen_by_hooks(model))
    memo = {id(known): known for known in shared}  # `deepcopy` does not copy these
    try:
        twin = copy.deepcopy(model, memo)
    except Exception as error:
        raise UnsupportedModel(
            f"{type(model).__name__} cannot be copied without its weights: {error}"
        ) from error
    for module, copied in zip(model.modules(), twin.modules(), strict=True):
        if "forward" in vars(module) and is_own_method(module, "forward"):
            del copied.forward  # it would call the user's modules
        elif is_of_huggingface(forward := vars(module).get("forward")):
            copied.forward = _of_copy(forward, module, copied)
    return twin


def _of_copy(forward: FunctionType, module: nn.Module, copied: nn.Module) -> Any:
    """What transformers has put around a module, such as an all-reduce, for its copy.

    It is a function that holds the module, and the method that it replaces.
    """

    def of_copy(value: Any) -> Any:
        if value is module:
            return copied
        if isinstance(value, MethodType) and value.__self__ is module:
            return MethodType(value.__func__, copied)
        if isinstance(value, FunctionType) and is_of_huggingface(value):
            return _of_copy(value, module, copied)
        return value

    if not isinstance(forward, FunctionType):
        return of_copy(forward)
    held = [cell.cell_contents for cell in forward.__closure__ or ()]
    cells = tuple(CellType(of_copy(value)) for value in held)
    code, scope, name = forward.__code__, forward.__globals__, forward.__name__
    return FunctionType(code, scope, name, forward.__defaults__, cells)


def is_own_method(owner: Any, name: str) -> bool:
    """Is this attribute the class's method, or compiled from that method?"""
    value = vars(owner)[name]
    method = getattr(type(owner), name, None)
    value = getattr(value, "_torchdynamo_orig_callable", value)
    return callable(method) and value == MethodType(method, owner)


def _tensors_of(model: PreTrainedModel) -> Iterator[torch.Tensor]:
    """Weights, buffers, and tensors that modules keep beside them."""
    yield from chain(model.parameters(), model.buffers())
    for module in model.modules():
        yield from (x for x in vars(module).values() if isinstance(x, torch.Tensor))


def has_own_forward(module: nn.Module) -> bool:
    """Does a function of the user's replace the forward, in this object alone?"""
    forward = vars(module).get("forward")
    return isinstance(forward, FunctionType) and not is_of_huggingface(forward)


def hooks_of(module: nn.Module) -> list[Callable]:
    """The module's forward hooks, without those by which HuggingFace takes notes."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    return [hook for hook in hooks if not is_of_huggingface(hook)]


def is_of_huggingface(hook: Callable | None) -> bool:
    """Does this hook, or this forward, belong to transformers?"""
    if isinstance(hook, FunctionType):  # a wrapper's `__module__` is what it wraps
        name = hook.__globals__.get("__name__")
    else:
        name = getattr(hook, "__module__", None)
    return str(name).startswith("transformers.")


def _seen_by_hooks(model: PreTrainedModel) -> Iterator[Any]:
    """Objects that hooks may read when called; not copied, because they may change."""
    for hook in chain.from_iterable(map(hooks_of, model.modules())):
        seen = [hook]
        if isinstance(hook, MethodType):
            seen = [hook.__self__]
        elif isinstance(hook, partial):
            seen = [*hook.args, *hook.keywords.values()]
        yield from (x for x in seen if not isinstance(x, nn.Module))


def configs_of(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """All config objects that the model's modules look at, each once."""
    configs = (getattr(module, "config", None) for module in model.modules())
    return list({id(c): c for c in configs if c is not None}.values())


@contextmanager
def everything_near(twin: PreTrainedModel, to: int = 3) -> Iterator[None]:
    """Within this block, sliding windows and the like are `to` tokens wide.

    Only a twin is ever changed like this.
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
