"""Before anything is timed: attention against float64, all else against plain torch."""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu.inputs import (
    BLOCK_SIZE,
    Lengths,
    Shape,
    blocks_of,
    make_batch,
    poison,
    random_pool,
    reference,
    slots_of,
)
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.write import copy_blocks, write_kv
from minipaged.memory.kv_cache import LayerCache

MAX_CHECKED = 64  # new tokens of a sequence, of which the first and the last
MAX_SEQUENCES = 32  # of a case, spread evenly


def check_attention(
    shape: Shape,
    lengths: Lengths,
    *,
    num_blocks: int | None = None,
    block_size: int = BLOCK_SIZE,
    dtype: torch.dtype = torch.bfloat16,
    **options,
) -> dict[str, float]:
    """Our error and that of torch's attention on the same numbers, relative to float64.

    A pool of `num_blocks` (default: a few more than needed) is used from its end.
    Raises AssertionError if ours is NaN, or more than 1.5 times torch's.
    """
    needed = blocks_of(lengths, block_size)
    num_blocks = num_blocks or needed + 7
    keys, values = (t.to(dtype) for t in random_pool(num_blocks, shape, block_size))
    ids = num_blocks - 1 - torch.randperm(needed)
    batch = make_batch(lengths, ids, block_size)
    poison(keys, values, batch, block_size)
    starts = batch.query_starts.tolist()
    q = torch.randn(starts[-1], shape[0], shape[2], device="cuda", dtype=dtype)
    options = {"scale": shape[2] ** -0.5, **options}
    out = triton_attention(q, LayerCache(keys, values), batch, Masking(**options))
    squares = {"ours": 0.0, "torch": 0.0, "reference": 0.0}
    largest = 0.0
    for seq in range(0, len(lengths), -(-len(lengths) // MAX_SEQUENCES)):
        before, new = lengths[seq]
        slots = slots_of(batch.block_tables[seq], before + new, block_size)
        k, v = keys.flatten(0, 1)[slots], values.flatten(0, 1)[slots]
        own = torch.randperm(new, device="cuda")[:MAX_CHECKED]
        own[0], own[-1] = 0, new - 1
        rows = starts[seq] + own
        expected = reference(q[rows], k, v, before + own, **options)
        ours = out[rows].double() - expected
        theirs = _torch_attention(q[rows], k, v, before + own, **options)
        largest = max(largest, ours.abs().max().item())
        for name, error in (
            ("ours", ours),
            ("torch", theirs.double() - expected),
            ("reference", expected),
        ):
            squares[name] += error.square().sum().item()
    whole = squares["reference"]
    ours, theirs = ((squares[name] / whole) ** 0.5 for name in ("ours", "torch"))
    what = f"{shape}, {lengths[:3]}, {dtype}, {options}"
    assert ours <= 1.5 * theirs, f"{what}: error {ours:.1e}, torch's {theirs:.1e}"
    return {
        "relative_error": float(f"{ours:.2e}"),
        "relative_error_of_torch": float(f"{theirs:.2e}"),
        "largest_error": float(f"{largest:.2e}"),
    }


def check_exact(
    shape: Shape, lengths: Lengths, *, block_size: int = BLOCK_SIZE, **options
) -> float:
    """Attention of whole numbers, whose weights are powers of two: no sum is rounded.

    Only the last division is, so every number must be float64's, or its neighbour in
    the few cases that lie between two. Returns the share that equals float64's.
    """
    dtype, device = torch.bfloat16, "cuda"
    needed = blocks_of(lengths, block_size)
    size = (needed, block_size, *shape[1:])
    keys = torch.randint(-1, 2, size, device=device).to(dtype)
    values = torch.randint(-4, 5, size, device=device).to(dtype)
    batch = make_batch(lengths, torch.randperm(needed), block_size)
    poison(keys, values, batch, block_size)
    starts = batch.query_starts.tolist()
    q = torch.zeros(starts[-1], shape[0], shape[2], device=device, dtype=dtype)
    for number in (1.0, 2.0):  # so logits are whole numbers of -3 to 3
        at = torch.randint(0, shape[2], (*q.shape[:2], 1), device=device)
        q.scatter_(2, at, number)
    options = {"scale": math.log(2), **options}
    out = triton_attention(q, LayerCache(keys, values), batch, Masking(**options))
    equal = count = 0
    for seq, (before, new) in enumerate(lengths):
        slots = slots_of(batch.block_tables[seq], before + new, block_size)
        k, v = keys.flatten(0, 1)[slots], values.flatten(0, 1)[slots]
        own = torch.randperm(new, device=device)[:256]
        expected = reference(q[starts[seq] + own], k, v, before + own, **options)
        expected = expected.to(dtype).double()
        error = (out[starts[seq] + own].double() - expected).abs()
        neighbour = expected.abs() * 2**-7 + 1e-6
        assert (error <= neighbour).all(), f"{shape}, {(before, new)}, {options}"
        equal += (error <= 1e-9).sum().item()
        count += error.numel()
    assert equal > 0.9999 * count, f"{shape}, {options}: {equal} of {count}"
    return equal / count


def _torch_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """The same by torch, in the dtype of the inputs; a soft cap by plain operations."""
    seen = torch.arange(len(k), device=q.device)
    visible = seen <= positions[:, None]
    if sliding_window is not None:
        visible &= seen > positions[:, None] - sliding_window
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    if softcap is None:
        if len(positions) == 1 and sliding_window is None:
            visible = None
        out = scaled_dot_product_attention(
            q, k, v, attn_mask=visible, scale=scale, enable_gqa=True
        )
    else:
        group = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
        logits = softcap * torch.tanh(q @ k.transpose(2, 3) * (scale / softcap))
        logits = logits.masked_fill(~visible, float("-inf")).float()
        out = torch.softmax(logits, dim=-1).to(v.dtype) @ v
    return out[0].transpose(0, 1)


def check_writes(num_blocks: int, shape: Shape) -> None:
    """write_kv and copy_blocks at the end of a pool, against plain assignment."""
    keys, values = random_pool(num_blocks, shape)
    slots = num_blocks * BLOCK_SIZE - 1 - torch.randperm(5000, device="cuda")
    slots[::7] = -1
    k, v = (torch.randn(5000, *shape[1:], device="cuda").bfloat16() for _ in range(2))
    real = slots >= 0
    write_kv(keys, values, slots, k, v)
    for blocks, new in ((keys, k), (values, v)):
        assert torch.equal(blocks.flatten(0, 1)[slots[real]], new[real])
    copies = torch.stack([torch.arange(40), num_blocks - 400 - torch.arange(40)], 1)
    copy_blocks([keys, values], copies.cuda())
    for blocks in (keys, values):
        source, destination = copies.T.cuda()
        assert torch.equal(blocks[destination], blocks[source])


def check_graph(shape: Shape) -> None:
    """Captured once, replayed when contexts have grown and tables have changed."""
    lengths = [(999, 1), (99, 1), (0, 1)]
    room = [(4095, 1)] * 3
    keys, values = random_pool(blocks_of(room), shape)
    ids = torch.randperm(blocks_of(room))
    batch = make_batch(room, ids)  # as wide as it will ever be
    batch.min_context_length = 1
    batch.context_lengths.copy_(torch.tensor([a + b for a, b in lengths]))
    q = torch.randn(3, shape[0], shape[2], device="cuda", dtype=torch.bfloat16)
    arguments = q, LayerCache(keys, values), batch, Masking(scale=0.1)
    triton_attention(*arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = triton_attention(*arguments)
    for step in range(3):
        batch.context_lengths += 1000
        batch.block_tables.copy_(batch.block_tables.flip(0))
        q.normal_()
        graph.replay()
        for seq in range(3):
            total = batch.context_lengths[seq].item()
            slots = slots_of(batch.block_tables[seq], total, BLOCK_SIZE)
            k, v = keys.flatten(0, 1)[slots], values.flatten(0, 1)[slots]
            last = torch.tensor([total - 1], device="cuda")
            expected = reference(q[seq : seq + 1], k, v, last, scale=0.1)
            error = (out[seq].double() - expected[0]).norm() / expected.norm()
            assert error < 0.01, f"replay {step}, sequence {seq}: {error:.1e}"
