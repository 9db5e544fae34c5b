"""Lesson 2: one step: reserve, batch, forward, decide (paper, section 4.3)."""

from importlib import import_module
from itertools import groupby

from minipaged.decoding.request import Request, Turn
from minipaged.decoding.sequence import Sequence
from minipaged.errors import OutOfBlocks
from minipaged.memory.block_table import blocks_needed
from minipaged.model.paged_model import PagedModel
from minipaged.model.ragged_batch import Chunk, RaggedBatch


def step(
    paged: PagedModel, requests: list[Request], max_prompt_tokens: int | None = None
) -> None:
    """Compute what the requests' sequences have waiting, and let each request go on.

    Prompts and single tokens go through one forward together. A request whose prompt
    is computed to its end gets its logits; its strategy appends tokens, forks, frees.

    Args:
        max_prompt_tokens: compute at most so many prompt tokens in this step, first
            come first served; the rest of a prompt waits (chunked prefill).

    Raises OutOfBlocks before anything has changed. After any other exception the
    sequences are unusable and must be freed.
    Source: PagedAttention paper, section 4.3.
    """
    work = _share_out(requests, max_prompt_tokens)
    if not work:
        return
    needed = blocks_needed((sequence.table, n) for _, sequence, n in work)
    if needed > paged.pool.num_free:
        raise OutOfBlocks(needed, paged.pool.num_free, paged.pool.num_blocks)
    # From here to the copies nothing is freed: a source could be handed out again.
    copies, chunks, rows = [], [], []
    for request, sequence, n in work:
        start = sequence.table.num_tokens
        copies += sequence.table.append(n)
        chunk = Chunk(
            tokens=sequence.tokens[start : start + n],
            table=sequence.table,
            wants_logits=sequence.num_uncomputed == 0,
        )
        chunks.append(chunk)
        if chunk.wants_logits:
            rows.append(request)
    logits = paged.forward(RaggedBatch.build(chunks, copies, paged.device))
    turns: dict[str, list[Turn]] = {}
    numbered = groupby(enumerate(rows), key=lambda pair: id(pair[1]))
    for _, group in numbered:
        numbers, (request, *_) = zip(*group, strict=True)
        turns.setdefault(request.strategy, []).append(Turn(request, numbers))
    for strategy, own in turns.items():
        import_module(f"minipaged.decoding.{strategy}").advance(own, logits)


def _share_out(
    requests: list[Request], max_prompt_tokens: int | None
) -> list[tuple[Request, Sequence, int]]:
    """Which sequence computes how many tokens: single tokens all, prompts in order."""
    work, left = [], max_prompt_tokens
    for request in requests:
        for sequence in request.live:
            n = sequence.num_uncomputed
            if n > 1 and left is not None:
                n = min(n, left)
                left -= n
            if n:
                work.append((request, sequence, n))
    return work
