"""Other paged kernels, where installed: what a user could pick instead of ours."""

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec

import torch


def available() -> dict[str, str]:
    """The peers that can be measured here, with their versions."""
    if find_spec("flashinfer") is None:
        return {}
    return {"flashinfer": version("flashinfer-python")}


def flashinfer_decode(
    q: torch.Tensor, pools: list[tuple[torch.Tensor, torch.Tensor]], batch
) -> list[Callable[[], torch.Tensor]]:
    """FlashInfer's tensor-core kernel over each pool (K and V); planned beforehand.

    q: [S, heads, dim]; a pool: [num_blocks, block_size, kv heads, dim] each. The plan
    depends on the lengths alone, so all calls share it, and the block table with it.
    """
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
        torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int(),
        torch.cat(indices).int(),
        ((batch.context_lengths - 1) % block_size + 1).int(),
        num_qo_heads=q.shape[1],
        num_kv_heads=keys.shape[2],
        head_dim=q.shape[2],
        page_size=block_size,
        q_data_type=q.dtype,
        kv_data_type=keys.dtype,
    )

    def call(pool: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], torch.Tensor]:
        return lambda: wrapper.run(q, pool)

    return [call(pool) for pool in pools]


PEERS: dict[str, Callable[..., list]] = {"flashinfer": flashinfer_decode}
