"""Lesson 2: modules of a twin on a CPU, called without detours (the border).

On a CPU, a step of a few tokens waits for Python more than for numbers. When a module
is called, torch looks for hooks in several places. It looks up a module's parts and
weights by a function in Python. And a norm of HuggingFace's calls torch six times,
where torch has one function for it.
"""

from functools import cache
from inspect import signature

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

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
            module.__class__ = _direct(kind, _is_torchs_norm(module, twin.dtype))


@cache
def _direct(kind: type[nn.Module], is_torchs_norm: bool) -> type[nn.Module]:
    """A subclass of this class, of the same name, that looks for no hooks."""
    call = _norm if is_torchs_norm else kind.forward
    own = {"__call__": call, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), own)


def _norm(module: nn.Module, hidden_states: Tensor) -> Tensor:
    """An RMSNorm, by one call of torch: [..., size] -> [..., size]."""
    weight = module.weight
    return torch.rms_norm(hidden_states, weight.shape, weight, module.variance_epsilon)


def _is_torchs_norm(module: nn.Module, dtype: torch.dtype) -> bool:
    """Does it compute what torch's `rms_norm` does, to the bit, in this type?"""
    weight = vars(module).get("weight")
    has_eps = hasattr(module, "variance_epsilon")  # HuggingFace's name for it
    if not has_eps or getattr(weight, "dtype", None) != dtype:
        return False
    if weight.dim() != 1 or len(signature(module.forward).parameters) != 1:
        return False
    generator = torch.Generator().manual_seed(0)
    size = 8, len(weight)
    x = torch.randn(size, generator=generator, device=weight.device).to(dtype)
    with torch.inference_mode():
        return torch.equal(module(x), _norm(module, x))
