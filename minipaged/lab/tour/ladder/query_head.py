"""Lab: the ladder's first rung, a program for each query head: lesson 5's loop."""

import torch

from minipaged.attention.backend import AttentionBatch, Masking
from minipaged.attention.kernels.setup import tl, triton
from minipaged.attention.kernels.sizes import LOG2_E
from minipaged.lab.tour.ladder.check import check_rung
from minipaged.memory.kv_cache import LayerCache


@triton.jit(do_not_specialize=["table_width"])
def _query_head_kernel(
    out, q, keys, values, block_tables, context_lengths, table_width, scale,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads that share a KV head
    DIM: tl.constexpr,
    TILE: tl.constexpr,  # positions read at a time
):  # fmt: skip
    # 1. Which head, which sequence; its query, its table, its K and V
    head, seq = tl.program_id(0), tl.program_id(1)
    context = tl.load(context_lengths + seq).to(tl.int32)
    column = tl.arange(0, DIM)
    place = (seq.to(tl.int64) * NUM_KV_HEADS * GROUP + head) * DIM + column
    q_row = tl.load(q + place).to(tl.float32)  # [DIM]
    table = block_tables + seq.to(tl.int64) * table_width
    kv_head = head // GROUP
    key_head, value_head = keys + kv_head * DIM, values + kv_head * DIM
    SLOT_STRIDE: tl.constexpr = NUM_KV_HEADS * DIM  # numbers from slot to slot
    maximum, total = float("-inf"), 0.0
    weighted = tl.zeros([DIM], tl.float32)
    for first in range(0, context, TILE):
        # 2. K and V of a tile, as `gather` reads them
        position = first + tl.arange(0, TILE)
        exists = position < context
        block = tl.load(table + position // BLOCK_SIZE, mask=exists, other=0)
        slots = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
        places = slots[:, None] * SLOT_STRIDE + column[None, :]  # [TILE, DIM]
        k = tl.load(key_head + places, mask=exists[:, None], other=0.0).to(tl.float32)
        v = tl.load(value_head + places, mask=exists[:, None], other=0.0).to(tl.float32)
        # 3. The logits: a product, written as a sum
        logits = tl.sum(k * q_row[None, :], 1) * scale  # [TILE]
        logits = tl.where(exists, logits, float("-inf"))
        # 4. Lesson 5's step: m, s and o
        new_maximum = tl.maximum(maximum, tl.max(logits, 0))
        weights, rescale = tl.exp2(logits - new_maximum), tl.exp2(maximum - new_maximum)
        total = total * rescale + tl.sum(weights, 0)
        weighted = weighted * rescale + tl.sum(weights[:, None] * v, 0)
        maximum = new_maximum
    tl.store(out + place, (weighted / total).to(out.dtype.element_ty))


def per_query_head(
    q: torch.Tensor,
    cache: LayerCache,
    batch: AttentionBatch,
    masking: Masking,
    *,
    tile: int = 16,
    num_warps: int = 4,
    num_stages: int = 1,
) -> torch.Tensor:
    """Every query head by itself. Shapes as in triton_attention.

    tile: positions read at a time. num_warps: over how many times 32 threads a program
    is spread. num_stages: above 1, the next tiles are read while one is computed.
    """
    check_rung(q, cache, batch)
    out = torch.empty_like(q)
    num_seqs, num_heads, dim = q.shape
    _, block_size, num_kv_heads, _ = cache.keys.shape
    _query_head_kernel[num_heads, num_seqs](
        out, q, cache.keys, cache.values, batch.block_tables, batch.context_lengths,
        batch.block_tables.shape[1], masking.scale * LOG2_E,
        BLOCK_SIZE=block_size,
        NUM_KV_HEADS=num_kv_heads,
        GROUP=num_heads // num_kv_heads,
        DIM=dim,
        TILE=tile,
        num_warps=num_warps,
        num_stages=num_stages,
    )  # fmt: skip
    return out
