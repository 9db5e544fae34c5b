"""Other paged kernels, where installed: what a user could pick instead of ours.

Each takes q [T, heads, dim], pools of K and V [num_blocks, block_size, kv heads, dim],
and one batch whose block table serves them all; each returns a call per pool. Whatever
depends on lengths alone is planned here, before anything is timed.
"""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch
from torch.nn.functional import pad

from minipaged.attention.backend import Masking

Pools = list[tuple[torch.Tensor, torch.Tensor]]
Calls = list[Callable[[], torch.Tensor]]
KERNELS = {"flashinfer": "flashinfer-python", "vllm": "vllm"}  # modules: packages
PACKAGES = KERNELS | {"nanovllm": "nano-vllm"}  # the last is an engine only


def installed(module: str) -> str | None:
    """The version of such a peer; a mere folder of its name has none."""
    try:
        return version(PACKAGES[module]) if find_spec(module) else None
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Those with kernels of their own that are installed here."""
    found = {module: installed(module) for module in KERNELS}
    return {module: version for module, version in found.items() if version}


def peers_for(batch) -> dict[str, Callable[[torch.Tensor, Pools, object], Calls]]:
    """The kernels that are installed and can serve such a batch."""
    only_decodes = batch.max_query_length == 1
    peers = {}
    if find_spec("flashinfer") and only_decodes:
        peers["flashinfer"] = flashinfer_decode
    if find_spec("vllm"):
        peers["vllm_flash_attention"] = vllm_flash_attention
        peers["vllm_triton"] = vllm_triton
    return peers


def flashinfer_decode(q: torch.Tensor, pools: Pools, batch) -> Calls:
    """FlashInfer's tensor-core kernel, one of its several for decoding."""
    import flashinfer

    keys, _ = pools[0]
    block_size = keys.shape[1]
    counts = -(-batch.context_lengths // block_size)
    indices = [row[:n] for row, n in zip(batch.block_tables, counts, strict=True)]
    workspace = torch.zeros(256 * 2**20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        workspace, "NHD", use_tensor_cores=True
    )
    wrapper.plan(
        pad(counts.cumsum(0), (1, 0)).int(),
        torch.cat(indices).int(),
        ((batch.context_lengths - 1) % block_size + 1).int(),
        num_qo_heads=q.shape[1],
        num_kv_heads=keys.shape[2],
        head_dim=q.shape[2],
        page_size=block_size,
        q_data_type=q.dtype,
        kv_data_type=keys.dtype,
    )
    return [lambda pool=pool: wrapper.run(q, pool) for pool in pools]


def vllm_flash_attention(q: torch.Tensor, pools: Pools, batch) -> Calls:
    """FlashAttention as vLLM ships and schedules it: version 3 on Hopper, else 2."""
    from vllm.vllm_flash_attn import flash_attn_varlen_func, is_fa_version_supported
    from vllm.vllm_flash_attn.flash_attn_interface import get_scheduler_metadata

    keys, _ = pools[0]
    longest_query, longest = batch.max_query_length, batch.max_context_length
    starts, lengths = batch.query_starts.int(), batch.context_lengths.int()
    options = {"fa_version": 2}
    if is_fa_version_supported(3):
        options["fa_version"] = 3
        options["scheduler_metadata"] = get_scheduler_metadata(
            batch_size=len(lengths),
            max_seqlen_q=longest_query,
            max_seqlen_k=longest,
            num_heads_q=q.shape[1],
            num_heads_kv=keys.shape[2],
            headdim=q.shape[2],
            cache_seqlens=lengths,
            qkv_dtype=q.dtype,
            cu_seqlens_q=starts,
            page_size=keys.shape[1],
            causal=True,
        )
    options |= {"cu_seqlens_q": starts, "max_seqlen_q": longest_query}
    options |= {"seqused_k": lengths, "max_seqlen_k": longest, "causal": True}
    options["block_table"] = _table_without_wild_ends(pools, batch)
    out = torch.empty_like(q)
    return [
        lambda pool=pool: flash_attn_varlen_func(q, *pool, out=out, **options)
        for pool in pools
    ]


def load_flash_attention_3(library: str | None = None) -> bool:
    """Is FlashAttention-3 there, as vLLM ships it, or this library of a vLLM wheel?"""
    if library is not None:
        torch.ops.load_library(library)
    elif find_spec("vllm"):
        from vllm.vllm_flash_attn import is_fa_version_supported

        return is_fa_version_supported(3)
    return library is not None


def flash_attention_3(q: torch.Tensor, pools: Pools, batch, masking: Masking) -> Calls:
    """FlashAttention-3 by its operators, which take windows, soft caps and sinks."""
    keys, _ = pools[0]
    longest = batch.max_query_length, batch.max_context_length
    starts, lengths = batch.query_starts.int(), batch.context_lengths.int()
    window = (-1, -1)
    if masking.sliding_window is not None:
        window = (masking.sliding_window - 1, 0)
    softcap = masking.softcap or 0.0
    operators = torch.ops._vllm_fa3_C
    heads, dim = q.shape[1:]
    plan = operators.get_scheduler_metadata(
        len(lengths), *longest, heads, keys.shape[2], dim, dim, q.dtype, lengths,
        starts, None, None, None, None, keys.shape[1], 0, True, *window, softcap > 0,
        0, None, 0,
    )  # fmt: skip
    table, out = _table_without_wild_ends(pools, batch), torch.empty_like(q)

    def call(pool: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        operators.fwd(
            q, *pool, *[None] * 3, out, starts, *[None] * 3, lengths, *longest, table,
            *[None] * 8, masking.scale, True, *window, softcap, True, plan, 0, None, 0,
            masking.sinks, 1, 0, None,
        )  # fmt: skip
        return out

    return [lambda pool=pool: call(pool) for pool in pools]


def vllm_triton(q: torch.Tensor, pools: Pools, batch) -> Calls:
    """vLLM's Triton kernel, split as its Triton backend (0.26) does it.

    On Hopper, vLLM itself would choose FlashAttention.
    """
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    splits, few = 16, 128 // pools[0][0].shape[2]  # splits for so few sequences
    partial = torch.empty(few, q.shape[1], splits, q.shape[2], device="cuda")
    out = torch.empty_like(q)
    options = {
        "cu_seqlens_q": batch.query_starts.int(),
        "max_seqlen_q": batch.max_query_length,
        "seqused_k": batch.context_lengths.int(),
        "max_seqlen_k": batch.max_context_length,
        "softmax_scale": q.shape[2] ** -0.5,
        "causal": True,
        "window_size": (-1, -1),
        "block_table": _table_without_wild_ends(pools, batch),
        "softcap": 0,
        "q_descale": None,
        "k_descale": None,
        "v_descale": None,
        "seq_threshold_3D": few,
        "num_par_softmax_segments": splits,
        "softmax_segm_output": partial,
        "softmax_segm_max": torch.empty_like(partial[..., 0]),
        "softmax_segm_expsum": torch.empty_like(partial[..., 0]),
    }

    def call(pool: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        unified_attention(q, *pool, out, **options)
        return out

    return [lambda pool=pool: call(pool) for pool in pools]


def _table_without_wild_ends(pools: Pools, batch) -> torch.Tensor:
    """In 32 bits, as they want it; they may read a row's end, if not what it names."""
    return batch.block_tables.clamp(max=len(pools[0][0]) - 1).int()
