"""Pools and batches on the GPU for kernel benchmarks, and a float64 reference."""

from itertools import accumulate
from types import SimpleNamespace

import torch

from minipaged.attention.kernels.setup import INTERPRETED

DEVICE = "cpu" if INTERPRETED else "cuda"
DTYPE = torch.float16 if INTERPRETED else torch.bfloat16
BLOCK_SIZE = 16
Shape = tuple[int, int, int]  # query heads, KV heads, head_dim
Lengths = list[tuple[int, int]]  # per sequence: tokens in the cache before, new ones


def decodes(num_seqs: int, context: int) -> Lengths:
    """One new token for each of so many sequences, all as long."""
    return [(context - 1, 1)] * num_seqs


def ragged(num_seqs: int, shortest: int, longest: int) -> Lengths:
    """One new token each, at contexts of random length; always the same."""
    generator = torch.Generator().manual_seed(0)
    contexts = torch.randint(shortest, longest + 1, (num_seqs,), generator=generator)
    return [(context - 1, 1) for context in contexts.tolist()]


def blocks_of(lengths: Lengths, block_size: int = BLOCK_SIZE) -> int:
    """How many blocks the sequences hold together."""
    return sum(-(-(before + new) // block_size) for before, new in lengths)


def make_batch(
    lengths: Lengths, block_ids: torch.Tensor, block_size: int = BLOCK_SIZE
) -> SimpleNamespace:
    """An AttentionBatch whose sequences take these blocks, one after another.

    Rows of the table end in ids that do not exist: whoever reads them is found out.
    """
    totals = [before + new for before, new in lengths]
    counts = [-(-total // block_size) for total in totals]
    tables = torch.full((len(lengths), max(counts)), 10**9)
    ids = block_ids.cpu()
    for row, (start, count) in enumerate(
        zip(accumulate(counts, initial=0), counts, strict=False)
    ):
        tables[row, :count] = ids[start : start + count]
    starts = list(accumulate((new for _, new in lengths), initial=0))
    return SimpleNamespace(
        block_tables=tables.to(DEVICE),
        context_lengths=torch.tensor(totals, device=DEVICE),
        query_starts=torch.tensor(starts, device=DEVICE),
        max_query_length=max(new for _, new in lengths),
        min_context_length=min(totals),
        max_context_length=max(totals),
        rows_share=False,
        scratch={},
    )


def random_pool(
    num_blocks: int, shape: Shape, block_size: int = BLOCK_SIZE
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V [num_blocks, block_size, kv heads, head_dim]."""
    size = (num_blocks, block_size, *shape[1:])
    options = {"device": DEVICE, "dtype": DTYPE}
    return torch.randn(size, **options), torch.randn(size, **options)


def poison(
    keys: torch.Tensor, values: torch.Tensor, batch: SimpleNamespace, block_size: int
) -> None:
    """NaN in all slots but those of the batch's sequences."""
    used = torch.zeros(keys.shape[0] * block_size, dtype=torch.bool, device=DEVICE)
    for table, total in zip(
        batch.block_tables, batch.context_lengths.tolist(), strict=True
    ):
        used[slots_of(table, total, block_size)] = True
    for blocks in (keys, values):
        blocks.flatten(0, 1)[~used] = float("nan")


def slots_of(table: torch.Tensor, total: int, block_size: int) -> torch.Tensor:
    """Where a sequence's tokens lie, in order."""
    position = torch.arange(total, device=DEVICE)
    return table[position // block_size] * block_size + position % block_size


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    *,
    scale: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Equation (3) of the paper in float64, for some tokens of one sequence.

    q: [n, H, dim] at these positions; k, v: [context, kv heads, dim]. A KV head at a
    time, so that it fits in memory.
    """
    group = q.shape[1] // k.shape[1]
    seen = torch.arange(len(k), device=q.device)
    hidden = seen > positions[:, None]
    if sliding_window is not None:
        hidden |= seen <= positions[:, None] - sliding_window
    heads = []
    for kv_head in range(k.shape[1]):
        own = q[:, kv_head * group : (kv_head + 1) * group].double()
        logits = torch.einsum("ngd,cd->ngc", own, k[:, kv_head].double()) * scale
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        logits = logits.masked_fill(hidden[:, None], float("-inf"))
        weights = torch.softmax(logits, dim=-1)
        heads.append(torch.einsum("ngc,cd->ngd", weights, v[:, kv_head].double()))
    return torch.cat(heads, dim=1)
