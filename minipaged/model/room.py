"""Appendix D: how many blocks a GPU has room for: measured, not guessed."""

from typing import TYPE_CHECKING

import torch

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.model.positions import num_positions

if TYPE_CHECKING:
    from minipaged.model.paged_model import PagedModel

LARGEST_STEP = 8192  # tokens
SHARE = 0.9  # of the GPU's memory, for weights, blocks and the largest step


def blocks_with_room(paged: "PagedModel", block_size: int, share: float = SHARE) -> int:
    """How many blocks fit beside the weights and the largest step.

    A prompt of 8,192 tokens, or of as many as the model takes, is computed. The most
    memory that torch held meanwhile stays free. So does the part of the GPU that is not
    in `share`, by default a tenth, for CUDA graphs, merged weights and other programs.

    Raises ValueError without a GPU, and MemoryError if no block fits.
    Source: vLLM's profile run and its gpu_memory_utilization.
    """
    device = paged.device
    if device.type != "cuda":
        raise ValueError(
            f'num_blocks="auto" measures a GPU, and the model is on the {device.type}: '
            "give a number, or move it with model.to('cuda') before you wrap it"
        )
    positions = num_positions(paged.model.config) or LARGEST_STEP
    num_tokens = min(LARGEST_STEP, positions)
    num_blocks = -(-num_tokens // block_size)
    cache = paged.new_cache(num_blocks, block_size)
    table = BlockTable(BlockPool(num_blocks, block_size))
    table.append(num_tokens)
    batch = RaggedBatch.build([Chunk([0] * num_tokens, table)], device=device)
    torch.cuda.empty_cache()  # so that all that torch holds is in use
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    paged.forward_over(batch, cache)
    step = torch.cuda.max_memory_allocated(device) - before
    bytes_per_block = cache.bytes_per_block
    del cache  # its memory is free again
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    return blocks_in(free, total, step, bytes_per_block, share)


def blocks_in(
    free: int, total: int, step: int, bytes_per_block: int, share: float = SHARE
) -> int:
    """How many blocks fit into `free` bytes, if a step and 1 - share of all stay free.

    All sizes are in bytes. For example: blocks_in(free=70, total=80, step=10,
    bytes_per_block=10) is 5. Raises MemoryError if no block fits.
    """
    room = free - step - (1 - share) * total
    if room < bytes_per_block:
        raise MemoryError(
            f"of {total / 1e9:,.1f} GB on the GPU, {free / 1e9:,.1f} are free; the "
            f"largest step takes {step / 1e9:,.1f}, and {1 - share:.0%} of all are "
            "left alone: there is no room for blocks; use a smaller model, end what "
            "else is on this GPU, or try a number for num_blocks"
        )
    return int(room // bytes_per_block)
