"""Random ragged batches over a shuffled, poisoned pool, and a float64 oracle."""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from minipaged.attention.backend import Attend, Masking
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.kv_cache import LayerCache
from minipaged.model.inputs import Chunk, RaggedBatch


@dataclass
class Case:
    """What attention is given, and what it must answer."""

    q: torch.Tensor  # [T, num_heads, key_dim]
    keys: torch.Tensor  # [num_blocks, block_size, num_kv_heads, key_dim]
    values: torch.Tensor
    batch: RaggedBatch
    contexts: list[
        tuple[torch.Tensor, torch.Tensor]
    ]  # each sequence's K and V, in order

    def attend(self, attention: Attend, **masking: Any) -> torch.Tensor:
        """Call it as a model does; `masking`: fields of Masking, the scale 1/4."""
        cache = LayerCache(self.keys, self.values)
        options = Masking(**{"scale": 0.25, **masking})
        return attention(self.q, cache, self.batch, options)


def make_case(
    lengths: list[tuple[int, int]],  # (tokens in the cache before, new tokens)
    num_heads: int = 4,
    num_kv_heads: int = 2,
    key_dim: int = 16,
    value_dim: int | None = None,
    block_size: int = 4,
    spread: float = 1.0,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    first_blocks: tuple[int, ...] = (),
) -> Case:
    """Blocks: the first ones, then in random order; slots nobody wrote hold NaN."""
    torch.manual_seed(seed)
    value_dim = value_dim or key_dim
    totals = [before + new for before, new in lengths]
    num_blocks = sum(-(-total // block_size) for total in totals) + 3
    pool = BlockPool(num_blocks, block_size)
    order = [b for b in torch.randperm(num_blocks).tolist() if b not in first_blocks]
    order += reversed(first_blocks)  # blocks are taken from the end
    for _ in range(num_blocks):
        pool.allocate()
    keys = torch.full((num_blocks, block_size, num_kv_heads, key_dim), float("nan"))
    values = torch.full((num_blocks, block_size, num_kv_heads, value_dim), float("nan"))
    chunks, contexts = [], []
    for total, (_, new) in zip(totals, lengths, strict=True):
        blocks = [order.pop() for _ in range(-(-total // block_size))]
        table = BlockTable(pool, blocks, total)
        slots = torch.tensor(table.slots(0, total))
        k = spread * torch.randn(total, num_kv_heads, key_dim)
        v = torch.randn(total, num_kv_heads, value_dim)
        keys.flatten(0, 1)[slots], values.flatten(0, 1)[slots] = k, v
        contexts.append((k.to(dtype), v.to(dtype)))
        chunks.append(Chunk([0] * new, table))
    batch = RaggedBatch.build(chunks)
    q = spread * torch.randn(len(batch.tokens), num_heads, key_dim)
    return Case(q.to(dtype), keys.to(dtype), values.to(dtype), batch, contexts)


@cache
def sinks_of(
    num_heads: int,
    dtype: torch.dtype = torch.float32,
    spread: float = 2.0,
    seed: int = 1,
) -> torch.Tensor:
    """A sink for each head; always the same tensor, for what is found by it."""
    generator = torch.Generator().manual_seed(seed)
    return (spread * torch.randn(num_heads, generator=generator)).to(dtype)


# What a wrong attention might take for the sinks of 4 query heads on 2 KV heads.
WRONG_SINKS = {
    "ignored": lambda sinks: None,
    "counted twice": lambda sinks: sinks + torch.tensor(2.0).log(),
    "one for each KV head": lambda sinks: sinks[::2].repeat_interleave(2),
    "those of other heads": lambda sinks: sinks.view(2, 2).T.flatten(),
    "scaled like a logit": lambda sinks: sinks / 4,
    "masked": lambda sinks: torch.full_like(sinks, -torch.inf),
}


def with_sinks(attention: Attend, change) -> Attend:
    """The attention, but that it takes `change(sinks)` for the model's sinks."""

    def changed(q, cache, batch, masking):
        sinks = change(masking.sinks)
        return attention(q, cache, batch, masking._replace(sinks=sinks))

    return changed


def moved(case: Case, device: str) -> Case:
    """The case with what attention is given on this device; the oracle's part stays."""
    for owner in (case, case.batch):
        for field in fields(owner):
            value = getattr(owner, field.name)
            if isinstance(value, torch.Tensor):
                setattr(owner, field.name, value.to(device))
    return case


def oracle(
    case: Case, *, scale=0.25, sliding_window=None, softcap=None, sinks=None
) -> torch.Tensor:
    """Attention as in the paper's equation (3), a sequence at a time, in float64."""

    def attend(q, k, v, hidden):
        logits = torch.einsum("hqd,hcd->hqc", q.double(), k.double()) * scale
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        logits = logits.masked_fill(hidden, float("-inf"))
        if sinks is None:
            return torch.softmax(logits, dim=-1) @ v.double()
        sink = sinks.double()[:, None, None]  # a weight that goes to nobody
        maximum = logits.amax(-1, keepdim=True).maximum(sink)
        weights = (logits - maximum).exp()
        total = weights.sum(-1, keepdim=True) + (sink - maximum).exp()
        return weights @ v.double() / total

    return by_sequence(case, attend, sliding_window)


def torchs_own(
    case: Case, *, scale=0.25, sliding_window=None, softcap=None, sinks=None
) -> torch.Tensor:
    """The same from torch's functions, in the case's own precision.

    Where they know no soft cap or no sinks, from matmul, tanh and softmax.
    """

    def attend(q, k, v, hidden):
        if softcap is None and sinks is None:
            return scaled_dot_product_attention(q, k, v, ~hidden, scale=scale)
        logits = q @ k.transpose(1, 2) * scale
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        logits = logits.masked_fill(hidden, float("-inf"))
        if sinks is not None:
            sink = sinks.to(q.dtype)[:, None, None].expand(-1, q.shape[1], 1)
            logits = torch.cat([logits, sink], dim=-1)
        return logits.softmax(dim=-1)[..., : k.shape[1]] @ v

    return by_sequence(case, attend, sliding_window)


def by_sequence(case: Case, attend, sliding_window: int | None) -> torch.Tensor:
    """attend(q, k, v, hidden) for each sequence alone, its KV heads repeated.

    It is given [heads, new, dim], [heads, context, dim] twice, and [new, context].
    """
    starts = case.batch.query_starts.tolist()
    rows = []
    spans = zip(case.contexts, starts[:-1], starts[1:], strict=True)
    for (k, v), start, stop in spans:
        q = case.q[start:stop].cpu().transpose(0, 1)
        group = q.shape[0] // k.shape[1]
        k, v = (x.transpose(0, 1).repeat_interleave(group, dim=0) for x in (k, v))
        own = torch.arange(k.shape[1] - q.shape[1], k.shape[1])[:, None]
        position = torch.arange(k.shape[1])
        hidden = position > own
        if sliding_window is not None:
            hidden = hidden | (own - position >= sliding_window)
        rows.append(attend(q, k, v, hidden).transpose(0, 1))
    return torch.cat(rows)
