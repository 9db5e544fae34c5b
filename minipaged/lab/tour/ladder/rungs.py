"""Lab: the ladder's rungs by name, from the bottom to the top."""

from collections.abc import Callable
from functools import partial

import torch

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.kernels.decode import paged_decode
from minipaged.attention.kernels.sizes import decode_sizes, device_of
from minipaged.lab.tour.ladder.check import check_rung
from minipaged.lab.tour.ladder.kv_head import per_kv_head
from minipaged.lab.tour.ladder.query_head import per_query_head
from minipaged.lab.tour.ladder.split import split
from minipaged.memory.kv_cache import LayerCache


def two_on_each(
    q: torch.Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> torch.Tensor:
    """As many splits as give every multiprocessor two programs."""
    pieces = len(batch.context_lengths) * cache.keys.shape[2]
    programs = 2 * device_of(q.device.index or 0).multiprocessors
    num_splits = max(1, programs // max(1, pieces))
    return split(q, cache, batch, masking, num_splits=num_splits)


def sized(
    q: torch.Tensor, cache: LayerCache, batch: AttentionBatch, masking: Masking
) -> torch.Tensor:
    """Tile, warps, stages and splits as the package's rule has them for the batch."""
    check_rung(q, cache, batch)
    lengths = batch.min_context_length, batch.max_context_length
    sizes, num_splits = decode_sizes(q, cache.values, len(q), *lengths)
    return split(
        q, cache, batch, masking,
        num_splits=num_splits,
        tile=sizes.tile,
        num_warps=sizes.num_warps,
        num_stages=sizes.num_stages,
    )  # fmt: skip


def shipped(
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    *,
    num_splits: int | None = None,
) -> torch.Tensor:
    """The package's kernel: its merge is launched while the splits still run."""
    check_rung(q, cache, batch)
    out = torch.empty_like(q)
    where = (batch.block_tables, batch.context_lengths, batch.query_starts)
    lengths = (batch.min_context_length, batch.max_context_length)
    paged_decode(
        out, q, cache.keys, cache.values, *where, *lengths, masking.scale,
        num_splits=num_splits,
    )  # fmt: skip
    return out


# Each is called with (q, cache, batch, masking). What is not said here is as before:
# tiles of 16, four warps, one stage; from `two_on_each` on, tiles of 64, four stages.
RUNGS: dict[str, Callable[..., torch.Tensor]] = {
    "one program per query head": per_query_head,
    "one program per KV head": partial(per_kv_head, matrix_units=False),
    "products on the matrix units": partial(per_kv_head, matrix_units=True),
    "tiles wider than a block": partial(per_kv_head, matrix_units=True, tile=64),
    "reads under way while computing": partial(
        per_kv_head, matrix_units=True, tile=64, num_stages=4
    ),
    "contexts split among programs": two_on_each,
    "sizes for the batch": sized,
    "the package's kernel": shipped,
}
