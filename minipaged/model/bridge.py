"""Lesson 2: how an unmodified HuggingFace model calls an attention of ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from minipaged.attention.backend import Masking
from minipaged.model.keywords import refuse_keywords
from minipaged.model.twin import configs_of

# attend(number, q, k, v, masking) -> [T, num_heads, value_dim]; number: the module's
LayerAttend = Callable[[int, Tensor, Tensor, Tensor, Masking], Tensor]

_NAME = "minipaged"
_attend: ContextVar[LayerAttend] = ContextVar("minipaged attention")


def connect(twin: PreTrainedModel) -> None:
    """From now on, the twin's attention layers call what `attending` is given.

    Every attention layer of a current HuggingFace model looks up its function by a name
    in its config at each call. Modules get numbers, by which attention knows its layer:
    an operator of torch takes tensors and numbers, but no modules.
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
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,  # [num_heads]: attention sinks
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What HuggingFace's layers call; refuses whatever would be silently wrong."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    refuse_keywords(module, attention_mask, dropout, causal, kwargs)
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # [T, heads, dim]
    number = module.minipaged_number
    out = paged_attention(q, k, v, number, scaling, sliding_window, softcap, s_aux)
    return out[None], None


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
    """Attention as one operator of torch: a compiler passes it through as it is.

    q: [T, num_heads, key_dim], k and v the new tokens' [T, num_kv_heads, dim]. `number`
    is that of the attention module in the twin. Returns [T, num_heads, value_dim].
    """
    attend = _attend.get(None)
    if attend is None:
        raise RuntimeError("a twin runs through PagedModel.forward only, not by itself")
    out = attend(number, q, k, v, Masking(scale, sliding_window, softcap, sinks))
    out = out.contiguous()
    # An operator must not return what it was given; a function of the reader's may.
    return (
        out.clone()
        if out.data_ptr() in (q.data_ptr(), k.data_ptr(), v.data_ptr())
        else out
    )


@paged_attention.register_fake
def _(q, k, v, *_options):
    return q.new_empty(*q.shape[:2], v.shape[2])
