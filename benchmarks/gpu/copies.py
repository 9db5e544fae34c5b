"""Figure 19a of the PagedAttention paper, measured: swap or recompute 256 tokens.

    python -m benchmarks.gpu.copies --out copies.json

A model of OPT-13B's shape with random weights, in bfloat16. For each block size:
milliseconds of copies to pinned memory of the host and back, a copy for K and for V of
each block and each layer, as the first vLLM swapped; of SwapSpace, in one piece; and of
a forward that computes the tokens again. `whole` is a single pinned copy of as many
bytes, there and back: what the link can do.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import minipaged as mp
from benchmarks.gpu.report import rounded
from benchmarks.gpu.shapes import random_model
from minipaged.lab.measure.machine import describe_machine
from minipaged.memory.kv_cache import KVCache
from minipaged.memory.swap_space import SwapSpace

NUM_TOKENS = 256
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def milliseconds(work: Callable[[], object], rounds: int = 5) -> float:
    """The median of some rounds, by the wall clock; a first one warms up."""
    times = []
    for _ in range(rounds + 1):
        _synchronize()
        start = time.perf_counter()
        work()
        _synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Pieces:
    """All blocks of a cache and their places on the host, a pair for each piece."""

    def __init__(self, cache: KVCache):
        """Allocate the places, pinned if the cache is on a GPU."""
        tensors = [*cache.keys, *cache.values]
        self.pairs = []
        for tensor in tensors:
            place = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            self.pairs += zip(tensor.unbind(), place.unbind(), strict=True)

    def swap_out(self) -> None:
        """To the host, a copy for each piece."""
        for block, place in self.pairs:
            place.copy_(block, non_blocking=True)

    def swap_in(self) -> None:
        """And back."""
        for block, place in self.pairs:
            block.copy_(place, non_blocking=True)


def measure(
    model: torch.nn.Module, block_size: int, num_tokens: int = NUM_TOKENS
) -> dict[str, float]:
    """Milliseconds with blocks of this size; copies and bytes that go each way."""
    paged = mp.PagedModel(
        model, num_tokens // block_size, block_size, attention=mp.gathered_attention
    )
    table, space = mp.BlockTable(paged.pool), SwapSpace(paged.cache, num_tokens)
    table.append(num_tokens)
    chunk = mp.Chunk([7] * num_tokens, table)
    batch = mp.RaggedBatch.build([chunk], device=paged.device)
    ids, pieces = table.block_ids, Pieces(paged.cache)

    def one_piece() -> None:
        rows = space.store(ids)
        space.load(rows, ids)
        for row in rows:
            space.pool.release(row)

    return {
        "block_size": block_size,
        "copies": len(pieces.pairs),
        "bytes": sum(block.nbytes for block, _ in pieces.pairs),
        "swap_out": milliseconds(pieces.swap_out),
        "swap_in": milliseconds(pieces.swap_in),
        "swap_space": milliseconds(one_piece),
        "recompute": milliseconds(lambda: paged.forward(batch)),
    }


def whole(num_bytes: int, device: torch.device) -> dict[str, float]:
    """Milliseconds of one copy of so many bytes, out and in."""
    there = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
    here = torch.empty_like(there, device="cpu", pin_memory=there.is_cuda)
    return {
        "swap_out": milliseconds(lambda: here.copy_(there, non_blocking=True)),
        "swap_in": milliseconds(lambda: there.copy_(here, non_blocking=True)),
    }


def report(
    model: torch.nn.Module, sizes: Sequence[int] = BLOCK_SIZES, tokens: int = NUM_TOKENS
) -> dict[str, Any]:
    """All sizes, and the whole in one copy."""
    rows = []
    for size in sizes:
        rows.append(measure(model, size, tokens))
        print(
            *(f"{name} {number:.4g}" for name, number in rows[-1].items()), flush=True
        )
    config = model.config.get_text_config()
    return {
        "machine": describe_machine(),
        "shape": {
            name: getattr(config, name)
            for name in ("hidden_size", "num_attention_heads", "num_hidden_layers")
        },
        "num_tokens": tokens,
        "whole": whole(rows[-1]["bytes"], model.device),
        "by_block_size": rows,
    }


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = rounded(report(random_model(shape="opt-13b")))
    print(found["whole"])
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
