"""Lesson 2: how an unmodified HuggingFace model calls an attention of ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode
from transformers import AttentionInterface, PreTrainedModel

from minipaged.attention.backend import Masking
from minipaged.model.keywords import masking_of
from minipaged.model.twin import configs_of

# attend(number, q, k, v, masking) -> [T, num_heads, value_dim]; number: of the module
LayerAttend = Callable[[int, Tensor, Tensor, Tensor, Masking], Tensor]

_NAME = "minipaged"
_attend: ContextVar[LayerAttend] = ContextVar("minipaged attention")


def connect(twin: PreTrainedModel) -> None:
    """Make the twin's attention layers call the function that `attending` is given.

    At every call, a layer looks up its function by a name in its config. Modules get
    numbers, because an operator of torch takes tensors and numbers, but no modules.
    """
    AttentionInterface.register(_NAME, _call)
    for config in configs_of(twin):
        config._attn_implementation_internal = _NAME
    for number, module in enumerate(twin.modules()):
        module.minipaged_number = number


@contextmanager
def attending(attend: LayerAttend) -> Iterator[None]:
    """Within this block, in this thread, connected twins attend by `attend`."""
    token = _attend.set(attend)
    try:
        yield
    finally:
        _attend.reset(token)


def _call(
    module: torch.nn.Module,
    query: Tensor,  # [1, num_heads, T, dim]: rotated, normed, ready
    key: Tensor,  # [1, num_kv_heads, T, dim]
    value: Tensor,
    attention_mask: Tensor | None,
    **asked: Any,
) -> tuple[Tensor, None]:
    """HuggingFace's layers call this; it refuses options that we cannot honour."""
    masking = masking_of(module, query, attention_mask, asked)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # [T, heads, dim]
    if torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        # Whoever takes operators one by one takes attention as one.
        out = paged_attention(q, k, v, module.minipaged_number, *masking)
    else:  # an operator's call costs as much as a small layer's attention
        out = _present_attend()(module.minipaged_number, q, k, v, masking)
    return out.contiguous()[None], None  # some models view it in another shape


def _present_attend() -> LayerAttend:
    attend = _attend.get(None)
    if attend is None:
        raise RuntimeError("a twin runs through PagedModel.forward only, not by itself")
    return attend


@torch.library.custom_op("minipaged::paged_attention", mutates_args=())
def paged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    number: int,
    scale: float,
    sliding_window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Write K and V, then attend: an operator of torch that a compiler leaves as it is.

    q: [T, num_heads, key_dim]; k, v: [T, num_kv_heads, dim], of the new tokens; number:
    of the attention module in the twin. Returns [T, num_heads, value_dim].
    """
    masking = Masking(scale, sliding_window, softcap, sinks)
    out = _present_attend()(number, q, k, v, masking).contiguous()
    # An operator must not return its input; a user's attention function may.
    given = q.data_ptr(), k.data_ptr(), v.data_ptr()
    return out.clone() if out.data_ptr() in given else out


@paged_attention.register_fake
def _(q, k, v, *_options):
    return q.new_empty(*q.shape[:2], v.shape[2])
