"""Lesson 2: modules of a twin on a CPU, called without detours (the border).

On a CPU, a step of a few tokens waits for Python more than for numbers. When a module
is called, torch looks for hooks in several places. It looks up a module's parts and
weights by a function in Python, as HuggingFace does with the settings of a config. And
a norm of HuggingFace's makes more tensors than it needs.
"""

from collections.abc import Callable
from functools import cache
from inspect import signature

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from minipaged.model.twin import configs_of

_KNOWN = "torch.nn.modules.", "transformers."


def call_directly(twin: PreTrainedModel) -> None:
    """From now on, a call of a module of this twin is a call of its forward.

    Only modules that have hooks look for hooks; no other hook may be added later.
    Nothing changes if weights may be exchanged whenever a module runs: by adapters, or
    another module that is neither torch's nor HuggingFace's; and by HuggingFace, if the
    model is shared out among ranks.
    """
    modules = list(twin.modules())
    is_shared_out = (twin.tp_size or 1) > 1
    if is_shared_out or not all(
        type(one).__module__.startswith(_KNOWN) for one in modules
    ):
        return
    for module in modules:
        # Plain attributes are found at once.
        vars(module).update(module._modules | module._parameters)
        kind = type(module)
        is_usual = kind.__call__ is nn.Module.__call__ and "forward" not in vars(module)
        has_hooks = module._forward_hooks or module._forward_pre_hooks
        if is_usual and not has_hooks and not isinstance(module, PreTrainedModel):
            call = _norm_like(module, twin.dtype) or kind.forward
            module.__class__ = _subclass(kind, "__call__", call)
    for config in configs_of(twin):
        if _has_plain_names(config):
            look_up = object.__getattribute__
            config.__class__ = _subclass(type(config), "__getattribute__", look_up)


@cache
def _subclass(kind: type, name: str, method: Callable) -> type:
    """A subclass of this class, of the same name, with this method."""
    return type(kind.__name__, (kind,), {name: method, "__module__": kind.__module__})


def _has_plain_names(config: object) -> bool:
    """Is each setting found under its own name, and the same for all layers?"""
    if not isinstance(config, PreTrainedConfig):
        return False
    return not config.attribute_map and not getattr(config, "is_heterogeneous", False)


def _norm(module: nn.Module, hidden_states: Tensor) -> Tensor:
    """An RMSNorm in float32, in place where that can be: [..., size] -> [..., size]."""
    squares = torch.sum(hidden_states * hidden_states, -1, True)
    means = squares.div_(hidden_states.shape[-1])
    scale = means.add_(module.variance_epsilon).rsqrt_()
    return (hidden_states * scale).mul_(module.weight)


def _torchs_norm(module: nn.Module, hidden_states: Tensor) -> Tensor:
    """An RMSNorm in any type, by one call of torch: [..., size] -> [..., size]."""
    weight = module.weight
    return torch.rms_norm(hidden_states, weight.shape, weight, module.variance_epsilon)


def _norm_like(module: nn.Module, dtype: torch.dtype) -> Callable | None:
    """The quickest norm that computes what this module does, to the bit; or None."""
    weight = vars(module).get("weight")
    has_eps = hasattr(module, "variance_epsilon")  # HuggingFace's name for it
    if not has_eps or getattr(weight, "dtype", None) != dtype:
        return None
    if weight.dim() != 1 or len(signature(module.forward).parameters) != 1:
        return None
    generator = torch.Generator().manual_seed(0)
    size = 8, len(weight)
    x = torch.randn(size, generator=generator, device=weight.device).to(dtype)
    with torch.inference_mode():
        theirs = module(x)
        norms = _norm, _torchs_norm
        return next((n for n in norms if torch.equal(theirs, n(module, x))), None)
