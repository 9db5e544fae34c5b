"""Lesson 2: how an unmodified HuggingFace model calls an attention of ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from minipaged.attention.backend import Masking
from minipaged.model.keywords import masking_of
from minipaged.model.twin import configs_of

# attend(number, q, k, v, masking) -> [T, num_heads, value_dim]; number: the module's
LayerAttend = Callable[[int, Tensor, Tensor, Tensor, Masking], Tensor]

_NAME = "minipaged"
_attend: ContextVar[LayerAttend] = ContextVar("minipaged attention")


def connect(twin: PreTrainedModel) -> None:
    """From now on, the twin's attention layers call what `attending` is given.

    Each looks up its function by a name in its config, at every call. Modules get
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
    """What HuggingFace's layers call; refuses whatever would be silently wrong."""
    masking = masking_of(module, query, attention_mask, asked)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # [T, heads, dim]
    return paged_attention(q, k, v, module.minipaged_number, *masking)[None], None


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
    """Write K and V, and attend: one operator of torch, which a compiler leaves as is.

    q: [T, num_heads, key_dim], k and v the new tokens' [T, num_kv_heads, dim]. `number`
    is that of the attention module in the twin. Returns [T, num_heads, value_dim].
    """
    attend = _attend.get(None)
    if attend is None:
        raise RuntimeError("a twin runs through PagedModel.forward only, not by itself")
    masking = Masking(scale, sliding_window, softcap, sinks)
    out = attend(number, q, k, v, masking).contiguous()
    # An operator must not return what it was given; a function of the reader's may.
    given = q.data_ptr(), k.data_ptr(), v.data_ptr()
    return out.clone() if out.data_ptr() in given else out


@paged_attention.register_fake
def _(q, k, v, *_options):
    return q.new_empty(*q.shape[:2], v.shape[2])
