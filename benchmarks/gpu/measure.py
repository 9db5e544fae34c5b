"""What lesson 6's kernels, and others beside them, take on this GPU: microseconds."""

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu.inputs import (
    BLOCK_SIZE,
    Lengths,
    Shape,
    blocks_of,
    make_batch,
    random_pool,
)
from benchmarks.gpu.one_launch import Layers
from benchmarks.gpu.peers import peers_for
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.write import copy_blocks, write_kv
from minipaged.lab.measure.gpu_timing import microseconds, num_rotations
from minipaged.memory.kv_cache import LayerCache


def kv_bytes(shape: Shape, lengths: Lengths) -> int:
    """Bytes of K and V that must be read."""
    return sum(before + new for before, new in lengths) * shape[1] * shape[2] * 2 * 2


def paged(
    shape: Shape,
    lengths: Lengths,
    shuffled: bool = True,
    any_length: bool = False,
    block_size: int = BLOCK_SIZE,
) -> float:
    """Microseconds of our kernels; blocks in random or in ascending order.

    any_length: with the sizes of a graph that is to serve contexts from 1 token on.
    """
    needed = blocks_of(lengths, block_size)
    rotations = num_rotations(kv_bytes(shape, lengths))
    cache = LayerCache(*random_pool(rotations * needed, shape, block_size))
    order = torch.randperm if shuffled else torch.arange
    ids = order(rotations * needed).view(rotations, needed)
    batches = [make_batch(lengths, own, block_size) for own in ids]
    for batch in batches if any_length else ():
        batch.min_context_length = 1
    num_tokens = batches[0].query_starts[-1].item()
    q = torch.randn(num_tokens, shape[0], shape[2], device="cuda").bfloat16()
    masking = Masking(shape[2] ** -0.5)

    def call(batch) -> Callable[[], torch.Tensor]:
        return lambda: triton_attention(q, cache, batch, masking)

    return microseconds([call(batch) for batch in batches])


def step(shape: Shape, lengths: Lengths) -> float:
    """Microseconds of a layer, in a step of many layers: writes, reads and merges."""
    layers = Layers(shape, lengths)
    return layers.microseconds(layers.one_launch)


def peers(shape: Shape, lengths: Lengths) -> dict[str, float]:
    """Microseconds of other paged kernels that are installed, checked against ours."""
    needed, times = blocks_of(lengths), {}
    rotations = num_rotations(kv_bytes(shape, lengths))
    pools = [random_pool(needed, shape) for _ in range(rotations)]
    batch = make_batch(lengths, torch.randperm(needed))
    num_tokens = batch.query_starts[-1].item()
    q = torch.randn(num_tokens, shape[0], shape[2], device="cuda").bfloat16()
    cache, masking = LayerCache(*pools[-1]), Masking(shape[2] ** -0.5)
    expected = triton_attention(q, cache, batch, masking).float()
    for name, prepare in peers_for(batch).items():
        calls = prepare(q, pools, batch)
        times[name] = microseconds(calls)
        error = (calls[-1]().float() - expected).norm()
        assert error < 0.01 * expected.norm(), name
    return times


def contiguous(
    shape: Shape, lengths: Lengths, backend: SDPBackend | None = None
) -> float | None:
    """Microseconds of torch's attention, K and V of each sequence in one piece.

    None for uneven lengths, for chunks over a past, and where the backend refuses.
    """
    (before, new), num_seqs = lengths[0], len(lengths)
    if len(set(lengths)) > 1 or (before and new > 1):
        return None
    rotations = num_rotations(kv_bytes(shape, lengths))
    heads, kv_heads, dim = shape
    options = {"device": "cuda", "dtype": torch.bfloat16}
    size = (rotations, num_seqs, kv_heads, before + new, dim)
    keys, values = torch.randn(size, **options), torch.randn(size, **options)
    q = torch.randn(num_seqs, heads, new, dim, **options)

    def call(k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor]:
        return lambda: scaled_dot_product_attention(
            q, k, v, is_causal=new > 1, enable_gqa=True
        )

    calls = [call(k, v) for k, v in zip(keys, values, strict=True)]
    if backend is None:
        return microseconds(calls)
    expected = calls[-1]().float()
    try:
        with sdpa_kernel(backend):
            us, found = microseconds(calls), calls[-1]().float()
    except RuntimeError:
        return None
    assert (found - expected).norm() < 0.01 * expected.norm(), backend
    return us


def measure_decode(shape: Shape, lengths: Lengths) -> dict:
    """One cell of the grid."""
    nbytes, us = kv_bytes(shape, lengths), paged(shape, lengths)
    return {
        "kv_megabytes": round(nbytes / 1e6, 1),
        "paged": us,
        "same_kernel_contiguous": paged(shape, lengths, shuffled=False),
        "torch_contiguous": contiguous(shape, lengths),
        "cudnn_contiguous": contiguous(shape, lengths, SDPBackend.CUDNN_ATTENTION),
        "peers": peers(shape, lengths),
        "paged_again": paged(shape, lengths),  # how far to believe a difference
        "gb_per_s": round(nbytes / us / 1e3),
    }


def measure_prefill(shape: Shape, lengths: Lengths) -> dict:
    """One prefill; its operations are those of the pairs that are not masked."""
    pairs = sum(new * before + new * (new + 1) / 2 for before, new in lengths)
    operations = 4 * shape[0] * shape[2] * pairs
    times = {
        "paged": paged(shape, lengths),
        "torch_contiguous": contiguous(shape, lengths),
        "cudnn_contiguous": contiguous(shape, lengths, SDPBackend.CUDNN_ATTENTION),
    }
    others = peers(shape, lengths)
    rates = {
        f"{name}_tflop_per_s": us and round(operations / us / 1e6)
        for name, us in (times | others).items()
    }
    return times | {"peers": others} | rates


def measure_write(num_tokens: int, shape: Shape) -> dict:
    """New K and V of these tokens, to random slots; bytes read and written."""
    nbytes = 2 * 2 * num_tokens * shape[1] * shape[2] * 2
    num_blocks = max(4 * num_tokens // BLOCK_SIZE, 64)
    keys, values = random_pool(num_blocks, shape)
    calls = []
    for _ in range(num_rotations(nbytes)):
        slots = torch.randperm(num_blocks * BLOCK_SIZE, device="cuda")[:num_tokens]
        new = torch.randn(2, num_tokens, *shape[1:], device="cuda").bfloat16()
        calls.append(lambda s=slots, n=new: write_kv(keys, values, s, *n))
    return _moved(nbytes, microseconds(calls))


def measure_copy(num_copies: int, shape: Shape, num_layers: int = 28) -> dict:
    """Copies of whole blocks in all layers, in one launch; bytes read and written."""
    pools = [random_pool(2048, shape) for _ in range(num_layers)]
    tensors = [tensor for pool in pools for tensor in pool]
    nbytes = 2 * num_copies * sum(tensor[0].nbytes for tensor in tensors)
    calls = []
    for _ in range(num_rotations(nbytes)):
        copies = torch.randperm(2048, device="cuda")[: 2 * num_copies].view(-1, 2)
        calls.append(lambda c=copies: copy_blocks(tensors, c))
    return _moved(nbytes, microseconds(calls))


def _moved(nbytes: int, us: float) -> dict[str, float]:
    """A row of the report; beside it, a plain copy that reads and writes as much."""
    rotations = num_rotations(nbytes)
    source, target = torch.randn(2, rotations, nbytes // 8, device="cuda")
    pairs = list(zip(source, target, strict=True))
    plain = microseconds([lambda s=s, t=t: torch.mul(s, 1.0, out=t) for s, t in pairs])
    return {
        "megabytes": nbytes / 1e6,
        "us": us,
        "gb_per_s": round(nbytes / us / 1e3),
        "plain_copy_gb_per_s": round(nbytes / plain / 1e3),
    }
