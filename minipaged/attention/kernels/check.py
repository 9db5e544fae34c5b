"""Lesson 6: what the kernels can take; all else is refused before a launch.

A kernel believes the sizes that it is given: with a tensor of another shape, it would
read or write somewhere else in memory. Shapes and strides are known without waiting for
the GPU. The numbers in tensors are not: block ids, slots and lengths are only checked
in Triton's interpreter, where nobody has to wait.
"""

import torch

from minipaged.attention.kernels.eight_bits import check_scales
from minipaged.attention.kernels.setup import INTERPRETED

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_OR_GATHERED = "or use attention='gathered'"


def check_attention(
    out: torch.Tensor,
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    block_tables: torch.Tensor,
    context_lengths: torch.Tensor,
    query_starts: torch.Tensor,
    sliding_window: int | None,
    softcap: float | None,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
) -> None:
    """Refuse what the attention kernels would get wrong, and name the alternative."""
    if q.dtype not in DTYPES:
        raise ValueError(
            f"the kernels compute in float32, float16 and bfloat16, not {q.dtype}: "
            f"convert the model with model.float(), {_OR_GATHERED}"
        )
    if key_scale is not None or value_scale is not None:
        of_layer = {"keys": (keys, key_scale), "values": (values, value_scale)}
        check_scales(q.dtype, keys.shape[2], **of_layer)
    elif not keys.dtype == values.dtype == q.dtype:
        raise ValueError(
            f"queries are {q.dtype}, keys {keys.dtype}, values {values.dtype}; "
            "the kernels want all the same"
        )
    if INTERPRETED and q.dtype == torch.bfloat16:
        raise ValueError(
            "Triton's interpreter multiplies bfloat16 matrices wrongly: convert the "
            f"model to float32 or float16, {_OR_GATHERED}"
        )
    check_fit(
        q=(q, "num_tokens num_heads key_dim"),
        keys=(keys, "num_blocks block_size num_kv_heads key_dim"),
        values=(values, "num_blocks block_size num_kv_heads value_dim"),
        out=(out, "num_tokens num_heads value_dim"),
        block_tables=(block_tables, "num_sequences table_width"),
        context_lengths=(context_lengths, "num_sequences"),
        query_starts=(query_starts, "num_sequences+1"),
    )
    if len(query_starts) != len(context_lengths) + 1:
        raise ValueError(
            "query_starts must have one entry more than context_lengths: where the "
            f"tokens end; got {len(query_starts)} and {len(context_lengths)}"
        )
    check_integers(
        block_tables=block_tables,
        context_lengths=context_lengths,
        query_starts=query_starts,
    )
    check_heads(q, keys)
    check_contiguous(keys=keys, values=values, out=out)
    if sliding_window is not None and sliding_window < 1:
        raise ValueError(
            f"sliding_window is {sliding_window}, but a token sees itself: give 1 or "
            "more, or None for no window"
        )
    if softcap == 0:
        raise ValueError("softcap must not be 0; None means that there is none")
    if INTERPRETED and len(context_lengths):
        room = block_tables.shape[1] * keys.shape[1]
        has_new = query_starts.diff() > 0  # nothing is read for the others
        check_range("context_lengths", context_lengths[has_new], 0, room)
        check_range("the start of query_starts", query_starts[[0]], 0, 0)
        check_range("the end of query_starts", query_starts[[-1]], len(q), len(q))
        device = context_lengths.device
        first = torch.arange(block_tables.shape[1], device=device) * keys.shape[1]
        used = first < context_lengths[:, None]
        used &= has_new[:, None]
        check_range("block_tables", block_tables[used], 0, len(keys) - 1)


def check_sinks(q: torch.Tensor, sinks: torch.Tensor | None) -> None:
    """Refuse sinks unless there is a number for each query head."""
    if sinks is not None:
        check_fit(q=(q, "num_tokens num_heads key_dim"), sinks=(sinks, "num_heads"))
        check_contiguous(sinks=sinks)


def check_fit(**tensors: tuple[torch.Tensor, str]) -> None:
    """Refuse tensors whose shapes do not fit together, or on different devices.

    tensors: by name, each with the names of its dimensions. Dimensions of the same name
    must have the same size.
    """
    check_devices(**{name: tensor for name, (tensor, _) in tensors.items()})
    sizes: dict[str, int] = {}
    for name, (tensor, text) in tensors.items():
        dims, shape = text.split(), tensor.shape
        if len(dims) != len(shape) or any(
            sizes.setdefault(dim, size) != size
            for dim, size in zip(dims, shape, strict=True)
        ):
            known = (f"{dim}={sizes[dim]}" if dim in sizes else dim for dim in dims)
            raise ValueError(f"{name} must be [{', '.join(known)}], got {list(shape)}")


def check_devices(**tensors: torch.Tensor) -> None:
    """Refuse tensors where no kernel runs, or that are not all on one device."""
    devices = {tensor.device for tensor in tensors.values()}
    runs_here = INTERPRETED or all(device.type == "cuda" for device in devices)
    if runs_here and len(devices) == 1:
        return
    found = ", ".join(f"{name} on {tensor.device}" for name, tensor in tensors.items())
    if runs_here:
        raise ValueError(f"move all tensors to one device; found {found}")
    raise ValueError(
        f"found {found}, but the kernels run on the GPU: move the model with "
        f"model.to('cuda'), {_OR_GATHERED}; or set TRITON_INTERPRET=1 before Python "
        "starts, to run them slowly on the CPU"
    )


def check_heads(q: torch.Tensor, keys: torch.Tensor) -> None:
    """Refuse query heads that the KV heads cannot share evenly."""
    num_heads, num_kv_heads = q.shape[1], keys.shape[2]
    if min(num_heads, num_kv_heads) == 0 or num_heads % num_kv_heads:
        raise ValueError(
            f"{num_heads} query heads cannot share {num_kv_heads} KV heads evenly"
        )


def check_contiguous(**tensors: torch.Tensor) -> None:
    """Refuse gaps in tensors that are too large to copy, or are written."""
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"the kernels want {name} to be contiguous, as KVCache makes "
                f"keys and values; {_OR_GATHERED}"
            )


def check_integers(**tensors: torch.Tensor) -> None:
    """Refuse indices of other dtypes than int64 and int32."""
    for name, tensor in tensors.items():
        if tensor.dtype not in (torch.int64, torch.int32):
            raise ValueError(f"{name} must be int64 or int32, not {tensor.dtype}")


def check_range(name: str, ids: torch.Tensor, first: int, last: int) -> None:
    """Refuse numbers out of range, in the interpreter; a GPU believes them."""
    if INTERPRETED and ids.numel() and (ids.min() < first or ids.max() > last):
        raise ValueError(
            f"{name} must lie in {first} to {last}, got {ids.min()} to {ids.max()}"
        )


def without_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy if there are gaps between the numbers of a row."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
